"""What a person is shown is what is signed: files that are exchanged, painted and hidden texts."""

import os
import sys
import venv
from collections.abc import Callable
from pathlib import Path

import pytest

from lillux.digests import sha256_hex
from lillux.files import FileChangedError
from lillux.key_files import save_keypair
from ryeos.app.proposals import Proposals
from ryeos.app.review import review_of, signed_last
from ryeos.app.sign import follow, signing
from ryeos.items.refs import PROJECT, USER, ItemRef, Kind, Space
from ryeos.trust.sign_targets import ReadItem, SignTarget, read_item
from tests.support.command_line import CommandLine
from tests.support.exchanged_file import exchanged
from tests.support.mcp_conversation import ELICITATION, Conversation
from tests.support.terminal import Terminal
from tests.support.workspace import ROOT, Workspace

HARMLESS = """\
version: "1.0.0"
tool_type: bash
executor_id: rye/core/runtimes/bash/bash
category: mine
description: says hello
config: {command: "echo hello"}
"""
WORSE = HARMLESS.replace("echo hello", "echo worse")
OPENINGS = range(2, 8)
terminal = pytest.mark.skipif(sys.platform == "win32", reason="terminals of POSIX")


@pytest.fixture
def signer(tmp_path: Path, bundle: Space) -> CommandLine:
    cli = CommandLine(tmp_path, bundle)
    assert cli("keys", "generate").status == 0
    return cli


def item_of(workspace: Workspace, text: str = HARMLESS) -> ReadItem:
    path = workspace.project.write("tools/mine/x.yaml", text)
    return read_item(workspace.project.target(path))


# --- one read


@pytest.mark.parametrize("nth", OPENINGS)
def test_what_was_read_is_signed_or_nothing(workspace: Workspace, nth: int) -> None:
    save_keypair(workspace.context().key_directory, workspace.keypair)
    path = item_of(workspace).target.path
    rye = workspace.rye()

    with exchanged(path, WORSE.encode(), nth):
        item = read_item(workspace.project.target(path))
        shown = "\n".join(review_of(rye, item).lines())
        reports = list(signing(rye, [item], dry_run=False, force=False))
        follow(rye, reports)

    assert "echo hello" in shown
    assert "echo worse" not in shown
    kept = signed_last(rye.context.spaces.user, item.target)
    assert kept is None or kept.data == HARMLESS.encode()
    if reports[0].error:
        assert isinstance(reports[0].error, FileChangedError)
        assert path.read_bytes() == WORSE.encode()
    assert not (
        "worse" in path.read_text(encoding="utf-8")
        and "rye:signed" in path.read_text(encoding="utf-8")
    )


def test_a_file_that_is_another_by_now_is_not_replaced(workspace: Workspace) -> None:
    item = item_of(workspace)
    item.target.path.write_text(WORSE, encoding="utf-8")

    (report,) = workspace.signer().sign_all([item], force=False)

    assert isinstance(report.error, FileChangedError)
    assert item.target.path.read_text(encoding="utf-8") == WORSE


@pytest.mark.skipif(sys.platform == "win32", reason="links")
def test_a_folder_that_became_a_link_receives_nothing(workspace: Workspace, tmp_path: Path) -> None:
    """The folder is exchanged after the text was checked and before the file is replaced."""
    item = item_of(workspace)
    folder, elsewhere = item.target.path.parent, tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "x.yaml").write_bytes(item.data)

    def exchange(_item: ReadItem, _valid: object) -> None:
        folder.rename(tmp_path / "away")
        folder.symlink_to(elsewhere)

    (report,) = workspace.signer().sign_all([item], force=False, require=exchange)

    assert report.error is not None
    assert [path.name for path in elsewhere.iterdir()] == ["x.yaml"]
    assert (elsewhere / "x.yaml").read_bytes() == item.data


@pytest.mark.parametrize("nth", OPENINGS)
def test_a_question_over_mcp_signs_what_it_asked_about(workspace: Workspace, nth: int) -> None:
    save_keypair(workspace.context().key_directory, workspace.keypair)
    path = item_of(workspace).target.path
    client = Conversation(workspace.rye(), capabilities=ELICITATION)
    wish = {"name": "sign", "arguments": {"item_id": "tool:mine/x"}}

    with exchanged(path, WORSE.encode(), nth):
        asked = client.result("tools/call", "InputRequiredResult", **wish)
        ((key, question),) = asked["inputRequests"].items()
        yes = {key: {"action": "accept", "content": {"approve": True}}}
        client.ask("tools/call", **wish, inputResponses=yes, requestState=asked["requestState"])

    text = path.read_text(encoding="utf-8")
    is_shown = "echo worse" in question["params"]["message"]
    assert is_shown or not ("worse" in text and "rye:signed" in text)


