import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages

import pytest

import lillux
import rye_services
import ryeos
from lillux.errors import LilluxError
from rye_services.refusal import RefusedError
from ryeos.items import errors
from ryeos.items.error_table import error_table, refusal_remedy, refusal_table
from ryeos.items.errors import (
    AmbiguousItemError,
    ChainError,
    ChainValidationError,
    ExecutorNotFoundError,
    IntegrityError,
    InvalidRefError,
    ItemNotFoundError,
    LockfileMismatchError,
    NoSignatureFormError,
    NoSigningKeyError,
    RyeError,
    SignatureFormatError,
    SpecError,
    UnsignedError,
    UntrustedKeyError,
    bundle_error,
    http_status_of,
    key_document_error,
)

VECTORS = Path(__file__).parents[2] / "vectors"


def all_classes(root: type[LilluxError]) -> Iterator[type[LilluxError]]:
    """An error and every class below it, but for those of tests."""
    if not root.__module__.startswith(("lillux", "rye")):
        return
    yield root
    for below in root.__subclasses__():
        yield from all_classes(below)


def classes(root: type[LilluxError]) -> Iterator[type[LilluxError]]:
    """Every class of failure below one."""
    for found in root.__subclasses__():
        if found.__module__ == errors.__name__:
            yield found
            yield from classes(found)


def test_codes_and_their_statuses_are_those_that_callers_rely_on() -> None:
    packages = (lillux, ryeos, rye_services)
    for module in (m for p in packages for m in walk_packages(p.__path__, f"{p.__name__}.")):
        import_module(module.name)
    known = set((VECTORS / "error-codes.txt").read_text("utf-8").splitlines())

    of_classes = {f"{one.code} {one.exit_status}" for one in all_classes(LilluxError)}
    of_table = {f"{code} {row.exit_status}" for code, row in error_table().items()}

    assert of_classes | of_table == known


def test_a_row_of_the_table_is_a_code_its_statuses_a_sentence_and_remedies() -> None:
    table = error_table()

    assert list(table.values()) == sorted(table.values(), key=lambda row: row.exit_status)
    assert all(code == row.code and row.meaning.endswith(".") for code, row in table.items())
    assert table["CONFLICT"].http_status == 409
    assert table["NO_SIGNING_KEY"].remedies[0] == "$ make one: rye keys generate"
    assert table["REMOTE_HEAD_LOST"].meaning.endswith("a machine that has the project restores it.")


def test_an_error_has_the_status_of_a_server_of_its_code_unless_its_class_has_another() -> None:
    assert http_status_of(ItemNotFoundError("a", ["project"])) == 404
    assert http_status_of(RyeError("taken", code="CONFLICT")) == 409
    assert http_status_of(RefusedError("too much", code="RESOURCE_EXCEEDED", status=429)) == 429
    assert http_status_of(LilluxError("a bug")) == 500


def test_a_refusal_is_advised_on_by_who_gave_it() -> None:
    assert refusal_remedy(413, "node") == "the node takes no request of this size"
    assert refusal_remedy(413, "registry") == "the registry takes nothing of this size"
    assert refusal_remedy(404, "node") == refusal_remedy(999, "node") == ""
    assert all(row.meaning for row in refusal_table().values())


CLASSES = sorted(set(classes(RyeError)), key=lambda found: found.__name__)


@pytest.mark.parametrize("failure", CLASSES, ids=lambda failure: failure.__name__)
def test_every_failure_has_a_code_a_status_and_a_description(
    failure: type[LilluxError],
) -> None:
    assert re.fullmatch("[A-Z_]+", failure.code)
    assert failure.code != "INTERNAL"
    assert failure.exit_status in range(1, 7)
    assert failure.__doc__


def test_every_failure_of_trust_has_the_same_status() -> None:
    trust: list[type[IntegrityError]] = [
        IntegrityError,
        UnsignedError,
        UntrustedKeyError,
        SignatureFormatError,
    ]

    assert {failure.exit_status for failure in trust} == {NoSigningKeyError.exit_status} == {4}
    assert [failure.state for failure in trust] == [
        "tampered",
        "unsigned",
        "untrusted-key",
        "bad-format",
    ]


def test_a_chain_that_cannot_be_built_is_a_wrong_value_too() -> None:
    assert issubclass(ChainError, ValueError)


@pytest.mark.parametrize(
    ("error", "message", "hint"),
    [
        (
            InvalidRefError("a b", "says nothing"),
            "item reference 'a b': says nothing",
            "a reference is kind:path, like tool:rye/bash/bash, or just the path",
        ),
        (
            AmbiguousItemError("a", ["tool:a", "knowledge:a"]),
            "a: more than one item has this id: tool:a, knowledge:a",
            "name the kind, like tool:a",
        ),
        (
            ItemNotFoundError("directive:a", ["project", "user"]),
            "Directive not found: a (searched: project, user)",
            "list what there is with: rye search '*'",
        ),
        (
            bundle_error("/b", "no key"),
            "bundle /b: no key",
            "a bundle is an absolute folder that holds .ai/ (see RYE_BUNDLE_PATH)",
        ),
        (
            SpecError("config.x", "expected a string"),
            "config.x: expected a string",
            "correct it where it is written",
        ),
        (key_document_error("/k.toml", "no key"), "/k.toml: no key", ""),
        (
            NoSigningKeyError("/keys"),
            "no signing key in /keys",
            "make one with: rye keys generate",
        ),
        (
            NoSignatureFormError("/x.rs", ".rs"),
            "/x.rs: no signature form for files ending in '.rs'",
            "",
        ),
        (
            ExecutorNotFoundError("a/b", "c"),
            "Executor not found: a/b (needed by c)",
            "list what there is with: rye search '*' --type tool",
        ),
        (
            ExecutorNotFoundError("a/b", "c", suggestions=["tool:a/c"]),
            "Executor not found: a/b (needed by c)",
            "did you mean tool:a/c?",
        ),
        (
            ExecutorNotFoundError("a/b", "c", out_of_reach="project"),
            "Executor not found: a/b (needed by c)",
            "project space has it, but only items of that space may use it",
        ),
        (
            ChainValidationError(["one", "two"]),
            "Chain validation failed: one; two",
            "see every element's file, space and version: rye chain ITEM",
        ),
        (
            LockfileMismatchError("Lockfile integrity mismatch for a", "a", "/l"),
            "Lockfile integrity mismatch for a (lockfile: /l)",
            "if you meant this change: rye lock update a",
        ),
    ],
)
def test_a_failure_names_the_found_value_and_the_fix(
    error: RyeError, message: str, hint: str
) -> None:
    assert (str(error), error.hint) == (message, hint)
