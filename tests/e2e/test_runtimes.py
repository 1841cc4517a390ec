"""Runtimes of the built file by all their names, and runtimes that a user adds as a file."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.built import Machine
from tests.support.programs import require_program

pytestmark = pytest.mark.e2e

PERL = """
version: "1.0.0"
tool_type: runtime
executor_id: rye/core/primitives/execute
category: langs
description: Run Perl programs
env_config:
  interpreter: {type: system_binary, binary: perl, var: RYE_PERL}
  unset: [PERL5LIB, PERL5OPT]
config:
  command: "${RYE_PERL}"
  args: ["{tool_path}", "{project_path}"]
  input_data: "{params_json}"
"""
PERL_TOOL = """#!/usr/bin/env perl
# version: 1.0.0
# tool_type: perl
# executor_id: langs/perl
# category: langs
# description: Shouts
use strict;
my ($word) = <STDIN> =~ /"word": "(\\w+)"/;
print '{"said": "', uc $word, '", "project": "', $ARGV[0], '"}', "\\n";
"""
AWK = """
__version__ = "1.0.0"
__tool_type__ = "runtime"
__executor_id__ = "rye/core/primitives/execute"
__category__ = "langs"
__tool_description__ = "Run awk programs"
ENV_CONFIG = {"interpreter": {"type": "system_binary", "binary": "awk", "var": "RYE_AWK"}}
CONFIG = {"command": "${RYE_AWK}", "args": ["-f", "{tool_path}"], "timeout": 5}
"""
AWK_TOOL = """# version: 1.0.0
# tool_type: awk
# executor_id: langs/awk
# category: langs
# description: Counts the characters that it gets
{ n += length($0) }
END { print n }
"""


class Shop:
    """A project, and a key of the user."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        assert machine.run("keys", "generate").returncode == 0

    def write(self, relative: str, text: str, *, base: Path | None = None) -> str:
        """Write and sign a tool; the output of signing."""
        path = (base or self.machine.project) / ".ai" / "tools" / relative
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.lstrip("\n"), encoding="utf-8")
        ended = self.machine.run("sign", str(path))
        assert ended.returncode == 0, ended.stderr
        return ended.stderr

    def runs(self, item_id: str, *arguments: str, **environ: str) -> dict[str, Any]:
        """The document that ``run --json`` prints."""
        settings = self.machine.environ(**environ)
        ended = self.machine.run("run", item_id, *arguments, "--json", environ=settings)
        document = json.loads(ended.stdout)
        assert isinstance(document, dict)
        return document | {"exit_status": ended.returncode}


@pytest.fixture
def shop(machine: Machine) -> Shop:
    return Shop(machine)


def runtime(item_id: str, body: str, **header: str) -> str:
    fields = {"version": '"1.0.0"', "tool_type": "runtime", "description": "test"}
    fields |= {"executor_id": "rye/core/primitives/execute"}
    fields |= {"category": item_id.rpartition("/")[0]} | header
    return "".join(f"{name}: {value}\n" for name, value in fields.items()) + body


# --- a runtime is a file


@pytest.mark.heavy
def test_a_runtime_written_in_yaml_is_added_as_a_file(shop: Shop) -> None:
    require_program("perl")
    shop.write("langs/perl.yaml", PERL)
    shop.write("langs/shout.sh", PERL_TOOL)

    document = shop.runs("langs/shout", "word=hello")

    assert document["data"] == {"said": "HELLO", "project": str(shop.machine.project)}
    chain = [(e["item_id"], e["space"]) for e in document["chain"]]
    assert chain[:2] == [("langs/shout", "project"), ("langs/perl", "project")]


@pytest.mark.heavy
def test_a_runtime_written_in_python_is_added_as_a_file(shop: Shop) -> None:
    require_program("awk")
    shop.write("langs/awk.py", AWK)
    shop.write("langs/count.sh", AWK_TOOL)

    assert shop.runs("langs/count", "a=b")["data"] == len('{"a": "b"}')


def test_an_unsigned_runtime_runs_nothing(shop: Shop) -> None:
    path = shop.machine.project / ".ai/tools/langs/perl.yaml"
    path.parent.mkdir(parents=True)
    path.write_text(PERL.lstrip(), encoding="utf-8")
    shop.write("langs/shout.sh", PERL_TOOL)

    assert shop.runs("langs/shout", "word=x")["code"] == "UNSIGNED"


def test_a_tool_of_the_user_cannot_use_a_runtime_of_the_project(shop: Shop) -> None:
    shop.write("langs/perl.yaml", PERL)

    with pytest.raises(AssertionError, match="no such item, 'langs/perl'"):
        shop.write("langs/shout.sh", PERL_TOOL, base=shop.machine.home)


# --- the shipped ones, by all their names