@pytest.mark.parametrize("nth", OPENINGS)
def test_approving_signs_the_bytes_that_were_proposed(signer: CommandLine, nth: int) -> None:
    path = propose(signer)

    with exchanged(path, WORSE.encode(), nth):
        done = signer("approve", "--all")

    assert "echo hello" in done.stderr
    assert "echo worse" not in done.stderr
    assert not (
        "worse" in path.read_text(encoding="utf-8")
        and "rye:signed" in path.read_text(encoding="utf-8")
    )


@pytest.mark.parametrize("nth", range(1, 10))
def test_importing_signs_the_bytes_that_it_made(signer: CommandLine, nth: int) -> None:
    (signer.project / "report.py").write_text("print('hello')\n", encoding="utf-8")
    path = signer.project / ".ai/tools/scripts/report.py"
    path.parent.mkdir(parents=True)

    with exchanged(path, b'__version__ = "1.0.0"\n# worse\n', nth):
        signer("import", "report.py", "--yes")

    text = path.read_bytes()
    assert b"FILES = " in text or b"worse" in text
    assert not (b"worse" in text and b"rye:signed" in text)


@pytest.mark.parametrize("nth", range(1, 7))
def test_trusting_approves_the_bytes_that_were_shown(signer: CommandLine, nth: int) -> None:
    (signer.project / ".ai").mkdir()
    place = signer.project / ".env"
    place.write_text("A=1\n", encoding="utf-8")

    with exchanged(place, b"A=2\n", nth):
        shown = signer("trust", "--yes").stderr
    (part,) = signer.json("trust", "--show")["parts"]

    digest = sha256_hex(place.read_bytes())
    assert (part["state"] == "approved") == (digest[:16] in shown)


def test_trust_says_what_a_start_loads_that_no_statement_names(signer: CommandLine) -> None:
    (signer.project / ".ai").mkdir()
    venv.create(signer.project / ".venv", symlinks=True)
    (site,) = (signer.project / ".venv/lib").glob("python*/site-packages")
    (site / "x.pth").write_text("import _boot, _late\n", encoding="utf-8")
    (site / "_boot.py").write_text(
        "from importlib import import_module as load\nimport importlib\n"
        "def go(name):\n    load(name)\ngo('_plug')\nload('json')\nload('_late')\n"
        "importlib.import_module('_other')\n",
        encoding="utf-8",
    )
    (site / "_late.py").write_text(
        "def later(name):\n    __import__(name)\nbefore = lambda name: __import__(name)\n",
        encoding="utf-8",
    )

    shown = signer("trust", "--yes").stderr

    said = "it loads what no import statement names: not compared, so it fails at the start"
    assert f"_boot.py, line 4, import_module: {said}" in shown
    assert f"_boot.py, line 8, import_module: {said}" in shown
    assert shown.count(said) == len(("line 4", "line 8"))


@terminal
def test_dev_mode_shows_the_item_before_it_signs(signer: CommandLine, at_terminal: "Start") -> None:
    path = propose(signer)

    with at_terminal("dev", "mine/x") as shown:
        text = shown.type("", until="[y/N] ")
        shown.type("n\n", until="nothing was signed")

    assert '+config: {command: "echo hello"}' in text
    assert text.index("rights ") < text.index("sign and run tool:mine/x")
    assert "rye:signed" not in path.read_text(encoding="utf-8")


def propose(cli: CommandLine, text: str = HARMLESS, name: str = "x") -> Path:
    """An item of the project that an agent wants signed."""
    path = cli.project / f".ai/tools/mine/{name}.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode())
    space = Space(PROJECT, cli.project)
    target = SignTarget(
        path=path, kind=Kind.TOOL, space=space, ref=ItemRef(Kind.TOOL, f"mine/{name}")
    )
    waiting = Proposals(Space(USER, cli.home))
    waiting.add(read_item(target), project=str(cli.project), client="a")
    return path


# --- at a terminal

Start = Callable[..., Terminal]


