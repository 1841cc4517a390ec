from pathlib import Path
from typing import Any

import pytest

from lillux.key_files import load_keypair
from lillux.signing import KeyPair, compute_key_digest, compute_key_fingerprint, generate_keypair
from ryeos.items.refs import Kind
from ryeos.trust.signature import SignedText, form_for
from ryeos.trust.signing_key import SigningKey
from ryeos.trust.store import document_path
from tests.support.command_line import CommandLine, Stranger, key_document, place_document

UNKNOWN = "0123456789abcdef"


def listed(cli: CommandLine, fingerprint: str) -> list[dict[str, Any]]:
    """The documents of one key, as ``keys list`` has them."""
    keys: list[dict[str, Any]] = cli.json("keys", "list")["keys"]
    return [key for key in keys if key["fingerprint"] == fingerprint]


def signed_tool(cli: CommandLine, keypair: KeyPair) -> Path:
    """A shell tool in the project, signed by the given key."""
    text = (
        'version: "1.0.0"\ntool_type: bash\nexecutor_id: rye/core/runtimes/bash/bash\n'
        'category: "mine"\ndescription: test\nconfig: {script: echo hello}\n'
    )
    path = cli.project_space.directory(Kind.TOOL) / "mine" / "hello.yaml"
    path.parent.mkdir(parents=True)
    body = SignedText(shebang="", signature=None, covers=None, body=text)
    form = form_for(Kind.TOOL, ".yaml")
    path.write_text(SigningKey(keypair).signed_text(Kind.TOOL, body, form, ""), "utf-8")
    return path


# --- a file ---------------------------------------------------------------------------------------


def test_trusting_a_pem_file_lets_items_of_that_key_run(
    signer: CommandLine, stranger: Stranger
) -> None:
    signed_tool(signer, stranger.keypair)
    before = signer("run", "mine/hello")

    trusted = signer("keys", "trust", stranger.pem_file(signer.project), "--owner", "ada")

    assert before.status == 4
    assert trusted.status == 0
    assert trusted.stdout == f"{stranger.fingerprint} (ada) is trusted now\n"
    assert signer("run", "mine/hello").stdout == "hello\n"


def test_the_document_of_a_trusted_key_is_signed_by_the_own_key(
    signer: CommandLine, stranger: Stranger
) -> None:
    own = signer.json("keys", "show")["fingerprint"]

    done = signer.json("keys", "trust", stranger.pem_file(signer.project))

    assert f":{own}\n" in Path(done["path"]).read_text("utf-8")
    assert done["path"] == str(document_path(signer.user_space, stranger.fingerprint))


def test_a_bare_key_gets_no_coverage_mark(signer: CommandLine, stranger: Stranger) -> None:
    done = signer.json("keys", "trust", stranger.pem_file(signer.project))

    assert done["covers_all"] is False


@pytest.mark.parametrize(
    ("self_signed", "marked", "expected"),
    [(True, True, True), (True, False, False), (False, True, False)],
)
def test_the_mark_is_taken_over_only_from_a_document_that_the_key_itself_signed(
    signer: CommandLine, stranger: Stranger, *, self_signed: bool, marked: bool, expected: bool
) -> None:
    signed_by = stranger.keypair if self_signed else generate_keypair()
    text = key_document(stranger.keypair, signed_by, covers_all=marked)
    (signer.project / "ada.toml").write_text(text, "utf-8")

    done = signer.json("keys", "trust", "ada.toml")

    assert done["covers_all"] is expected
    assert done["owner"] == "ada"


def test_an_unsigned_document_gives_its_key_but_not_its_mark(
    signer: CommandLine, stranger: Stranger
) -> None:
    (signer.project / "ada.toml").write_text(
        key_document(stranger.keypair, None, covers_all=True), "utf-8"
    )

    assert signer.json("keys", "trust", "ada.toml")["covers_all"] is False


@pytest.mark.parametrize("self_signed", [True, False])
def test_a_document_that_was_changed_after_signing_is_refused(
    signer: CommandLine, stranger: Stranger, *, self_signed: bool
) -> None:
    signed_by = stranger.keypair if self_signed else generate_keypair()
    text = key_document(stranger.keypair, signed_by, owner="eve")
    (signer.project / "ada.toml").write_text(text.replace("eve", "ada"), "utf-8")

    refused = signer("keys", "trust", "ada.toml")

    assert refused.status == 6
    assert refused.stderr == "error: ada.toml: changed since it was signed\n"