SCRIPTS = {
    "py": 'import json, sys\n{header}\nprint(json.dumps(json.load(sys.stdin)["n"]))\n',
    "js": "{header}\nexports.execute = ({{ n }}) => n;\n",
    "sh": "{header}\ncat\n",
    "yaml": "{header}\nconfig:\n  script: echo {{n}}\n",
}
PYTHON = [
    "python_script_runtime",
    "python_script",
    "rye/core/runtimes/python_script_runtime",
    "rye/core/runtimes/python/script",
]
NODE = ["node_runtime", "node", "rye/core/runtimes/node", "rye/core/runtimes/node_runtime"]
BASH = [
    "bash_runtime",
    "shell_runtime",
    "rye/core/runtimes/bash",
    "rye/core/runtimes/shell_runtime",
]


def header(suffix: str, executor: str) -> str:
    fields = {"version": "1.0.0", "tool_type": "test", "executor_id": executor}
    fields |= {"category": "mine", "description": "test"}
    match suffix:
        case "py":
            return "\n".join(f'__{name}__ = "{value}"' for name, value in fields.items())
        case "js":
            return "/**\n" + "".join(f" * @{n} {v}\n" for n, v in fields.items()) + " */"
        case "sh":
            return "\n".join(f"# {name}: {value}" for name, value in fields.items())
        case _:
            return "\n".join(f'{name}: "{value}"' for name, value in fields.items())


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("suffix", "executor", "canonical"),
    [
        *(("py", name, "rye/core/runtimes/python/script") for name in PYTHON),
        *(("js", name, "rye/core/runtimes/node/node") for name in NODE),
        *(("sh", name, "rye/core/runtimes/bash/bash") for name in BASH),
        *(("yaml", name, "rye/core/runtimes/bash/bash") for name in BASH),
    ],
)
def test_a_runtime_answers_to_its_short_and_older_names(
    shop: Shop, suffix: str, executor: str, canonical: str
) -> None:
    if suffix == "js":
        require_program("node")
    text = SCRIPTS[suffix].format(header=header(suffix, executor))
    shop.write(f"mine/tool.{suffix}", text)

    document = shop.runs("mine/tool", "n:=7")

    assert document["data"] in (7, {"n": 7}), document
    assert document["chain"][1]["item_id"] == canonical


@pytest.mark.heavy
@pytest.mark.parametrize("item_id", ["rye/bash", "rye/bash/bash"])
def test_a_folder_stands_for_the_item_of_its_name(shop: Shop, item_id: str) -> None:
    assert shop.runs(item_id, "command=echo 7")["data"]["stdout"] == "7\n"


@pytest.mark.heavy
@pytest.mark.parametrize("executor", ["subprocess", "execute", "rye/core/primitives/subprocess"])
def test_a_primitive_answers_to_its_names(shop: Shop, executor: str) -> None:
    body = 'config:\n  command: /bin/sh\n  args: ["-c", "echo 7"]\n'
    shop.write("mine/tool.yaml", runtime("mine/tool", body, tool_type="x", executor_id=executor))

    assert shop.runs("mine/tool")["data"] == 7


@pytest.mark.heavy
@pytest.mark.parametrize(
    "executor",
    ["rye/core/runtimes/state-graph/runtime", "state_graph_runtime", "state-graph", "state_graph"],
)
def test_a_state_graph_runs_by_every_name_of_its_runtime(shop: Shop, executor: str) -> None:
    config = "config: {start: a, nodes: {a: {type: return, output: {n: 7}}}}\n"
    text = runtime("mine/flow", f"permissions: []\n{config}")
    text = text.replace("tool_type: runtime", "tool_type: graph")
    shop.write("mine/flow.yaml", text.replace("rye/core/primitives/execute", executor))

    assert shop.runs("mine/flow")["data"]["output"] == {"n": 7}


# --- bash, point for point


def test_a_script_sees_parameters_twice_and_the_project(shop: Shop) -> None:
    text = header("sh", "rye/core/runtimes/bash/bash")
    shop.write("mine/tool.sh", text + '\nprintf "%s|" "$0" "$1" "$2" "$#"; cat\n')

    data = shop.runs("mine/tool", "a=b")["data"]["stdout"]

    tool = shop.machine.project / ".ai/tools/mine/tool.sh"
    # $0 is a copy in a folder of the run, at the same place below it.
    assert data.endswith(f'{tool}|{{"a": "b"}}|{shop.machine.project}|2|{{"a": "b"}}')


@pytest.mark.heavy
@pytest.mark.parametrize("key", ["script", "command_template", "command"])
def test_a_command_tool_sees_its_file_parameters_and_project(shop: Shop, key: str) -> None:
    body = f"""config:\n  {key}: printf '%s|' "$0" "$1" "$2" {{a}}; cat\n"""
    shop.write("mine/tool.yaml", header("yaml", "rye/core/runtimes/bash/bash") + "\n" + body)

    data = shop.runs("mine/tool", "a=x; id")["data"]["stdout"]

    tool = shop.machine.project / ".ai/tools/mine/tool.yaml"
    given = '{"a": "x; id"}'
    assert data == f"{tool}|{given}|{shop.machine.project}|x; id|{given}"


def test_a_command_tool_without_any_command_says_so(shop: Shop) -> None:
    body = "config: {command: /bin/bash}\n"
    shop.write("mine/tool.yaml", header("yaml", "rye/core/runtimes/bash/bash") + "\n" + body)

    assert shop.runs("mine/tool")["error"] == "command: No command specified"
    assert shop.runs("mine/tool", "command=echo 7")["data"]["stdout"] == "7\n"