@pytest.fixture
def at_terminal(signer: CommandLine, tmp_path: Path) -> Start:
    def start(*words: str, exchange: tuple[Path, int] | None = None, **env: str) -> Terminal:
        program = [str(ROOT / "rye.py"), *words]
        if exchange:
            (tmp_path / "worse").write_text(WORSE, encoding="utf-8")
            helper = str(ROOT / "tests/support/exchanged_file.py")
            place, nth = exchange
            program = [helper, str(place), str(tmp_path / "worse"), str(nth), *program]
        environ = {**signer.env, "PATH": os.environ["PATH"], "TERM": "dumb", **env}
        return Terminal([sys.executable, *program], environ, signer.project)

    return start


@terminal
@pytest.mark.parametrize("words", [("sign", "tool:mine/x"), ("approve",)])
@pytest.mark.parametrize("nth", [2, 3, 4])
def test_at_a_terminal_the_text_that_was_shown_is_signed(
    signer: CommandLine, at_terminal: Start, words: tuple[str, ...], nth: int
) -> None:
    path = propose(signer)

    with at_terminal(*words, exchange=(path, nth)) as shown:
        text = shown.type("", until="?] ")
        shown.type("y\n", until="\n")
        status = shown.status()

    assert '+config: {command: "echo hello"}' in text
    assert "worse" not in text
    assert ("worse" in path.read_text(encoding="utf-8")) == (status == 1)
    assert ("worse" in path.read_text(encoding="utf-8")) != (
        "rye:signed" in path.read_text(encoding="utf-8")
    )


@terminal
def test_what_is_typed_before_the_question_signs_nothing(
    signer: CommandLine, at_terminal: Start
) -> None:
    path = propose(signer)

    with at_terminal("approve") as shown:
        shown.type("y\ny\n", until="?] ")
        shown.type("n\n", until="waiting ")

    assert "rye:signed" not in path.read_text(encoding="utf-8")


@terminal
def test_a_text_that_is_not_as_it_looks_needs_yes_in_full(
    signer: CommandLine, at_terminal: Start
) -> None:
    path = propose(signer, HARMLESS + "# only these\u200b# p\u0430th\n")

    with at_terminal("approve") as shown:
        text = shown.type("", until="?] ")
        shown.type("y\n", until="write yes: ")
        shown.type("y\n", until="?] ")
        assert "rye:signed" not in path.read_text(encoding="utf-8")
        shown.type("y\n", until="write yes: ")
        shown.type("yes\n", until="signed ")

    assert "+# only these\\u200b# p\\u0430th\r\n" in text
    assert "2 characters are shown as escapes: 1 invisible character" in text
    assert text.index("warning:") < text.index("+version")
    assert "rye:signed" in path.read_text(encoding="utf-8")


@terminal
def test_nothing_is_asked_before_all_pages_were_shown(
    signer: CommandLine, at_terminal: Start
) -> None:
    path = propose(signer, HARMLESS + "# x\n" * 60 + f"# {'@' * 700}\n# touch owned\n")

    with at_terminal("approve", LINES="20") as shown:
        pages = shown.type("", until="stop -- ")
        while "stop -- " in pages[-10:]:
            assert "sign tool:mine/x" not in pages
            left = int(pages.rpartition("-- ")[0].rpartition("-- ")[2].split()[0])
            pages += shown.type("\n", until="stop -- " if left > 17 else "?] ")
        shown.type("q\n", until="waiting ")

    assert pages.count("@") == 700  # no part of a long line is cut
    assert pages.index("touch owned") < pages.index("sign tool:mine/x (new)?")
    assert "rye:signed" not in path.read_text(encoding="utf-8")


@terminal
def test_a_pager_is_given_all_of_it_before_the_question(
    signer: CommandLine, at_terminal: Start, tmp_path: Path
) -> None:
    propose(signer, HARMLESS + "# x\n" * 80)
    pager = tmp_path / "pager"
    pager.write_text(f"#!/bin/sh\ncat > {tmp_path}/paged\n", encoding="utf-8")
    pager.chmod(0o755)

    with at_terminal("approve", PAGER=str(pager)) as shown:
        text = shown.type("", until="?] ")
        shown.type("q\n", until="waiting ")

    assert (tmp_path / "paged").read_text(encoding="utf-8").count("+# x\n") == 80
    assert "tool:mine/x  sha256" in text  # the facts once more, above the question


