import logging
from pathlib import Path
from typing import Any

import pytest

from ryeos.items.errors import RyeError, SpecError
from ryeos.items.headers import parse_header
from ryeos.sync.rules import FLOOR, PLACE, NameRules, PathPatterns, read_rules, rules_of
from tests.support.errors import coded

X1001 = ["x"] * 1001
ROOT = Path(__file__).parents[3]


def write(base: Path, text: str) -> Path:
    """A space with these rules."""
    path = base / PLACE
    path.parent.mkdir(parents=True)
    path.write_text(text, "utf-8")
    return base


# --- joined ---------------------------------------------------------------------------------------


def test_without_configuration_the_built_in_rules_apply() -> None:
    rules = rules_of([])

    assert rules.skip_dirs == ("state", "node_modules", ".venv", "__pycache__", ".git")
    assert rules.names == ("private_key.pem", "box_key.pem")
    assert rules.include == (".ai/",)
    assert not rules.takes_files


def test_lists_are_joined_in_order_each_entry_once() -> None:
    first = {"sync": {"include": ["src/"], "exclude": ["b/", "node_modules/"]}}
    second = {"sync": {"include": ["docs/", "src/"]}, "manifest": {"skip_dirs": ["x"]}}

    rules = rules_of([("first", first), ("second", second)])

    assert rules.include == (".ai/", "src/", "docs/")
    assert rules.exclude == (*FLOOR["sync"]["exclude"], "b/")
    assert rules.skip_dirs[-1] == "x"
    assert rules.takes_files


def test_an_empty_list_removes_no_rule() -> None:
    emptied: dict[str, Any] = {"manifest": {"hard_exclude": {"names": [], "patterns": None}}}

    assert rules_of([("x", emptied), ("y", {"manifest": None})]) == rules_of([])


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ({"sync": []}, "here: sync: expected a mapping, got list"),
        ({"sync": {"include": "src/"}}, "here: sync.include: expected a list of strings"),
        ({"sync": {"exclude": [1]}}, "here: sync.exclude: expected a list of strings"),
        ({"sync": {"include": X1001}}, "here: sync.include: expected at most 1000, got 1001"),
        (
            {"manifest": {"hard_exclude": {"patterns": ["a", "("]}}},
            "here: manifest.hard_exclude.patterns[1]: expected a pattern: found ( without )",
        ),
    ],
)  # fmt: skip
def test_an_invalid_value_is_reported(values: dict[str, Any], problem: str) -> None:
    with pytest.raises(SpecError) as error:
        rules_of([("here", values)])

    assert str(error.value) == problem


# --- read -----------------------------------------------------------------------------------------


def test_the_rules_of_all_spaces_are_read(tmp_path: Path) -> None:
    bundle = write(tmp_path / "bundle", "sync:\n  include: [a/]\n")
    user = write(tmp_path / "user", "# rye:signed:x\nsync:\n  include: [b/]\n")
    project = write(tmp_path / "project", "sync:\n  include: [c/]\n")

    rules = read_rules(bundles=[bundle], user=user, project=project)

    assert rules.include == (".ai/", "a/", "b/", "c/")


def test_a_space_without_a_file_adds_no_rules(tmp_path: Path) -> None:
    assert read_rules(bundles=[tmp_path], user=None, project=tmp_path) == rules_of([])


@pytest.mark.parametrize("text", ["[", "sync: {", "- a", "sync: !!python/object:os.system x"])
def test_an_unreadable_file_is_skipped_with_a_warning(
    tmp_path: Path, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    project = write(tmp_path / "project", text)

    with caplog.at_level(logging.WARNING):
        rules = read_rules(bundles=[], user=None, project=project)

    assert rules == rules_of([])
    assert f"{project / PLACE} is not used" in caplog.text


def test_a_file_with_only_comments_adds_no_rules(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    project = write(tmp_path / "project", "# sync:\n#  include: [src/]\n")

    assert read_rules(bundles=[], user=None, project=project) == rules_of([])
    assert caplog.text == ""


def test_the_rules_of_the_bundle_are_the_built_in_rules() -> None:
    text = (ROOT / "bundle.ai" / "config" / "cas" / "manifest.yaml").read_text("utf-8")

    assert rules_of([("bundle", parse_header(".yaml", text))]) == rules_of([])


# --- decisions ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "forbidden"),
    [
        ("private_key.pem", True),
        ("box_key.pem", True),
        ("public_key.pem", False),
        (".env", True),
        (".env.local", True),
        (".envrc", False),
        ("db.secret", True),
        ("db.secrets", True),
        ("secrets.md", False),
    ],
)
def test_secrets_are_recognised_by_name(name: str, *, forbidden: bool) -> None:
    assert NameRules(rules_of([])).forbids(name) is forbidden


@pytest.mark.parametrize(
    ("entry", "path", "matches"),
    [
        ("src/", "src/a/b.py", True),
        ("src/", "lib/src/a.py", False),
        ("node_modules/", "node_modules/", True),
        ("node_modules/", "a/node_modules/x", False),
        ("*.py", "a/b.py", True),
        ("src/*.py", "src/a/b.py", True),
        ("src/?.py", "src/ab.py", False),
        ("[ab].txt", "a.txt", True),
        ("src", "src/a.py", False),
        ("*.PY", "a.py", False),
        ("a.py", "a.py\n", False),
        ("", "a", False),
    ],
)
def test_an_entry_is_a_prefix_or_a_glob_over_the_whole_path(
    entry: str, path: str, *, matches: bool
) -> None:
    assert PathPatterns(["x/", "y", entry]).match(path) is matches


def test_files_outside_ai_are_synced_only_if_included() -> None:
    include, exclude = rules_of([("x", {"sync": {"include": ["*", ".ai/x"]}})]).file_rules()

    assert include.match("a/b")
    assert exclude.match(".ai/tools/a.py")
    assert exclude.match(".git/config")
    assert not exclude.match("a/b")


@pytest.mark.parametrize("text", ["sync: [", "- a", "sync: {include: [\ud800]}"])
def test_for_a_push_an_unreadable_file_is_an_error(tmp_path: Path, text: str) -> None:
    path = tmp_path / PLACE
    path.parent.mkdir(parents=True)
    path.write_bytes(text.encode("utf-8", "surrogatepass"))

    with pytest.raises(RyeError, check=coded("CONFIG_ERROR"), match=r"manifest\.yaml") as error:
        read_rules(bundles=[], user=None, project=tmp_path, is_strict=True)

    assert error.value.exit_status == 6
    assert read_rules(bundles=[], user=None, project=tmp_path) == rules_of([])