def test_the_bash_that_the_environment_names_is_used(shop: Shop, tmp_path: Path) -> None:
    mine = tmp_path / "my bash"
    mine.write_text('#!/bin/sh\necho "mine: $1"\n', encoding="utf-8")
    mine.chmod(0o755)

    assert shop.runs("rye/bash", "command=x", RYE_BASH=str(mine))["data"]["stdout"] == "mine: -c\n"


# --- mistakes in a runtime


def use(shop: Shop, body: str) -> None:
    """A runtime ``mine/own`` and a tool that runs on it."""
    shop.write("mine/own.yaml", runtime("mine/own", body))
    shop.write("mine/tool.yaml", header("yaml", "mine/own") + "\n")


def test_a_missing_interpreter_is_reported_with_every_name_and_folder(shop: Shop) -> None:
    use(
        shop,
        "env_config:\n  interpreter: {type: local_binary, binary: gone, candidates: [lost],"
        ' search_paths: [bin], var: RYE_GONE, fallback: away}\nconfig: {command: "${RYE_GONE}"}\n',
    )

    document = shop.runs("mine/tool", PATH="/usr/none:/usr/nothing", RYE_PYTHON="")

    said, _, searched = document["error"].partition(" (searched: ")
    own, *path, programs = searched.removesuffix(")").split(", ")
    assert said == "program 'gone, lost or away': no such interpreter"
    assert own == f"{shop.machine.project}/bin"
    assert programs.startswith(f"{shop.machine.cache}/programs/")
    assert path == ["/usr/none", "/usr/nothing"]
    assert (document["code"], document["exit_status"]) == ("INTERPRETER_NOT_FOUND", 6)


def test_a_file_that_is_no_program_is_reported_with_the_reason(shop: Shop) -> None:
    use(
        shop,
        "env_config:\n  interpreter: {type: local_binary, binary: gone, candidates: [lost],"
        ' search_paths: [bin], var: RYE_GONE}\nconfig: {command: "${RYE_GONE}"}\n',
    )
    folder = shop.machine.project / "bin"
    (folder / "gone").mkdir(parents=True)
    (folder / "lost").touch(mode=0o644)

    error = shop.runs("mine/tool")["error"]

    found = f"{folder}/gone is a folder, {folder}/lost is not executable"
    assert error == f"program 'gone or lost': no such interpreter (searched: {folder}; {found})"


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("kind", "problem"),
    [
        ("folder", "expected an executable file, found a directory"),
        ("file", "expected permission to execute it, found none"),
    ],
)
def test_a_command_that_is_no_program_is_reported(
    shop: Shop, tmp_path: Path, kind: str, problem: str
) -> None:
    path = tmp_path / "command"
    path.mkdir() if kind == "folder" else path.touch(mode=0o644)
    use(shop, f'config: {{command: "{path}"}}\n')

    document = shop.runs("mine/tool")

    assert document["status"] == "error"
    assert str(path) in document["error"]
    assert problem in document["error"]


def test_a_preset_interpreter_that_is_a_folder_is_reported_and_not_used(shop: Shop) -> None:
    ended = shop.machine.run(
        "run", "rye/bash", "command=echo 7", environ=shop.machine.environ(RYE_BASH="/tmp")
    )

    assert ended.stdout == "7\n"
    assert "RYE_BASH is set in the environment, but not to the absolute path of a file" in (
        ended.stderr
    )


def test_an_unknown_key_of_a_runtime_is_reported_with_the_nearest_known_one(shop: Shop) -> None:
    body = (
        "verify_deps: {enabled: true, extension: [.py]}\nplanet: mars\n"
        'author: me\nx-mine: 1\nconfig: {command: /bin/echo, args: ["7"]}\n'
    )
    shop.write("mine/own.yaml", runtime("mine/own", body))
    shop.write("mine/tool.yaml", header("yaml", "mine/own") + "\nanything: goes\n")

    warnings = shop.runs("mine/tool")["metadata"]["warnings"]

    assert warnings == [
        "mine/own: unknown key 'planet' is not used (string)",
        "mine/own: verify_deps: unknown key 'extension' is not used: did you mean extensions?",
    ]


def test_a_key_of_a_runtime_that_is_nearly_another_is_not_signed(shop: Shop) -> None:
    body = 'confg: {timeout: 3}\nconfig: {command: /bin/echo, args: ["7"]}\n'

    with pytest.raises(AssertionError, match=r"unknown key 'confg': did you mean config\?"):
        shop.write("mine/own.yaml", runtime("mine/own", body))


@pytest.mark.heavy
def test_a_runtime_written_in_python_may_have_other_constants(shop: Shop) -> None:
    extra = '"""Docs."""\n__author__ = "me"\nGREETING = "hi"\n'

    assert "unknown key" not in shop.write("langs/awk.py", extra + AWK)
    with pytest.raises(AssertionError, match=r"did you mean CONFIG\?"):
        shop.write("langs/awk.py", f"{extra}CONFG = {{}}\n{AWK}")