@terminal
@pytest.mark.parametrize("named", ["./evil", "{project}/evil", "sh ./evil"])
@pytest.mark.parametrize("name", ["PAGER", "EDITOR", "VISUAL"])
def test_no_pager_and_no_editor_of_the_project_is_started(
    signer: CommandLine, at_terminal: Start, tmp_path: Path, name: str, named: str
) -> None:
    propose(signer, HARMLESS + "# x\n" * 80)
    evil = signer.project / "evil"
    evil.write_text(f"#!/bin/sh\ntouch {tmp_path}/started\n", encoding="utf-8")
    evil.chmod(0o755)

    variables = {"TERM": "dumb", "LINES": "20", name: named.format(project=signer.project)}

    with at_terminal("approve", **variables) as shown:
        pages = shown.type("", until="stop -- ")
        while "stop -- " in pages[-10:]:
            left = int(pages.rpartition("-- ")[0].rpartition("-- ")[2].split()[0])
            pages += shown.type("\n", until="stop -- " if left > 17 else "?] ")
        answer = shown.type("e\n", until="?] ")
        shown.type("q\n", until="waiting ")

    assert "no editor" in answer
    assert not (tmp_path / "started").exists()


@terminal
def test_the_keys_of_a_question(signer: CommandLine, at_terminal: Start, tmp_path: Path) -> None:
    path = propose(signer)
    other = propose(signer, name="y")
    editor = tmp_path / "editor"
    editor.write_text("#!/bin/sh\nsed -i 's/hello/edited/' \"$1\"\n", encoding="utf-8")
    editor.chmod(0o755)

    with at_terminal("approve", EDITOR=str(editor)) as shown:
        first = shown.type("", until=" (new)? [y,n,v,e,s,d,q,?] ").rpartition("sign ")[2].split()[0]
        path, other = (path, other) if first == "tool:mine/x" else (other, path)
        assert "e - edit it" in shown.type("?\n", until="?] ")
        assert " version: " in shown.type("v\n", until="?] ")
        assert first not in shown.type("s\n", until="?] ")
        assert first in shown.type("d\n", until="?] ")
        assert "echo edited" in shown.type("e\n", until="?] ")
        shown.type("y\n", until="dropped ")

    assert "echo edited" in path.read_text(encoding="utf-8")
    assert "rye:signed" in path.read_text(encoding="utf-8")
    assert "rye:signed" not in other.read_text(encoding="utf-8")


@terminal
def test_each_item_of_a_pattern_is_a_question_of_its_own(
    signer: CommandLine, at_terminal: Start
) -> None:
    path, other = propose(signer), propose(signer, name="y")

    with at_terminal("sign", "tool:mine/*") as shown:
        assert "sign tool:mine/x (new)?" in shown.type("", until="?] ")
        assert "sign tool:mine/y (new)?" in shown.type("n\n", until="?] ")
        shown.type("y\n", until="Signed 1/1")

    assert "rye:signed" not in path.read_text(encoding="utf-8")
    assert "rye:signed" in other.read_text(encoding="utf-8")


# --- without a terminal


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("sign", "tool:mine/*"), "rye sign 'tool:mine/*' --yes"),
        (("approve",), "rye approve --all"),
        (("dev", "mine/x"), "rye dev mine/x --yes"),
    ],
)
def test_without_a_terminal_nothing_is_signed_unless_a_person_says_yes(
    signer: CommandLine, words: tuple[str, ...], line: str
) -> None:
    path = propose(signer)

    done = signer(*words)

    assert done.status == 4
    assert line in done.stderr
    assert "rye:signed" not in path.read_text(encoding="utf-8")


def test_a_command_that_names_its_item_is_a_persons_word(signer: CommandLine) -> None:
    path = propose(signer)

    assert signer("sign", "tool:mine/x", RYE_CONFINE="1").status == 4
    assert "rye:signed" not in path.read_text(encoding="utf-8")
    assert signer("sign", "tool:mine/x").status == 0
    assert "rye:signed" in path.read_text(encoding="utf-8")


# --- display


def test_a_change_of_line_ends_alone_is_shown(workspace: Workspace) -> None:
    save_keypair(workspace.context().key_directory, workspace.keypair)
    rye = workspace.rye()
    follow(rye, list(signing(rye, [item_of(workspace)], dry_run=False, force=False)))

    for changed in (HARMLESS.rstrip("\n"), HARMLESS.replace("\n", "\r\n"), HARMLESS + "\u2028\n"):
        review = review_of(rye, item_of(workspace, changed))
        assert any(line.startswith("+") for line in review.text()), repr(changed)