def test_a_user_who_calls_the_own_key_local_does_not_become_local(
    signer: CommandLine, stranger: Stranger
) -> None:
    text = key_document(stranger.keypair, stranger.keypair, owner="local")
    (signer.project / "theirs.toml").write_text(text, "utf-8")

    assert signer.json("keys", "trust", "theirs.toml")["owner"] == "unknown"


def test_trusting_again_keeps_known_fields(signer: CommandLine, stranger: Stranger) -> None:
    text = key_document(stranger.keypair, stranger.keypair, covers_all=True)
    (signer.project / "ada.toml").write_text(text, "utf-8")
    signer("keys", "trust", "ada.toml")

    again = signer.json("keys", "trust", stranger.pem_file(signer.project))

    assert again["covers_all"]
    assert again["owner"] == "ada"


def test_trusting_the_own_public_key_fixes_a_lost_document(signer: CommandLine) -> None:
    document = Path(signer.json("keys", "show")["document"])
    document.unlink()

    signer.json("keys", "trust", signer.key_directory / "public_key.pem")

    assert signer.json("keys", "show")["counts"]


def test_a_new_document_in_the_project_counts_at_once_for_its_writer(
    signer: CommandLine, stranger: Stranger
) -> None:
    pem = stranger.pem_file(signer.project)

    done = signer.json("keys", "trust", pem, "--space", "project", "--owner", "ada")

    assert done["path"] == str(document_path(signer.project_space, stranger.fingerprint))
    assert [key["counts"] for key in listed(signer, stranger.fingerprint)] == [True]


def test_the_own_key_in_a_project_is_a_document_that_others_can_take_over(
    signer: CommandLine,
) -> None:
    public = signer.key_directory / "public_key.pem"

    done = signer.json("keys", "trust", public, "--space", "project", "--owner", "grace")

    assert done["owner"] == "grace"
    assert done["covers_all"]


def test_without_an_own_key_no_document_is_written(cli: CommandLine, stranger: Stranger) -> None:
    refused = cli("keys", "trust", stranger.pem_file(cli.project))

    assert refused.status == 4
    assert refused.stderr == (
        f"error: no signing key in {cli.key_directory}\n  hint: make one with: rye keys generate\n"
    )


def test_a_private_key_is_not_taken_for_a_public_one(signer: CommandLine) -> None:
    private = signer.key_directory / "private_key.pem"

    refused = signer("keys", "trust", private)

    assert refused.status == 6
    assert refused.stderr.splitlines()[0] == (
        f"error: {private}: expected -----BEGIN PUBLIC KEY-----, found -----BEGIN PRIVATE KEY-----"
    )


@pytest.mark.parametrize(
    ("content", "status"), [(b"", 6), (b"\xff\xfe", 6), (b'owner = "x"\n', 6), (b"x" * 70_000, 6)]
)
def test_a_file_without_a_key_is_refused(signer: CommandLine, content: bytes, status: int) -> None:
    (signer.project / "junk").write_bytes(content)

    refused = signer("keys", "trust", "junk")

    assert refused.status == status
    assert refused.stderr.startswith("error: junk: ")


@pytest.mark.parametrize("typed", ["nope.pem", "../../etc/nothing", "xyz", "0123456789abcde", ""])
def test_a_word_that_is_neither_file_nor_fingerprint_is_refused(
    signer: CommandLine, typed: str
) -> None:
    refused = signer("keys", "trust", typed)

    assert refused.status in {1, 2}
    assert "Traceback" not in refused.stderr
    assert refused.stderr.startswith("error: ")


# --- a key that the project carries ---------------------------------------------------------------


def test_a_carried_key_counts_after_its_fingerprint_was_approved(
    signer: CommandLine, stranger: Stranger
) -> None:
    signed_tool(signer, stranger.keypair)
    text = key_document(stranger.keypair, stranger.keypair)
    document = place_document(signer.project_space, stranger.keypair, text)
    before = signer("run", "mine/hello")

    approved = signer("keys", "trust", stranger.fingerprint)

    assert before.status == 4
    assert f"rye keys trust {stranger.fingerprint}" in before.stderr
    assert approved.stdout == f"{stranger.fingerprint} is trusted in {signer.project} now\n"
    assert approved.stderr == (f"owner, in the words of its document: ada\ndocument: {document}\n")
    assert signer("run", "mine/hello").stdout == "hello\n"


def test_approving_needs_no_own_key(cli: CommandLine, stranger: Stranger) -> None:
    place_document(cli.project_space, stranger.keypair, key_document(stranger.keypair, None))

    assert cli("keys", "trust", stranger.fingerprint.upper()).status == 0
    assert [key["counts"] for key in listed(cli, stranger.fingerprint)] == [True]


