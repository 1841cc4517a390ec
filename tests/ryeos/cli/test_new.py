from pathlib import Path

import pytest

from tests.support.command_line import CommandLine
from tests.support.programs import require_program

TRICKY = 'O\'Brien "$(id)" {name} ${HOME}\n'


@pytest.fixture
def project(signer: CommandLine) -> CommandLine:
    """A user with a key, in a project."""
    signer("init", "--project")
    return signer


def signed(cli: CommandLine, ref: str) -> str:
    """Sign an item that was just made; its reference."""
    done = cli("sign", ref)
    assert done.status == 0, done.stderr
    return ref


@pytest.mark.parametrize(
    ("language", "suffix", "text"),
    [
        ("python", ".py", '{\n  "greeting": "hello Ada",\n  "from": "hello"\n}\n'),
        ("bash", ".sh", '{\n  "from": "hello",\n  "params": {\n    "name": "Ada"\n  }\n}\n'),
        ("yaml", ".yaml", "hello Ada\n"),
        ("javascript", ".js", '{\n  "greeting": "hello Ada",\n  "from": "hello"\n}\n'),
    ],
)
def test_a_new_tool_runs_once_it_is_signed(
    project: CommandLine, language: str, suffix: str, text: str
) -> None:
    require_program("node" if language == "javascript" else "bash")
    made = project.json("new", "tool", "mine/hello", "--language", language)
    unsigned = project("run", "mine/hello", "name=Ada")

    done = project("run", signed(project, "tool:mine/hello"), "name=Ada")

    assert made["path"] == str(project.project / ".ai/tools/mine" / f"hello{suffix}")
    assert unsigned.status == 4
    assert done.status == 0, done.stderr
    assert done.stdout == text


@pytest.mark.parametrize("language", ["python", "bash", "yaml", "javascript"])
def test_a_new_tool_takes_any_text_for_data(project: CommandLine, language: str) -> None:
    require_program("node" if language == "javascript" else "bash")
    project("new", "tool", "mine/hello", "--language", language)

    done = project("run", signed(project, "tool:mine/hello"), f"name={TRICKY}", "--json").json

    assert done["status"] == "success"
    match language:
        case "python" | "javascript":
            assert done["data"]["greeting"] == f"hello {TRICKY}"
        case "bash":
            assert done["data"]["params"] == {"name": TRICKY}
        case _:
            assert done["data"]["stdout"] == f"hello {TRICKY}\n"


def test_a_new_graph_runs_once_it_is_signed(project: CommandLine) -> None:
    project("new", "tool", "mine/flow", "--language", "graph")

    answer = project("run", signed(project, "tool:mine/flow"), 'folders:=[".", ".ai"]', "--json")

    output = answer.json["data"]["output"]
    assert (output["count"], output["first"].startswith(".\n")) == (2, True)
    assert project.json("run", "tool:mine/flow", "folders:=[]")["data"]["output"] == {"count": 0}


def test_a_new_request_is_checked_without_being_sent(project: CommandLine) -> None:
    project("new", "tool", "mine/word", "--language", "http")

    done = project("run", signed(project, "tool:mine/word"), "name=tea & co", "--dry-run", "--json")

    assert done.json["status"] == "validation_passed"


def test_a_new_tool_of_a_server_is_valid(project: CommandLine) -> None:
    project("new", "tool", "mine/hour", "--language", "mcp")

    assert project("sign", "tool:mine/hour", "--dry-run").status == 0


def test_a_new_tool_at_the_root_has_no_category(project: CommandLine) -> None:
    project("new", "tool", "hello")

    assert project("run", signed(project, "tool:hello")).status == 0


def test_a_new_directive_renders_once_it_is_signed(project: CommandLine) -> None:
    project("new", "directive", "mine/greet")

    done = project("run", signed(project, "directive:mine/greet"), "name=Ada")

    assert done.stdout == "Greet Ada in one friendly sentence.\n"


def test_a_new_knowledge_item_prints_once_it_is_signed(project: CommandLine) -> None:
    project("new", "knowledge", "mine/style-guide.v2")

    done = project("run", signed(project, "knowledge:mine/style-guide.v2"))

    assert done.stdout == "What is worth knowing goes here.\n"


@pytest.mark.parametrize("item_id", ["mine/limits", "limits", "mine/1.0"])
def test_a_new_config_file_is_valid(project: CommandLine, item_id: str) -> None:
    project("new", "config", item_id)

    assert project("verify", signed(project, f"config:{item_id}")).status == 0


