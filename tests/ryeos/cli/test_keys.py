import os
import stat
from pathlib import Path

import pytest

from lillux.key_files import load_keypair
from lillux.signing import compute_key_fingerprint, generate_keypair
from ryeos.trust.store import parse_key_document
from tests.support.command_line import CommandLine, Stranger

# RFC 8410, section 10.3: a version 2 text, with its public half inside, is written by others.
PRIVATE_V2 = b"""\
-----BEGIN PRIVATE KEY-----
MFECAQEwBQYDK2VwBCIEIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f
gSEAA6EHv/POEL4dcN0Y50vAmWfk1jCbpQ1fHdyGZBJVMbg=
-----END PRIVATE KEY-----
"""
V2_FINGERPRINT = "f0ff50dacf109dea"

posix_only = pytest.mark.skipif(os.name == "nt", reason="Windows keeps permissions elsewhere")


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


# --- generate -------------------------------------------------------------------------------------


def test_a_new_key_counts_in_user_space_at_once(cli: CommandLine) -> None:
    made = cli.json("keys", "generate")

    listed = cli.json("keys", "list")["keys"]
    own = [key for key in listed if key["own"]]
    assert [(key["fingerprint"], key["owner"], key["space"]) for key in own] == [
        (made["fingerprint"], "local", "user")
    ]
    assert own[0]["counts"]
    assert own[0]["covers_all"]


def test_the_document_of_a_new_key_is_signed_by_that_key(cli: CommandLine) -> None:
    made = cli.json("keys", "generate", "--owner", "Ada Lovelace")

    document = parse_key_document(Path(made["document"]).read_bytes(), "")
    assert document.signature is not None
    assert document.signature.fingerprint == made["fingerprint"] == document.fingerprint
    assert document.owner == "Ada Lovelace"


@posix_only
def test_no_other_user_can_read_a_new_private_key(cli: CommandLine) -> None:
    cli("keys", "generate")

    assert mode(cli.key_directory) == 0o700
    assert mode(cli.key_directory / "private_key.pem") == 0o600
    assert mode(cli.user_space.ai) == 0o700


def test_a_second_key_is_refused_and_the_first_is_named(signer: CommandLine) -> None:
    fingerprint = signer.json("keys", "show")["fingerprint"]

    again = signer("keys", "generate")

    private = signer.key_directory / "private_key.pem"
    assert again.status == 1
    assert again.stdout == ""
    assert again.stderr == (
        f"error: {private}: a signing key is already there ({fingerprint})\n"
        "  hint: use it; or replace it, the old one is kept as .bak: rye keys generate --force\n"
    )
    assert signer.json("keys", "show")["fingerprint"] == fingerprint


def test_force_keeps_every_key_that_it_replaces(signer: CommandLine) -> None:
    first = (signer.key_directory / "private_key.pem").read_bytes()

    signer.json("keys", "generate", "--force")
    second = (signer.key_directory / "private_key.pem").read_bytes()
    signer.json("keys", "generate", "--force")

    assert (signer.key_directory / "private_key.pem.bak").read_bytes() == first
    assert (signer.key_directory / "private_key.pem.2.bak").read_bytes() == second


def test_force_without_a_key_works_as_without_force(cli: CommandLine) -> None:
    assert cli.json("keys", "generate", "--force")["backups"] == []


def test_a_broken_private_key_is_not_overwritten(cli: CommandLine) -> None:
    cli.key_directory.mkdir(parents=True)
    broken = cli.key_directory / "private_key.pem"
    broken.write_bytes(b"broken")

    refused = cli("keys", "generate")

    assert refused.stderr.startswith(f"error: {broken}: a signing key is already there\n")
    assert broken.read_bytes() == b"broken"


def test_an_owner_that_no_document_can_hold_leaves_no_key_behind(cli: CommandLine) -> None:
    refused = cli("keys", "generate", "--owner", 'a"b')

    assert refused.status == 6
    assert refused.stderr == (
        "error: owner: expected a plain name without quotes, backslashes or control characters\n"
    )
    assert not cli.key_directory.exists()


def test_a_key_may_live_outside_user_space(cli: CommandLine, tmp_path: Path) -> None:
    elsewhere = tmp_path / "safe"

    made = cli.json("keys", "generate", RYE_SIGNING_KEY_DIR=str(elsewhere))

    assert made["key_directory"] == str(elsewhere)
    assert (elsewhere / "private_key.pem").is_file()


