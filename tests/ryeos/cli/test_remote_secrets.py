import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest

from lillux.key_files import load_keypair
from lillux.sealing import generate_box_pair
from lillux.signing import generate_keypair
from ryeos.remote.envelopes import open_envelope
from ryeos.remote.identity import identity_document
from ryeos.remote.local_secrets import LocalSecrets
from ryeos.trust.signing_key import SigningKey
from tests.support.command_line import CommandLine
from tests.support.node import Node

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def on_node(cli: CommandLine, shared_node: Node) -> CommandLine:
    """The command line of a user whose key the node knows."""
    cli("keys", "generate")
    shared_node.user(keypair=load_keypair(cli.home / ".ai/config/keys/signing"))
    cli("remote", "add", "default", shared_node.url, "--node-id", shared_node.keys.node_id)
    return cli


def test_a_secret_is_kept_listed_and_deleted(on_node: CommandLine) -> None:
    kept = on_node("remote", "secrets", "set", "API_KEY", "--stdin", stdin=b"sk-value\n")
    listed = on_node.json("remote", "secrets", "list")
    deleted = on_node("remote", "secrets", "delete", "API_KEY")
    again = on_node("remote", "secrets", "delete", "API_KEY")

    assert (kept.status, kept.stdout) == (0, "remote default keeps API_KEY\n")
    assert "sk-value" not in kept.stderr
    assert listed == {"status": "success", "secrets": ["API_KEY"], "kept_by": "remote default"}
    assert (deleted.status, deleted.stdout) == (0, "deleted API_KEY from remote default\n")
    assert again.status == 3
    assert "error: secret 'API_KEY': not kept by remote default" in again.stderr


def test_a_secret_of_a_run_is_sealed_for_the_node_alone_and_not_kept(
    on_node: CommandLine, shared_node: Node
) -> None:
    done = on_node("remote", "secrets", "seal", "API_KEY", "--stdin", stdin=b"sk-value\n")

    opened = open_envelope(json.loads(done.stdout), shared_node.keys.box_private)
    assert opened == {"API_KEY": "sk-value"}
    assert "sk-value" not in done.stdout + done.stderr
    assert on_node.json("remote", "secrets", "list")["secrets"] == []
    local = on_node("remote", "secrets", "seal", "API_KEY", "--stdin", "--local", stdin=b"x")
    assert "--local: a secret is sealed to a node" in local.stderr


def test_a_file_of_variables_is_imported_but_for_reserved_names(
    on_node: CommandLine, tmp_path: Path
) -> None:
    path = tmp_path / "x.env"
    path.write_text("# mine\nONE=1\nPATH=/evil\nTWO=two words\n", encoding="utf-8")

    done = on_node("remote", "secrets", "import", path, "--json")

    assert json.loads(done.stdout) == {
        "status": "success",
        "stored": ["ONE", "TWO"],
        "count": 2,
        "skipped": ["PATH"],
        "kept_by": "remote default",
    }
    assert done.stderr == "warning: PATH: reserved, so it is left out\n"
    assert on_node.json("remote", "secrets", "list")["secrets"] == ["ONE", "TWO"]


def test_variables_of_the_environment_are_imported_by_name(on_node: CommandLine) -> None:
    done = on_node("remote", "secrets", "import", "ONE", "TWO", "--env", ONE="1", TWO="2")
    missing = on_node("remote", "secrets", "import", "ONE", "THREE", "--env", ONE="1")

    assert done.status == 0
    assert on_node.json("remote", "secrets", "list")["secrets"] == ["ONE", "TWO"]
    assert missing.status == 2
    assert "error: --env: expected names of variables that are set, THREE: not set" in (
        missing.stderr
    )


def test_the_local_store_needs_no_node(cli: CommandLine) -> None:
    cli("keys", "generate")

    cli("remote", "secrets", "set", "A", "--stdin", "--local", stdin=b"1")
    listed = cli.json("remote", "secrets", "list", "--local")
    deleted = cli("remote", "secrets", "delete", "A", "--local")
    again = cli("remote", "secrets", "delete", "A", "--local")

    assert listed == {"status": "success", "secrets": ["A"], "kept_by": "your own store"}
    assert "'A': not kept by your own store" in again.stderr
    assert "rye remote secrets list --local" in again.stderr
    assert deleted.stdout == "deleted A from your own store\n"
    assert again.status == 3