def test_a_text_that_takes_the_place_of_an_unsigned_one_says_so(workspace: Workspace) -> None:
    path = workspace.project.tool("shop/total", "mine = 1\n")
    target = workspace.project.target(path)
    data = path.read_bytes()

    review = review_of(workspace.rye(), ReadItem(target, data + b"# more\n"))
    same = review_of(workspace.rye(), ReadItem(target, data))

    there = f"the text that is in the file now, {len(data)} bytes and not signed; a copy is kept"
    assert dict(review.facts)["replaces"] == there
    assert dict(same.facts)["replaces"] == "nothing: it is new"


def test_a_second_version_names_what_it_replaces(workspace: Workspace) -> None:
    save_keypair(workspace.context().key_directory, workspace.keypair)
    rye = workspace.rye()
    assert review_of(rye, item_of(workspace)).is_new
    follow(rye, list(signing(rye, [item_of(workspace)], dry_run=False, force=False)))

    review = review_of(rye, item_of(workspace, HARMLESS.replace("1.0.0", "1.1.0")))

    facts = dict(review.facts)
    assert facts["replaces"].startswith("version 1.0.0, signed ")
    assert "version 1.1.0" in facts["kind"]
    assert facts["rights"].startswith("declares none: ")
    assert Proposals(rye.context.spaces.user).all() == []


# --- files that are signed by their digests


@pytest.mark.parametrize("blank", [" ", "\t", "\n", "\n   "], ids=repr)
def test_the_files_of_a_skill_are_shown_however_its_tag_is_written(
    workspace: Workspace, blank: str
) -> None:
    words = b"Run fill.sh\n"
    folder = workspace.project_path / "skills/a"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_bytes(words)
    text = (
        '# A\n\n```xml\n<directive name="a" version="1.0.0">\n'
        f'<skill{blank}name="a" folder="skills/a">\n'
        f'<file path="SKILL.md" size="{len(words)}" sha256="{sha256_hex(words)}"/>\n'
        "</skill>\n</directive>\n```\n"
    )
    path = workspace.project.write("directives/skills/a.md", text)

    review = review_of(workspace.rye(), read_item(workspace.project.target(path)))

    assert [(one.path, one.data) for one in review.files] == [("skills/a/SKILL.md", words)]
    assert "Run fill.sh" in "\n".join(review.lines())


# --- lines of YAML

SEPARATORS = {"U+0085": "\x85", "U+2028": "\u2028", "U+2029": "\u2029"}


@pytest.mark.parametrize("place", ["tools/mine/x.yaml", "tools/mine/x.yml", "config/mine/x.yaml"])
@pytest.mark.parametrize("name", SEPARATORS)
def test_a_line_end_of_yaml_alone_is_not_signed(
    workspace: Workspace, name: str, place: str
) -> None:
    script = f"config:\n  script: |\n    # only if allowed{SEPARATORS[name]}    exit 3\n    date\n"
    text = HARMLESS.partition("config:")[0] + script
    item = read_item(workspace.project.target(workspace.project.write(place, text)))

    (report,) = workspace.signer().sign_all([item], force=False)

    assert f"line 8: {name}, a line end to YAML" in str(report.error)
    assert "rye:signed" not in item.target.path.read_text("utf-8")


@pytest.mark.parametrize("name", SEPARATORS)
def test_a_graph_with_a_line_end_of_yaml_alone_is_not_signed(
    workspace: Workspace, name: str
) -> None:
    text = (
        'version: "1.0.0"\ntool_type: graph\nexecutor_id: rye/core/runtimes/state-graph/runtime\n'
        f"category: mine\ndescription: a{SEPARATORS[name]}b\n"
    )
    item = read_item(workspace.project.target(workspace.project.write("tools/mine/g.yaml", text)))

    (report,) = workspace.signer().sign_all([item], force=False)

    assert f"line 5: {name}" in str(report.error)


def test_an_escape_of_such_a_line_end_is_signed(workspace: Workspace) -> None:
    text = HARMLESS.replace('"echo hello"', r'"echo a\u2028\L\P\Nb"')

    (report,) = workspace.signer().sign_all([item_of(workspace, text)], force=False)

    assert report.error is None