def test_an_approval_is_for_one_project_only(
    signer: CommandLine, stranger: Stranger, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    for folder in (signer.project, other):
        document = folder / ".ai/config/keys/trusted" / f"{stranger.fingerprint}.toml"
        document.parent.mkdir(parents=True)
        document.write_text(key_document(stranger.keypair, None), "utf-8")

    signer("keys", "trust", stranger.fingerprint)

    there = signer.json("keys", "list", cwd=other)["keys"]
    states = {key["fingerprint"]: key["counts"] for key in there}
    assert states[stranger.fingerprint] is False


def test_approving_twice_says_so(signer: CommandLine, stranger: Stranger) -> None:
    place_document(signer.project_space, stranger.keypair, key_document(stranger.keypair, None))
    signer("keys", "trust", stranger.fingerprint)

    again = signer("keys", "trust", stranger.fingerprint)

    assert again.status == 0
    assert again.stdout == f"{stranger.fingerprint} (ada) is trusted already\n"


def test_an_unknown_fingerprint_is_not_found(signer: CommandLine) -> None:
    refused = signer("keys", "trust", UNKNOWN)

    assert refused.status == 3
    assert refused.stderr == (
        f"error: key {UNKNOWN}: not found in any space\n  hint: list keys with: rye keys list\n"
    )


def test_outside_a_project_approving_is_refused(signer: CommandLine) -> None:
    refused = signer("keys", "trust", UNKNOWN, cwd=signer.home)

    assert refused.status == 2
    assert refused.stderr.startswith("error: no project: ")


def test_a_carried_document_that_was_changed_is_not_approved(
    signer: CommandLine, stranger: Stranger
) -> None:
    text = key_document(stranger.keypair, stranger.keypair, owner="eve").replace("eve", "ada")
    document = place_document(signer.project_space, stranger.keypair, text)

    refused = signer("keys", "trust", stranger.fingerprint)

    assert refused.status == 6
    assert refused.stderr.endswith(f"error: {document}: changed since it was signed\n")
    assert [key["counts"] for key in listed(signer, stranger.fingerprint)] == [False]


def test_a_carried_document_under_the_name_of_another_key_is_not_approved(
    signer: CommandLine, stranger: Stranger
) -> None:
    document = document_path(signer.project_space, UNKNOWN)
    document.parent.mkdir(parents=True)
    document.write_text(key_document(stranger.keypair, None), "utf-8")

    refused = signer("keys", "trust", UNKNOWN)

    assert refused.status == 6
    assert f"its key is {stranger.fingerprint}, not {UNKNOWN}" in refused.stderr


def test_a_carried_key_can_be_taken_over_into_user_space(
    signer: CommandLine, stranger: Stranger
) -> None:
    text = key_document(stranger.keypair, stranger.keypair, covers_all=True)
    place_document(signer.project_space, stranger.keypair, text)

    done = signer.json("keys", "trust", stranger.fingerprint, "--space", "user")

    assert done["path"] == str(document_path(signer.user_space, stranger.fingerprint))
    assert done["covers_all"]


def test_an_approval_holds_no_owner(signer: CommandLine, stranger: Stranger) -> None:
    place_document(signer.project_space, stranger.keypair, key_document(stranger.keypair, None))

    refused = signer("keys", "trust", stranger.fingerprint, "--owner", "ada")

    assert refused.status == 2
    assert refused.stderr == (
        "error: --owner: expected with a file or with --space user\n"
        "  hint: see: rye keys trust --help\n"
    )


# --- list -----------------------------------------------------------------------------------------


def test_list_shows_the_bundle_and_the_own_key(signer: CommandLine) -> None:
    fingerprint = signer.json("keys", "show")["fingerprint"]

    shown = signer("keys", "list").stdout.splitlines()

    assert shown[0] == f"yes  {fingerprint}  local         user  (yours)"
    assert shown[1].endswith("  ryeos         system:ryeos")


def test_list_says_why_a_document_does_not_count(signer: CommandLine, stranger: Stranger) -> None:
    document = place_document(
        signer.project_space, stranger.keypair, key_document(stranger.keypair, None)
    )

    shown = signer("keys", "list").stdout.splitlines()

    assert shown[:3] == [
        f"no   {stranger.fingerprint}  ada           project",
        f"       not approved for this project: {document}",
        f"       hint: if you know whose key it is: rye keys trust {stranger.fingerprint}",
    ]


def test_an_owner_cannot_write_to_the_terminal(signer: CommandLine, stranger: Stranger) -> None:
    text = key_document(stranger.keypair, None).replace('"ada"', '"\\u001b[2Ja\\nda"')
    place_document(signer.project_space, stranger.keypair, text)

    outputs = [signer("keys", "list"), signer("keys", "trust", stranger.fingerprint)]

    assert all("\x1b" not in done.stdout + done.stderr for done in outputs)


def test_a_broken_approvals_file_is_named(signer: CommandLine, stranger: Stranger) -> None:
    place_document(signer.project_space, stranger.keypair, key_document(stranger.keypair, None))
    approvals = signer.user_space.ai / "config" / "keys" / "approved.json"
    approvals.write_text("{", "utf-8")

    refused = signer("keys", "list")

    assert refused.status == 6
    assert refused.stderr.startswith(f"error: {approvals}: expected JSON, found: ")


# --- untrust --------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["{short}", "fp:{short}", "FP:{short}", "{whole}"])
def test_a_key_is_named_as_any_list_shows_it(
    signer: CommandLine, stranger: Stranger, form: str, tmp_path: Path
) -> None:
    whole = compute_key_digest(stranger.keypair.public_pem)
    typed = form.format(short=stranger.fingerprint, whole=whole)
    pem = str(stranger.pem_file(tmp_path))

    trusted = signer("keys", "trust", pem, "--fingerprint", typed)
    removed = signer("keys", "untrust", typed)

    assert trusted.status == 0, trusted.stderr
    assert removed.stdout == f"{stranger.fingerprint} is no longer trusted\n"


def test_an_untrusted_key_no_longer_counts(signer: CommandLine, stranger: Stranger) -> None:
    signer("keys", "trust", stranger.pem_file(signer.project))

    done = signer("keys", "untrust", stranger.fingerprint)

    assert done.status == 0
    assert done.stdout == f"{stranger.fingerprint} is no longer trusted\n"
    assert listed(signer, stranger.fingerprint) == []


def test_untrusting_a_carried_key_withdraws_the_approval(
    signer: CommandLine, stranger: Stranger
) -> None:
    place_document(signer.project_space, stranger.keypair, key_document(stranger.keypair, None))
    signer("keys", "trust", stranger.fingerprint)

    done = signer.json("keys", "untrust", stranger.fingerprint)

    assert done["approval_withdrawn"]
    assert [key["counts"] for key in listed(signer, stranger.fingerprint)] == [False]


def test_untrusting_a_carried_key_that_does_not_count_changes_nothing(
    signer: CommandLine, stranger: Stranger
) -> None:
    place_document(signer.project_space, stranger.keypair, key_document(stranger.keypair, None))

    assert signer.json("keys", "untrust", stranger.fingerprint)["unchanged"]


def test_the_own_key_is_not_untrusted_by_mistake(signer: CommandLine) -> None:
    own = signer.json("keys", "show")["fingerprint"]

    refused = signer("keys", "untrust", own)

    assert refused.status == 1
    assert refused.stderr == (
        f"error: key {own} is your own signing key\n"
        "  hint: without its document nothing that you signed is valid; --force removes it\n"
    )
    assert signer.json("keys", "show")["counts"]


def test_the_own_key_is_untrusted_by_force(signer: CommandLine) -> None:
    own = signer.json("keys", "show")["fingerprint"]

    signer.json("keys", "untrust", own, "--force")

    assert not signer.json("keys", "show")["counts"]
    assert compute_key_fingerprint(load_keypair(signer.key_directory).public_pem) == own


def test_the_key_of_a_bundle_goes_with_the_bundle(signer: CommandLine) -> None:
    bundled = signer.json("keys", "list")["keys"][-1]["fingerprint"]

    refused = signer("keys", "untrust", bundled)

    assert refused.status == 2
    assert refused.stderr == (
        f"error: key {bundled} came with system:ryeos and is trusted for its items only\n"
        "  hint: it goes when that bundle goes\n"
    )


def test_an_unknown_key_cannot_be_untrusted(signer: CommandLine) -> None:
    assert signer("keys", "untrust", UNKNOWN).status == 3


@pytest.mark.parametrize("typed", ["../../../x", "xyz", "", "0123456789abcdef0"])
def test_only_a_fingerprint_can_be_untrusted(signer: CommandLine, typed: str) -> None:
    refused = signer("keys", "untrust", typed)

    assert refused.status == 2
    assert refused.stderr == (
        f"error: {typed!r}: expected a fingerprint of 16 hex digits\n"
        "  hint: see: rye keys untrust --help\n"
    )