def test_the_local_store_opens_with_a_key(cli: CommandLine) -> None:
    done = cli("remote", "secrets", "list", "--local")

    assert done.status == 4
    assert "error: no signing key in" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message", "hint"),
    [
        (
            ["set", "A"],
            "expected a terminal to type the value at, or --stdin",
            "rye remote secrets set A --stdin < FILE",
        ),
        (
            ["set", "A", "value"],
            "rye remote secrets set: expected one NAME, found 2",
            "a value is never typed on the command line, where other users see it",
        ),
        (["delete"], "rye remote secrets delete: expected one NAME, found 0", ""),
        (["list", "A"], "rye remote secrets list: expected nothing behind it", ""),
        (
            ["import", "missing.env"],
            "missing.env: expected a file, found none",
            "for variables of your environment: rye remote secrets import missing.env --env",
        ),
        (
            ["list", "--local", "--remote", "x"],
            "--local, --remote or --team: expected one of them",
            "",
        ),
        (["sett", "A"], "invalid choice: 'sett'", "did you mean set?"),
    ],
)
def test_an_invalid_command_names_the_valid_form(
    cli: CommandLine, arguments: list[str], message: str, hint: str
) -> None:
    cli("keys", "generate")

    done = cli("remote", "secrets", *arguments)

    assert done.status == 2
    assert message in done.stderr
    assert hint in done.stderr


@pytest.mark.parametrize("place", [[], ["--local"]])
def test_a_reserved_name_is_refused_before_anything_is_sent(
    on_node: CommandLine, place: list[str]
) -> None:
    done = on_node("remote", "secrets", "set", "LD_PRELOAD", "--stdin", *place, stdin=b"x")

    assert done.status == 6
    assert "error: secret 'LD_PRELOAD': reserved" in done.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="a terminal of this kind is POSIX")
def test_a_value_is_typed_without_being_shown(cli: CommandLine) -> None:
    from tests.support.terminal import Terminal

    cli("keys", "generate")
    argv = [sys.executable, str(ROOT / "rye.py"), "remote", "secrets", "set", "A", "--local"]
    with Terminal(argv, cli.env, cli.project) as terminal:
        terminal.type("", until="value of A: ")
        shown = terminal.type("sk-typed\r", until="your own store keeps A")

    assert "sk-typed" not in shown
    pem = load_keypair(cli.home / ".ai/config/keys/signing").private_pem
    assert LocalSecrets(cli.home, pem).values() == {"A": "sk-typed"}


@contextmanager
def older_node(taken: list[bytes]) -> Iterator[str]:
    """A node that knows ``/secrets`` and no sealed ones, as early ones did."""
    document = identity_document(SigningKey(generate_keypair()), generate_box_pair()[1], "2026")

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path == "/public-key":
                self.reply(200, document)
            elif self.path == "/secrets":
                self.reply(200, {"secrets": [{"name": "B"}, {"name": "A"}]})
            else:
                self.reply(404, {"detail": "Not Found"})

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.path == "/secrets":
                taken.append(body)
                self.reply(200, {"stored": ["A"], "count": 1})
            else:
                self.reply(404, {"detail": "Not Found"})

        def do_DELETE(self) -> None:
            known = self.path == "/secrets/A"
            self.reply(200 if known else 404, {"deleted": "A"} if known else {"detail": "none"})

        def reply(self, status: int, body: object) -> None:
            data = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            """Write no log."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_a_node_of_an_older_kind_is_spoken_to_in_its_way(cli: CommandLine) -> None:
    cli("keys", "generate")
    taken: list[bytes] = []
    with older_node(taken) as url:
        cli("remote", "add", "default", url)

        kept = cli("remote", "secrets", "set", "A", "--stdin", stdin=b"1")
        listed = cli.json("remote", "secrets", "list")["secrets"]
        deleted = cli("remote", "secrets", "delete", "A")
        missing = cli("remote", "secrets", "delete", "B")

    assert (kept.status, deleted.status, missing.status) == (0, 0, 3)
    assert [json.loads(body) for body in taken] == [{"secrets": [{"name": "A", "value": "1"}]}]
    assert listed == ["A", "B"]
