"""``rye agent set-up``: a key is tried, then stored with its signed credential, or nothing is."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.command_line import CommandLine, program_of
from tests.support.model_server import ModelServer, refused, words
from tests.support.terminal import Terminal

KEY = "sk-test-0123456789"


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer(always=words("ready", sent=20, answered=2)) as running:
        yield running


def write_provider(cli: CommandLine, url: str, *, credential: str = "credential: lab\n") -> None:
    path = cli.user_space.ai / "config" / "agent" / "providers" / "lab.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        'version: "1.0.0"\ncategory: agent/providers\ndialect: openai-chat\n'
        f"base_url: {url}\n{credential}models:\n"
        "  dear: {prices: {input: 9000, output: 9000}}\n"
        "  small: {prices: {input: 100, output: 500}}\n",
        "utf-8",
    )
    assert cli("sign", path, "--yes").status == 0


@pytest.fixture
def lab(signer: CommandLine, server: ModelServer) -> CommandLine:
    """A user with a provider whose credential is not there yet."""
    write_provider(signer, server.url)
    return signer


def key_file(cli: CommandLine) -> Path:
    return cli.user_space.ai / "state" / "credentials" / "lab"


def credential_file(cli: CommandLine) -> Path:
    return cli.user_space.ai / "config" / "credentials" / "lab.yaml"


SET_UP = ("agent", "set-up", "--provider", "lab")


def test_a_key_is_tried_with_the_cheapest_model_and_then_stored(
    lab: CommandLine, server: ModelServer
) -> None:
    said = lab.json(*SET_UP, "--key-stdin", "--yes", stdin=f"{KEY}\n".encode())

    assert said["model"] == "lab/small"
    assert said["call"] == {"input_tokens": 20, "output_tokens": 2, "spend": "0.000003"}
    assert said["daily_left"] == "4.999997"
    assert server.headers[0]["authorization"] == f"Bearer {KEY}"
    assert key_file(lab).read_text("utf-8") == f"{KEY}\n"
    if os.name == "posix":
        assert stat.S_IMODE(key_file(lab).stat().st_mode) == 0o600
    assert KEY not in credential_file(lab).read_text("utf-8")
    usable = lab.json("agent", "models", "lab/small")["models"]
    assert [row["usable"] for row in usable] == [True]


def test_the_key_is_in_no_output_and_no_other_file(lab: CommandLine) -> None:
    done = lab(*SET_UP, "--key-stdin", "--yes", stdin=KEY.encode())

    assert done.status == 0, done.stderr
    assert KEY not in done.stdout + done.stderr
    with_key = [
        path for path in lab.home.rglob("*") if path.is_file() and KEY.encode() in path.read_bytes()
    ]
    assert with_key == [key_file(lab)]


def test_without_a_terminal_nothing_is_written_or_sent_before_a_person_agrees(
    lab: CommandLine, server: ModelServer
) -> None:
    done = lab(*SET_UP, "--key-stdin", stdin=KEY.encode())

    assert done.status != 0
    assert "rye agent set-up --provider lab --key-stdin --yes < FILE" in done.stderr
    assert f"to write and sign: {credential_file(lab)}" in done.stderr
    assert f"to store the key in, mode 0600, which no agent's program reads: {key_file(lab)}" in (
        done.stderr
    )
    assert "written" not in done.stderr
    assert "at most 64 tokens of answer" in done.stderr
    assert not server.requests
    assert not key_file(lab).exists()
    assert not credential_file(lab).exists()


def test_a_wrong_key_is_refused_and_nothing_stays(lab: CommandLine, server: ModelServer) -> None:
    server.always = refused(401, {"error": {"message": "wrong key"}})

    done = lab(*SET_UP, "--key-stdin", "--yes", "--json", stdin=KEY.encode())

    assert done.json["code"] == "CREDENTIAL_REFUSED"
    assert not key_file(lab).exists()
    assert not credential_file(lab).exists()
    assert lab.json("agent", "models")["daily"]["left"] == "5.00"


def test_a_wrong_new_key_leaves_the_one_before(lab: CommandLine, server: ModelServer) -> None:
    lab.json(*SET_UP, "--key-stdin", "--yes", stdin=KEY.encode())
    before = credential_file(lab).read_bytes()
    server.always = refused(403, {"error": {"message": "wrong key"}})

    done = lab(*SET_UP, "--key-stdin", "--yes", stdin=b"sk-another")

    assert done.status == 7
    assert key_file(lab).read_text("utf-8") == f"{KEY}\n"
    assert credential_file(lab).read_bytes() == before


def test_a_variable_or_a_command_is_named_and_no_key_is_stored(
    lab: CommandLine, server: ModelServer
) -> None:
    lab.json(*SET_UP, "--variable", "LAB_KEY", "--yes", LAB_KEY=KEY)
    assert 'source: {"variable": "LAB_KEY"}' in credential_file(lab).read_text("utf-8")

    lab.json(*SET_UP, "--command", f"printf %s {KEY}-2", "--yes")

    assert '{"command": ["printf", "%s"' in credential_file(lab).read_text("utf-8")
    assert not key_file(lab).exists()
    assert server.headers[-1]["authorization"] == f"Bearer {KEY}-2"


def test_a_variable_that_is_not_set_is_named(lab: CommandLine, server: ModelServer) -> None:
    done = lab(*SET_UP, "--variable", "LAB_KEY", "--yes", "--json")

    assert done.json["code"] == "CREDENTIAL_NOT_FOUND"
    assert "LAB_KEY" in done.json["error"]
    assert not server.requests
    assert not credential_file(lab).exists()


def test_a_key_that_is_there_is_tried_and_nothing_is_written(
    lab: CommandLine, server: ModelServer
) -> None:
    lab.json(*SET_UP, "--key-stdin", "--yes", stdin=KEY.encode())

    said = lab.json(*SET_UP, "--model", "dear", "--yes")

    assert (said["model"], said["written"]) == ("lab/dear", [])
    assert server.headers[-1]["authorization"] == f"Bearer {KEY}"


@pytest.mark.parametrize("key", [b"", b"two\nlines", "süß".encode(), b"x" * 20_000])
def test_what_is_no_key_is_refused_and_not_sent(
    lab: CommandLine, server: ModelServer, key: bytes
) -> None:
    done = lab(*SET_UP, "--key-stdin", "--yes", stdin=key)

    assert "one line of visible ASCII characters" in done.stderr
    assert not server.requests


def test_a_server_of_this_machine_is_asked_for_its_models(
    signer: CommandLine, server: ModelServer
) -> None:
    write_provider(signer, server.url, credential="")
    server.models = ["tiny", "small"]

    said = signer.json(*SET_UP, "--model", "small", "--yes")
    done = signer(*SET_UP, "--model", "smal", "--yes")

    assert (said["models"], said["written"]) == (["small", "tiny"], [])
    assert "did you mean small?" in done.stderr


def test_a_server_that_does_not_run_is_named_by_its_address(
    signer: CommandLine, server: ModelServer
) -> None:
    write_provider(signer, "http://127.0.0.1:9/v1", credential="")

    done = signer(*SET_UP, "--yes", "--json")

    assert done.json["code"] == "PROVIDER_UNAVAILABLE"
    assert "http://127.0.0.1:9/v1/models" in done.json["error"]


def test_a_day_without_money_lets_no_trial_start(lab: CommandLine, server: ModelServer) -> None:
    path = lab.user_space.ai / "config" / "agent" / "agent.yaml"
    path.write_text('version: "1.0.0"\ncategory: agent\ndaily: {spend: "0.000001"}\n', "utf-8")
    assert lab("sign", path, "--yes").status == 0

    done = lab(*SET_UP, "--key-stdin", "--yes", "--json", stdin=KEY.encode())

    assert done.json["code"] == "LIMIT_DAILY"
    assert not server.requests
    assert not key_file(lab).exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--provider", "labb", "--yes"), "did you mean lab?"),
        (("--yes",), "--provider: expected one of"),
        (("--provider", "lab", "--yes"), "--key-stdin, --variable NAME or --command WORDS"),
        (("--provider", "lab", "--key-stdin", "--variable", "X"), "expected one of"),
        (("--provider", "lab", "--variable", "not a name"), "expected the name of one"),
        (("--provider", "lab", "--command", "'"), "--command: No closing quotation"),
        (("--provider", "lab", "--model", "none", "--key-stdin", "--yes"), "price"),
        (("--provider", "ollama", "--key-stdin", "--yes"), "it takes no key"),
    ],
)
def test_what_makes_no_sense_is_refused_with_what_was_expected(
    lab: CommandLine, server: ModelServer, words: tuple[str, ...], said: str
) -> None:
    done = lab("agent", "set-up", *words, stdin=KEY.encode())

    assert done.status != 0
    assert said in done.stderr
    assert not server.requests


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--key-stdin",), "nothing was written; copy the key once more, all of it, then: "),
        (("--variable", "LAB_KEY"), "the key came from the variable LAB_KEY: put the right one"),
        (("--command", f"printf %s {KEY}"), "the key came from the command printf: put the right"),
    ],
)
def test_a_wrong_key_of_a_new_set_up_says_where_the_right_one_is_to_be_given(
    lab: CommandLine, server: ModelServer, words: tuple[str, ...], said: str
) -> None:
    server.always = refused(401, {"error": {"message": "wrong key"}})

    done = lab(*SET_UP, *words, "--yes", stdin=KEY.encode(), LAB_KEY=KEY)

    assert done.status == 7
    assert said in done.stderr
    assert "--new-key" not in done.stderr
    assert "written, signed" not in done.stderr


def test_a_wrong_key_that_is_there_says_how_to_give_another(
    lab: CommandLine, server: ModelServer
) -> None:
    lab.json(*SET_UP, "--key-stdin", "--yes", stdin=KEY.encode())
    server.always = refused(401, {"error": {"message": "wrong key"}})

    done = lab(*SET_UP, "--yes")

    assert "give another: rye agent set-up --provider lab --new-key" in done.stderr


@pytest.mark.skipif(os.name == "nt", reason="a terminal of POSIX")
def test_at_a_terminal_a_key_is_typed_unseen_and_stored_after_it_was_tried(
    lab: CommandLine, server: ModelServer
) -> None:
    program = program_of(lab, lab.home.parent)
    env = {**lab.env, "TERM": "dumb"}

    with Terminal([str(program), "agent", "set-up"], env, lab.project) as terminal:
        asked = terminal.type("", until="provider, by number or name: ")
        shown = terminal.type("lab\n", until="[y/N] ")
        is_early = key_file(lab).exists() or bool(server.requests)
        terminal.type("y\n", until="(not shown): ")
        said = terminal.type(f"{KEY}\n", until="left for threads")
        status = terminal.status()

    assert "lab" in asked
    assert f"to write and sign: {credential_file(lab)}" in shown.replace("\r\n\u00bb", "")
    assert not is_early
    assert KEY not in said
    assert f"wrote {key_file(lab)}" in said
    assert status == 0
    assert key_file(lab).read_text("utf-8") == f"{KEY}\n"


@pytest.mark.skipif(os.name == "nt", reason="a terminal of POSIX")
def test_at_a_terminal_a_person_who_does_not_agree_is_asked_for_no_key(
    lab: CommandLine, server: ModelServer
) -> None:
    program = program_of(lab, lab.home.parent)
    env = {**lab.env, "TERM": "dumb"}

    with Terminal([str(program), *SET_UP], env, lab.project) as terminal:
        terminal.type("", until="[y/N] ")
        said = terminal.type("n\n", until="nothing was sent")
        status = terminal.status()

    assert "(not shown)" not in said
    assert status != 0
    assert not server.requests
    assert not credential_file(lab).exists()