@pytest.mark.parametrize("home", ["", str(Path("/").absolute())])
def test_without_a_home_no_key_is_made(cli: CommandLine, home: str) -> None:
    refused = cli("keys", "generate", HOME=home)

    root = Path("/").absolute()
    assert refused.status == 6
    assert refused.stderr == (
        f"error: no user space: expected a home folder, found {root}: neither HOME nor the system's"
        " entry of this user names another\n"
        "  hint: name a folder: USER_SPACE=DIR in the environment, or --user-space DIR\n"
    )


def test_a_home_that_cannot_be_written_to_is_named(cli: CommandLine, tmp_path: Path) -> None:
    home = tmp_path / "file"
    home.write_bytes(b"")

    refused = cli("keys", "generate", HOME=str(home))

    assert refused.status == 1
    assert refused.stderr.startswith(f"error: {home / '.ai'}: not a directory\n")


# --- show, export ---------------------------------------------------------------------------------


def test_show_prints_fingerprint_and_public_key(signer: CommandLine) -> None:
    keypair = load_keypair(signer.key_directory)

    shown = signer("keys", "show")

    fingerprint = compute_key_fingerprint(keypair.public_pem)
    assert shown.stdout == f"{fingerprint}\n{keypair.public_pem.decode()}"


def test_show_takes_the_id_of_a_key_that_list_prints(
    signer: CommandLine, stranger: Stranger
) -> None:
    pem = stranger.pem_file(signer.project)
    assert signer("keys", "trust", pem, "--owner", "ada").status == 0

    for typed in (stranger.fingerprint, f"fp:{stranger.fingerprint}", stranger.fingerprint[:9]):
        shown = signer.json("keys", "show", typed)
        assert (shown["fingerprint"], shown["counts"]) == (stranger.fingerprint, True)
        assert shown["public_pem"] == Path(pem).read_text("utf-8")
        assert [one["owner"] for one in shown["documents"]] == ["ada"]
    text = signer("keys", "show", stranger.fingerprint).stdout
    assert stranger.fingerprint in text
    assert "BEGIN PUBLIC KEY" in text
    unknown = signer("keys", "show", "0123456789abcdef")
    assert (unknown.status, "rye keys list" in unknown.stderr) == (3, True)


@pytest.mark.parametrize("command", [("show",), ("export",), ("export", "me.pem")])
def test_without_a_key_show_is_an_error(cli: CommandLine, command: tuple[str]) -> None:
    refused = cli("keys", *command)

    assert refused.status == 4
    assert refused.stderr == (
        f"error: no signing key in {cli.key_directory}\n  hint: make one with: rye keys generate\n"
    )


def test_show_says_when_the_own_key_does_not_count(signer: CommandLine) -> None:
    Path(signer.json("keys", "show")["document"]).unlink()

    shown = signer("keys", "show")

    assert shown.status == 0
    assert shown.stderr == (
        "warning: this key is not trusted, not even by you; fix that with: rye init\n"
    )


def test_export_writes_the_public_key(signer: CommandLine) -> None:
    public = load_keypair(signer.key_directory).public_pem

    printed = signer("keys", "export")
    written = signer("keys", "export", "me.pem")

    assert printed.stdout == public.decode()
    assert written.stdout == "wrote me.pem\n"
    assert (signer.project / "me.pem").read_bytes() == public


def test_export_again_is_no_conflict(signer: CommandLine) -> None:
    signer("keys", "export", "me.pem")

    assert signer("keys", "export", "me.pem").status == 0


def test_export_overwrites_no_other_file(signer: CommandLine) -> None:
    (signer.project / "notes.txt").write_bytes(b"mine")

    refused = signer("keys", "export", "notes.txt")

    assert refused.status == 1
    assert refused.stderr == (
        "error: notes.txt: another file is already there\n"
        "  hint: name another file, or remove that one first\n"
    )
    assert (signer.project / "notes.txt").read_bytes() == b"mine"


