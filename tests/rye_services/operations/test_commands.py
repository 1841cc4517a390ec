"""``rye-node.pyz`` on the command line and in scripts."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from lillux.signing import KeyPair, compute_key_fingerprint, generate_keypair
from rye_services.operations.cli import main
from ryeos import __version__
from ryeos.remote.identity import encode_public_key
from tests.support.workspace import ROOT


@pytest.fixture(scope="module")
def ada() -> KeyPair:
    """The key of a client."""
    return generate_keypair()


@pytest.fixture(autouse=True)
def own_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A separate home, and an environment without variables of a node."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    for name in ("PORT", "DATABASE_URL", "RYE_NODE_DATA"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def data(tmp_path: Path) -> str:
    """The folder of a node that was never started."""
    return str(tmp_path / "data")


def ended(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Status, standard output and standard error of a command."""
    try:
        status = main(list(arguments))
    except SystemExit as exit_:  # of --help
        status = int(exit_.code or 0)
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def answer(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:  # noqa: ANN401 - JSON
    """The one JSON document of a command with ``--json``, its status beside it."""
    status, out, _ = ended(capsys, *arguments, "--json")
    return status, json.loads(out)


@pytest.mark.heavy
def test_a_key_is_added_listed_and_revoked(
    capsys: pytest.CaptureFixture[str], data: str, ada: KeyPair, tmp_path: Path
) -> None:
    pem, fingerprint = tmp_path / "public_key.pem", compute_key_fingerprint(ada.public_pem)
    pem.write_bytes(ada.public_pem)

    added = ended(capsys, "keys", "add", str(pem), "--label", "Ada's laptop", "--data", data)
    listed = ended(capsys, "keys", "list", "--data", data)
    revoked = ended(capsys, "keys", "revoke", f"fp:{fingerprint}", "--data", data)
    after = ended(capsys, "keys", "list", "--data", data)

    assert added == (0, f"authorised fp:{fingerprint} for remote:*\n", "")
    assert listed == (0, f"fp:{fingerprint}  remote:*  Ada's laptop\n", "")
    assert revoked == (0, f"revoked fp:{fingerprint}\n", "")
    assert after == (0, "no keys\n", "")


def test_a_key_may_be_given_as_a_node_shows_keys(
    capsys: pytest.CaptureFixture[str], data: str, ada: KeyPair
) -> None:
    text = encode_public_key(ada.public_pem)

    status, shown = answer(
        capsys,
        "keys",
        "add",
        text,
        "--scope",
        "remote:push",
        "--expires-days",
        "30",
        "--data",
        data,
    )
    _, listed = answer(capsys, "keys", "list", "--data", data)

    fingerprint = f"fp:{compute_key_fingerprint(ada.public_pem)}"
    assert status == 0
    assert shown == {
        "status": "success",
        "fingerprint": fingerprint,
        "label": "",
        "scopes": ["remote:push"],
    }
    (key,) = listed["keys"]
    assert (key["fingerprint"], key["scopes"]) == (fingerprint, ["remote:push"])
    assert key["expires_at"] > key["created_at"]


@pytest.mark.parametrize(
    ("flags", "scopes"),
    [
        ((), ["remote:*"]),
        (("--admin",), ["*"]),
        (("--publish", "ada/*"), ["remote:*", "registry:read", "registry:write"]),
        (("--scope", "node.metrics"), ["node.metrics"]),
    ],
)
def test_a_key_gets_more_than_pushing_and_running_only_where_flags_say_so(
    capsys: pytest.CaptureFixture[str],
    data: str,
    ada: KeyPair,
    flags: tuple[str, ...],
    scopes: list[str],
) -> None:
    key = encode_public_key(ada.public_pem)

    _, added = answer(capsys, "keys", "add", key, *flags, "--data", data)
    _, listed = answer(capsys, "keys", "list", "--data", data)

    assert added["scopes"] == listed["keys"][0]["scopes"] == scopes


def test_scopes_beside_the_admin_flag_are_refused(
    capsys: pytest.CaptureFixture[str], data: str, ada: KeyPair
) -> None:
    words = ("--admin", "--scope", "remote:push", "--data", data)

    status, _, message = ended(capsys, "keys", "add", encode_public_key(ada.public_pem), *words)

    assert status == 2
    assert "--admin: expected without --scope" in message


@pytest.mark.parametrize(
    "words", [("keys", "add", "KEY"), ("api-keys", "create", "--name", "ci", "--user", "ann")]
)
def test_an_unknown_scope_is_refused_with_the_known_ones(
    capsys: pytest.CaptureFixture[str], data: str, ada: KeyPair, words: tuple[str, ...]
) -> None:
    ended(capsys, "init", "--data", data)
    key = encode_public_key(ada.public_pem)
    given = (key if word == "KEY" else word for word in words)

    status, _, message = ended(capsys, *given, "--scope", "remote:exceute", "--data", data)

    assert status == 2
    assert "did you mean remote:execute?" in message


def test_an_api_key_is_shown_once(
    capsys: pytest.CaptureFixture[str], data: str, ada: KeyPair
) -> None:
    ended(capsys, "init", "--data", data)
    ended(capsys, "keys", "add", encode_public_key(ada.public_pem), "--data", data)

    status, token, note = ended(capsys, "api-keys", "create", "--name", "ci", "--data", data)
    _, listed = answer(capsys, "api-keys", "list", "--data", data)

    (key,) = listed["keys"]
    assert (status, note) == (0, "keep it safe: it cannot be shown again\n")
    assert token.startswith("rye_sk_")
    assert key["user_id"] == compute_key_fingerprint(ada.public_pem)
    assert (key["name"], key["scopes"]) == ("ci", ["remote:*"])
    assert token.strip() not in json.dumps(listed)


def test_an_api_key_is_revoked(capsys: pytest.CaptureFixture[str], data: str) -> None:
    ended(capsys, "init", "--data", data)
    _, made = answer(capsys, "api-keys", "create", "--user", "ada", "--name", "ci", "--data", data)

    status, out, _ = ended(capsys, "api-keys", "revoke", made["id"], "--data", data)

    assert (status, out) == (0, f"revoked {made['id']} (ci)\n")
    _, listed, _ = ended(capsys, "api-keys", "list", "--data", data)
    assert "  ada  revoked  remote:*  ci\n" in listed


@pytest.mark.parametrize(
    ("words", "error", "hint"),
    [
        ((), "user: expected one", "--user FINGERPRINT"),
        (("--user", ".."), "user '..': expected", ""),
    ],
)
def test_an_api_key_needs_a_valid_user_name(
    capsys: pytest.CaptureFixture[str], data: str, words: tuple[str, ...], error: str, hint: str
) -> None:
    ended(capsys, "init", "--data", data)

    status, _, message = ended(capsys, "api-keys", "create", "--name", "x", *words, "--data", data)

    assert (status, error in message, hint in message) == (2, True, True)


@pytest.mark.parametrize(
    ("arguments", "status", "error", "hint"),
    [
        (["serv"], 2, "invalid choice: 'serv'", "did you mean serve?"),
        (["keys", "lits"], 2, "invalid choice: 'lits'", "did you mean list?"),
        (["serve", "--prot", "1"], 2, "unrecognized arguments: --prot", "did you mean --port?"),
        ([], 2, "the following arguments are required: COMMAND", "see: rye-node.pyz --help"),
        (["keys", "add", "nothing.pem"], 2, "nothing.pem: expected a PEM file, found none", ""),
        (["keys", "revoke", "x"], 3, ".rye-node: expected the data of a node", "--data DIR"),
        (["keys", "list"], 3, ".rye-node: expected the data of a node", "--data DIR"),
        (["api-keys", "list"], 3, ".rye-node: expected the data of a node", "--data DIR"),
        (["gc"], 3, ".rye-node: expected the data of a node, found none", "--data DIR"),
        (["gc", "--data", __file__], 6, "expected a folder, found a file", "--data"),
        (["serve", "--data", __file__], 6, "expected a folder, found a file", "--data DIR"),
        (["keys", "list", "--data", __file__], 6, "expected a folder, found a file", "--data DIR"),
        (["serve", "--data", f"{__file__}/x"], 6, "data folder: ", "--data DIR"),
        (["serve", "--url", "notaurl"], 2, "--url: expected a URL that begins", "https://"),
        (["api-keys", "create", "--name", "x"], 3, ".rye-node: expected the data", "--data DIR"),
        (["keys", "add", "ed25519:x"], 2, "KEY: expected ed25519: and base64", "a PEM file, or"),
    ],
)
def test_a_mistake_is_reported_with_a_hint(
    capsys: pytest.CaptureFixture[str], arguments: list[str], status: int, error: str, hint: str
) -> None:
    found, out, err = ended(capsys, *arguments)

    assert (found, out) == (status, "")
    assert error in err
    assert hint in err
    assert err.startswith("error: ")
    assert not (Path.home() / ".rye-node").exists() or arguments[-1] in {"x", "ed25519:x"}


def test_an_unknown_key_cannot_be_revoked(
    capsys: pytest.CaptureFixture[str], data: str, ada: KeyPair
) -> None:
    ended(capsys, "init", "--data", data)
    ended(capsys, "keys", "add", encode_public_key(ada.public_pem), "--data", data)

    key = ended(capsys, "keys", "revoke", "x", "--data", data)
    api_key = ended(capsys, "api-keys", "revoke", "x", "--data", data)

    assert (key[0], api_key[0]) == (3, 3)
    assert "key x: expected an authorised key, found none" in key[2]
    assert "API key 'x': expected the id of one, found none" in api_key[2]


@pytest.mark.heavy
def test_a_closed_output_pipe_is_not_reported_as_an_error(data: str) -> None:
    reader, writer = os.pipe()
    os.close(reader)

    for words in (["version", "--json"], ["keys", "list", "--json", "--data", data]):
        done = subprocess.run(
            [sys.executable, "-m", "rye_services", *words],
            stdout=writer,
            stderr=subprocess.PIPE,
            cwd=ROOT,
            check=False,
        )
        assert (done.returncode, done.stderr) == (141, b""), words
    os.close(writer)


def test_with_json_a_mistake_is_reported_as_json(
    capsys: pytest.CaptureFixture[str], data: str
) -> None:
    status, shown = answer(capsys, "keys", "revoke", "x", "--data", data)

    assert status == 3
    assert shown["status"] == "error"
    assert shown["code"] == "ITEM_NOT_FOUND"


def test_the_version_is_reported_in_every_usual_way(capsys: pytest.CaptureFixture[str]) -> None:
    texts = [ended(capsys, *words)[1] for words in (["version"], ["--version"], ["-V"])]
    _, shown = answer(capsys, "version")

    assert texts == [f"rye-node {__version__}\n"] * 3
    assert (shown["name"], shown["version"]) == ("rye-node", __version__)


def loaded_by(words: list[str], *modules: str) -> list[str]:
    """The modules of these that a process has loaded by the end of its command."""
    code = (
        "import atexit, json, sys\n"
        "from rye_services.operations.cli import main\n"
        "arguments, modules = map(json.loads, sys.argv[1:])\n"
        "atexit.register(lambda: print(json.dumps([m for m in modules if m in sys.modules])))\n"
        "main(arguments)\n"
    )
    command = [sys.executable, "-c", code, json.dumps(words), json.dumps(modules)]
    ended = subprocess.run(command, capture_output=True, check=True, encoding="utf-8", cwd=ROOT)
    found: list[str] = json.loads(ended.stdout.splitlines()[-1])
    return found


@pytest.mark.parametrize("words", [["--version"], ["version"], ["--help"], ["serve", "--prot"]])
def test_commands_without_a_database_do_not_import_database_or_server(words: list[str]) -> None:
    assert loaded_by(words, "sqlalchemy", "fastapi", "starlette", "pydantic", "uvicorn") == []


def test_a_command_about_keys_does_not_import_the_server(data: str, ada: KeyPair) -> None:
    words = ["keys", "add", encode_public_key(ada.public_pem), "--data", data]

    loaded = loaded_by(words, "sqlalchemy", "fastapi", "starlette", "pydantic", "uvicorn")

    assert loaded == ["sqlalchemy"]


def test_help_lists_examples_and_statuses(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = ended(capsys, "--help")
    _, of_a_command, _ = ended(capsys, "help", "serve")

    assert status == 0
    assert "rye-node.pyz serve --data" in out
    assert "statuses: 0 done" in out
    assert "--host" in of_a_command


def test_an_invalid_setting_stops_a_command(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RYE_NODE_PORT", "http")

    status, _, err = ended(capsys, "keys", "list")

    assert status == 6
    assert "RYE_NODE_PORT: expected a whole number from 0 to 65535, found 'http'" in err


@pytest.mark.parametrize(
    "group", ["users", "keys", "api-keys", "accounts", "teams", "quota", "jobs"]
)
def test_a_group_alone_prints_its_help_and_without_an_action_lists_them(
    capsys: pytest.CaptureFixture[str], data: str, group: str
) -> None:
    status, shown, _ = ended(capsys, group)
    refused, _, said = ended(capsys, group, "--data", data)

    assert status == 0
    assert f"usage: rye-node.pyz {group}" in shown
    assert "list" in shown
    assert refused == 2
    assert f"error: rye-node.pyz {group}: expected an action: " in said
    assert f"hint: the action comes first, like: rye-node.pyz {group} " in said
    assert not Path(data).exists()


def test_a_mistyped_action_of_a_group_gets_a_suggestion(
    capsys: pytest.CaptureFixture[str],
) -> None:
    _, _, said = ended(capsys, "users", "lsit")

    assert said.endswith("hint: did you mean list?\n")


@pytest.mark.heavy
def test_a_fingerprint_as_keys_list_shows_it_names_the_user(
    capsys: pytest.CaptureFixture[str], data: str, ada: KeyPair, tmp_path: Path
) -> None:
    pem = tmp_path / "public_key.pem"
    pem.write_bytes(ada.public_pem)
    ended(capsys, "init", "--data", data)
    ended(capsys, "keys", "add", str(pem), "--data", data)
    _, listed = answer(capsys, "keys", "list", "--data", data)
    (shown,) = (one["fingerprint"] for one in listed["keys"])

    created = answer(capsys, "api-keys", "create", "--user", shown, "--name", "ci", "--data", data)

    assert shown.startswith("fp:")
    assert created[0] == 0
    _, keys = answer(capsys, "api-keys", "list", "--data", data)
    assert shown.removeprefix("fp:") in json.dumps(keys)
    assert ended(capsys, "users", "show", shown, "--data", data)[0] == 0