def test_new_says_how_to_sign_and_to_try(project: CommandLine) -> None:
    done = project("new", "tool", "mine/hello", "--space", "user")

    assert done.stdout == f"{project.home / '.ai/tools/mine/hello.py'}\n"
    assert done.stderr == (
        "next: rye sign tool:mine/hello --space user\nnext: rye run mine/hello name=Ada\n"
        "which rights it needs: rye sandbox suggest mine/hello\n"
    )


def test_the_commands_that_new_names_work_as_they_stand(project: CommandLine) -> None:
    following = project.json("new", "tool", "mine/hello", "--space", "user")["next"]

    statuses = [project(*command.split()[1:]).status for command in following]

    assert statuses == [0, 0]


def test_new_works_without_a_key_and_without_init(cli: CommandLine) -> None:
    assert cli("new", "tool", "mine/hello").status == 0
    assert (cli.project / ".ai/tools/mine/hello.py").is_file()


@pytest.mark.parametrize("language", ["python", "yaml"])
def test_an_existing_item_is_never_overwritten(project: CommandLine, language: str) -> None:
    path = Path(project.json("new", "tool", "mine/hello")["path"])
    path.write_bytes(b"mine")

    refused = project("new", "tool", "mine/hello", "--language", language)

    assert refused.status == 1
    assert refused.stderr == (
        f"error: {path}: an item of this id is already there\n"
        "  hint: choose another id, or edit that file\n"
    )
    assert path.read_bytes() == b"mine"
    assert [entry.name for entry in path.parent.iterdir()] == ["hello.py"]


def test_an_item_that_hides_another_says_so(project: CommandLine) -> None:
    made = project("new", "tool", "rye/bash/bash")

    hidden = project.bundle.ai / "tools/rye/bash/bash.yaml"
    assert made.stderr.startswith(
        f"warning: tool:rye/bash/bash hides {hidden} ({project.bundle.label})\n"
    )


@pytest.mark.parametrize(
    "item_id",
    [
        "../x",
        "/x",
        "a//b",
        "a/../b",
        "",
        "a\\b",
        "a\x00b",
        "_hidden",
        ".hidden",
        "a/_b",
        'a"b',
        "a b",
        "a$b",
        "a\nb",
        "CON",
        "a" * 600,
    ],
)
def test_an_id_that_no_template_could_hold_is_refused(cli: CommandLine, item_id: str) -> None:
    refused = cli("new", "tool", item_id)

    assert refused.status == 2
    assert refused.stderr.startswith("error: item reference ")
    assert list(cli.project.iterdir()) == []


def test_a_directive_needs_a_name_in_snake_case(cli: CommandLine) -> None:
    refused = cli("new", "directive", "mine/My-Review")

    assert refused.status == 2
    assert refused.stderr == (
        "error: directive:mine/My-Review: expected a name in snake_case, found 'My-Review'\n"
        "  hint: rye new directive mine/my_review\n"
    )


def test_only_a_tool_has_a_language(cli: CommandLine) -> None:
    refused = cli("new", "knowledge", "x", "--language", "bash")

    assert refused.status == 2
    assert refused.stderr == (
        "error: --language bash: expected with a tool, found a knowledge\n"
        "  hint: see: rye new --help\n"
    )


def test_an_unknown_kind_lists_the_kinds(cli: CommandLine) -> None:
    refused = cli("new", "tol", "x")

    assert refused.status == 2
    assert refused.stderr.startswith("error: rye new: argument KIND: invalid choice: 'tol'")
    assert all(kind in refused.stderr for kind in ("tool", "directive", "knowledge", "config"))


def test_an_author_can_stand_in_any_header(project: CommandLine) -> None:
    made = project.json("new", "directive", "mine/greet", USER="<&>")

    assert "<author>unknown</author>" in Path(made["path"]).read_text("utf-8")
    assert project("sign", "directive:mine/greet").status == 0


def test_outside_a_project_only_user_space_takes_items(signer: CommandLine) -> None:
    refused = signer("new", "tool", "mine/hello", cwd=signer.home)
    taken = signer("new", "tool", "mine/hello", "--space", "user", cwd=signer.home)

    assert refused.status == 2
    assert refused.stderr.startswith("error: no project: ")
    assert taken.status == 0


def test_without_a_home_user_space_takes_no_items(cli: CommandLine) -> None:
    assert cli("new", "tool", "mine/hello", "--space", "user", HOME="").status == 6


def test_a_file_in_the_place_of_a_folder_is_named(cli: CommandLine) -> None:
    (cli.project / ".ai").write_bytes(b"")

    refused = cli("new", "tool", "mine/hello")

    assert refused.status == 1
    assert refused.stderr.startswith(f"error: {cli.project / '.ai'}")