# --- import ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("source", ["file", "stdin", "environment"])
def test_a_key_can_come_from_anywhere(cli: CommandLine, source: str) -> None:
    keypair = generate_keypair()
    (cli.project / "key.pem").write_bytes(keypair.private_pem)

    match source:
        case "file":
            done = cli.json("keys", "import", "key.pem")
        case "stdin":
            done = cli.json("keys", "import", "-", stdin=keypair.private_pem)
        case _:
            one_line = keypair.private_pem.decode().replace("\n", "\\n")
            done = cli.json("keys", "import", RYE_SIGNING_KEY=one_line)

    assert done["fingerprint"] == compute_key_fingerprint(keypair.public_pem)
    assert load_keypair(cli.key_directory) == keypair
    assert cli.json("keys", "show")["counts"]


def test_a_version_2_key_is_kept_byte_for_byte(cli: CommandLine) -> None:
    done = cli.json("keys", "import", "-", stdin=PRIVATE_V2)

    assert done["fingerprint"] == V2_FINGERPRINT
    assert (cli.key_directory / "private_key.pem").read_bytes() == PRIVATE_V2


def test_importing_the_own_key_again_changes_nothing(signer: CommandLine) -> None:
    private = (signer.key_directory / "private_key.pem").read_bytes()

    assert signer.json("keys", "import", "-", stdin=private)["unchanged"]
    assert signer.json("keys", "import", "-", "--force", stdin=private)["backups"] == []


def test_importing_does_not_replace_another_key(signer: CommandLine) -> None:
    fingerprint = signer.json("keys", "show")["fingerprint"]

    refused = signer("keys", "import", "-", stdin=PRIVATE_V2)

    assert refused.status == 1
    assert "rye keys import --force" in refused.stderr
    assert signer.json("keys", "show")["fingerprint"] == fingerprint


def test_importing_by_force_keeps_the_other_key(signer: CommandLine) -> None:
    private = (signer.key_directory / "private_key.pem").read_bytes()

    done = signer.json("keys", "import", "-", "--force", stdin=PRIVATE_V2)

    assert done["fingerprint"] == V2_FINGERPRINT
    assert (signer.key_directory / "private_key.pem.bak").read_bytes() == private


def test_importing_without_a_source_names_the_possible_ones(cli: CommandLine) -> None:
    refused = cli("keys", "import")

    assert refused.status == 2
    assert refused.stderr == (
        "error: rye keys import: expected FILE, - or RYE_SIGNING_KEY, found none of them\n"
        "  hint: see: rye keys import --help\n"
    )


def test_importing_a_missing_file_names_it(cli: CommandLine) -> None:
    refused = cli("keys", "import", "nope.pem")

    assert refused.status == 2
    assert refused.stderr == (
        "error: nope.pem: expected a file, found none\n"
        "  hint: name the file of a PEM key; to make a new key: rye keys generate\n"
    )


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        (b"", "standard input: expected -----BEGIN PRIVATE KEY-----"),
        (b"\xff" * 100, "standard input: expected -----BEGIN PRIVATE KEY-----"),
        (b"-----BEGIN PUBLIC KEY-----\n", "standard input: expected -----BEGIN PRIVATE KEY-----"),
        (b"x" * 100_000, "standard input: expected"),
    ],
)
def test_a_text_that_is_no_private_key_is_refused(
    cli: CommandLine, given: bytes, problem: str
) -> None:
    refused = cli("keys", "import", "-", stdin=given)

    assert refused.status == 6
    assert refused.stderr.startswith(f"error: {problem}")
    assert not cli.key_directory.exists()


# --- private keys stay private --------------------------------------------------------------------


def test_no_command_ever_shows_a_private_key(signer: CommandLine) -> None:
    private = signer.key_directory / "private_key.pem"
    secret = private.read_text("ascii").splitlines()[1]
    mangled = private.read_bytes().replace(b"-----END", b"-----AND")

    outputs = [
        signer("keys", "show", "-v"),
        signer("keys", "show", "--json"),
        signer("keys", "list", "--json"),
        signer("keys", "export"),
        signer("keys", "trust", private),
        signer("keys", "import", private, "-v"),
        signer("keys", "import", "-", stdin=mangled),
        signer("keys", "import", "-", "--json", stdin=mangled),
        signer("keys", "import", RYE_SIGNING_KEY=mangled.decode()),
        signer("keys", "generate"),
        signer("keys", "generate", "--force", "--json"),
        signer("doctor", "--json"),
        signer("init", "--json"),
    ]

    assert [done for done in outputs if secret in done.stdout + done.stderr] == []
