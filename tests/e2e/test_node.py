"""Tools in JavaScript and TypeScript, run by the built file with a real Node.js."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.built import Machine
from tests.support.node_tools import installed_tsx, node_source
from tests.support.programs import require_program

pytestmark = pytest.mark.e2e

GIVE_BACK = "return { params, projectPath, cwd: process.cwd() };"


class Shop:
    """A project with tools of Node.js, and a key of the user."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.tools = machine.project / ".ai" / "tools"
        assert machine.run("keys", "generate").returncode == 0

    def write(self, relative: str, source: str) -> None:
        path = self.tools / relative
        path.parent.mkdir(parents=True, exist_ok=True)
        text = node_source(Path(relative).with_suffix("").as_posix(), source)
        path.write_text(text, encoding="utf-8")
        assert self.machine.run("sign", str(path)).returncode == 0
        if (self.machine.project / "node_modules").exists():
            assert self.machine.run("trust", "--yes").returncode == 0

    def runs(self, item_id: str, *arguments: str) -> dict[str, Any]:
        """The document that ``run --json`` prints."""
        ended = self.machine.run("run", item_id, *arguments, "--json")
        document = json.loads(ended.stdout)
        assert isinstance(document, dict)
        return document | {"exit_status": ended.returncode}

    def data(self, item_id: str, *arguments: str) -> Any:  # noqa: ANN401 - JSON of the tool
        document = self.runs(item_id, *arguments)
        assert document["exit_status"] == 0, document
        return document["data"]


@pytest.fixture
def shop(machine: Machine) -> Shop:
    require_program("node")
    return Shop(machine)


@pytest.fixture
def tsx(machine: Machine) -> None:
    """tsx among the packages of the project."""
    (machine.project / "node_modules").symlink_to(installed_tsx())


LATE = "Promise.reject(new Error('late')); setTimeout(() => {}, 9e6); return NEVER;"
EXPORTS = {
    "a.js": "module.exports = { execute: (params, projectPath) => { %s } };",
    "b.cjs": "async function execute(params, projectPath) { await null; %s }\n"
    "module.exports = { execute };",
    "c.cjs": "exports.execute = function (params, projectPath) { %s };",
    "d.mjs": "export async function execute(params, projectPath) { %s }",
    "e.mjs": "const execute = (params, projectPath) => { %s };\nexport { execute };",
    "f.mjs": "export default { execute(params, projectPath) { %s } };",
}


# --- tools that export execute()


@pytest.mark.parametrize("name", EXPORTS)
def test_execute_of_a_module_is_called_with_parameters_and_project(shop: Shop, name: str) -> None:
    shop.write(f"mine/{name}", EXPORTS[name] % GIVE_BACK)

    project = str(shop.machine.project)
    expected = {"params": {"n": 1, "t": "${HOME}"}, "projectPath": project, "cwd": project}
    assert shop.data(f"mine/{Path(name).stem}", "n:=1", "t=${HOME}") == expected


def test_output_of_execute_goes_to_standard_error(shop: Shop) -> None:
    body = "console.log('noise'); process.stdout.write('more\\n'); return [1];"
    shop.write("mine/loud.js", EXPORTS["a.js"] % body)

    document = shop.runs("mine/loud")

    assert document["data"] == [1]
    assert document["metadata"]["stderr"] == "noise\nmore\n"


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("body", "data"),
    [("", {}), ("return null;", {}), ("return 0;", 0), ("return 10n ** 20n;", "1" + "0" * 20)],
)
def test_every_value_of_execute_is_json(shop: Shop, body: str, data: object) -> None:
    shop.write("mine/gives.js", EXPORTS["a.js"] % body)

    assert shop.data("mine/gives") == data


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("body", "error", "error_type"),
    [
        ("throw new RangeError('too far');", "RangeError: too far", "RangeError"),
        ("throw 'a text';", "'a text'", "string"),
        (LATE, "Error: late", "Error"),
        ("setTimeout(() => { throw new Error('x'); }); return NEVER;", "Error: x", "Error"),
        ("return NEVER;", "Error: execute() waits for something that never comes", "Error"),
        ("const a = {}; a.a = a; return a;", "TypeError: Converting circular", "TypeError"),
    ],
)
def test_an_exception_in_execute_is_an_error_with_its_type(
    shop: Shop, body: str, error: str, error_type: str
) -> None:
    shop.write("mine/fails.js", EXPORTS["a.js"] % body.replace("NEVER", "new Promise(() => {})"))

    document = shop.runs("mine/fails")

    assert document["exit_status"] == 1
    assert document["error"].startswith(error)
    assert document["data"]["error_type"] == error_type
    assert document["metadata"]["return_code"] == 1


def test_a_syntax_error_names_the_line(shop: Shop) -> None:
    shop.write("mine/broken.js", "exports.execute = () => { let a = ; };")

    document = shop.runs("mine/broken")

    assert document["error"] == "SyntaxError: Unexpected token ';'"
    assert "broken.js:10" in document["metadata"]["stderr"]


@pytest.mark.heavy
@pytest.mark.parametrize("status", [0, 3])
def test_a_tool_that_ends_its_process_without_a_result_has_failed(shop: Shop, status: int) -> None:
    shop.write("mine/leaves.js", EXPORTS["a.js"] % f"process.exit({status});")

    document = shop.runs("mine/leaves")

    assert (document["exit_status"], document["metadata"]["return_code"]) == (1, status)
    assert document["error"] == f"process.exit({status}) was called before there was a result"


@pytest.mark.heavy
def test_a_loop_without_end_ends_at_the_time_limit(shop: Shop) -> None:
    shop.write("mine/loops.mjs", EXPORTS["d.mjs"] % "for (;;) {}")

    document = shop.runs("mine/loops", "--timeout", "1")

    assert (document["exit_status"], document["code"]) == (124, "TIMEOUT")


@pytest.mark.heavy
def test_a_megabyte_goes_in_and_out(shop: Shop, tmp_path: Path) -> None:
    shop.write("mine/echo.js", EXPORTS["a.js"] % "return params.text;")
    text = "ü" * 1024 * 1024
    given = tmp_path / "params.json"
    given.write_text(json.dumps({"text": text}), encoding="utf-8")

    assert shop.data("mine/echo", "--params", f"@{given}") == text


# --- tools that start by themselves


def test_a_script_gets_its_parameters_as_an_option_when_it_looks_for_one(shop: Shop) -> None:
    source = """
        const { parseArgs } = require('node:util');
        function execute(params, projectPath) { return { params, projectPath }; }
        if (require.main === module) {
          const options = { params: { type: 'string' }, 'project-path': { type: 'string' } };
          const { values } = parseArgs({ options });
          console.log(JSON.stringify(execute(JSON.parse(values.params), values['project-path'])));
        }
        module.exports = { execute };
    """
    shop.write("mine/own.js", source)

    expected = {"params": {"n": 1}, "projectPath": str(shop.machine.project)}
    assert shop.data("mine/own", "n:=1") == expected


@pytest.mark.heavy
@pytest.mark.parametrize(
    "source",
    [
        "// reads process.argv and process.stdin, or so they say: https://a.b/parseArgs",
        "/* if (require.main === module) */ const url = 'https://example.org';",
        "const start = (child) => child.stdin.end(child.argv);",
        "const here = require('node:url').pathToFileURL(__filename);",
    ],
)
def test_a_text_that_only_looks_like_a_start_is_not_one(shop: Shop, source: str) -> None:
    shop.write("mine/calm.js", f"{source}\nexports.execute = () => 7;")

    assert shop.data("mine/calm") == 7


@pytest.mark.heavy
@pytest.mark.parametrize(
    "source",
    [
        "const { argv } = require('process'); if (argv.length) console.log(7);",
        "if (require . main === module) console.log(7);",
        "JSON.parse(require('fs').readFileSync(0)); console.log(7);",
        "JSON.parse(require('fs').readFileSync('/dev/stdin')); console.log(7);",
    ],
)
def test_a_tool_that_starts_by_itself_is_not_called_too(shop: Shop, source: str) -> None:
    shop.write("mine/own.js", f"{source}\nexports.execute = () => 8;")

    assert shop.data("mine/own") == 7


def test_a_script_reads_standard_input(shop: Shop) -> None:
    source = """
        import { pathToFileURL } from 'node:url';
        if (import.meta.url === pathToFileURL(process.argv[1]).href) {
          let text = '';
          for await (const part of process.stdin) text += part;
          console.log(JSON.stringify({ given: JSON.parse(text), words: process.argv.slice(2) }));
        }
    """
    shop.write("mine/reads.mjs", source)

    words = ["--project-path", str(shop.machine.project)]
    assert shop.data("mine/reads", "n:=1") == {"given": {"n": 1}, "words": words}


def test_a_script_of_no_special_form_simply_runs(shop: Shop) -> None:
    shop.write("mine/plain.js", "console.log('plain', require.main === module);")

    assert shop.data("mine/plain")["stdout"] == "plain true\n"


def test_an_exception_of_a_script_is_the_error(shop: Shop) -> None:
    shop.write("mine/throws.js", "throw new Error('no luck');")

    document = shop.runs("mine/throws")

    assert document["exit_status"] == 1
    assert "Error: no luck" in document["error"]


def test_constants_are_a_header_too(shop: Shop) -> None:
    path = shop.tools / "mine" / "constants.mjs"
    path.parent.mkdir(parents=True)
    source = """
        export const __version__ = "1.0.0";
        export const __tool_type__ = "javascript";
        export const __executor_id__ = "rye/core/runtimes/node/node";
        export const __category__ = "mine";
        export const __tool_description__ = "Doubles";
        export const CONFIG_SCHEMA = {
          type: "object", required: ["n"], properties: { n: { type: "integer" } },
        };
        export const execute = ({ n }) => n * 2;
    """
    path.write_text(source, encoding="utf-8")
    assert shop.machine.run("sign", "mine/constants").returncode == 0

    assert shop.data("mine/constants", "n:=21") == 42
    assert shop.runs("mine/constants", "n=x")["code"] == "VALIDATION_FAILED"


# --- packages


@pytest.mark.heavy
def test_a_package_has_modules_packages_and_a_folder_of_its_own(shop: Shop) -> None:
    folder = shop.tools / "pack"
    (folder / "node_modules" / "left").mkdir(parents=True)
    (folder / "node_modules" / "left" / "index.js").write_text("module.exports = 'left';", "utf-8")
    (folder / "package.json").write_text('{"name": "pack", "type": "commonjs"}', encoding="utf-8")
    (folder / "lib").mkdir()
    (folder / "lib" / "words.js").write_text("module.exports = 'words';", encoding="utf-8")
    source = """
        const found = [require('./lib/words'), require('lib/words'), require('left')];
        exports.execute = () => ({ found, cwd: process.cwd() });
    """
    shop.write("pack/tool.js", source)
    assert shop.runs("pack/tool")["code"] == "UNSIGNED"
    shop.machine.run("sign", str(folder / "lib" / "words.js"))

    data = shop.data("pack/tool")

    assert data["found"] == ["words", "words", "left"]
    assert data["cwd"] == str(folder)


# --- TypeScript


TYPED = """
    interface Given { n: number }
    enum Level { Low = 1, High }
    export async function execute(given: Given, projectPath: string): Promise<unknown> {
      return { double: given.n * 2, level: Level.High as number, projectPath };
    }
"""


@pytest.mark.heavy
@pytest.mark.usefixtures("tsx")
def test_typescript_runs_with_tsx_of_the_project(shop: Shop) -> None:
    shop.write("mine/typed.ts", TYPED)

    expected = {"double": 42, "level": 2, "projectPath": str(shop.machine.project)}
    assert shop.data("mine/typed", "n:=21") == expected


@pytest.mark.heavy
@pytest.mark.usefixtures("tsx")
@pytest.mark.parametrize("name", ["b.cjs", "d.mjs"])
def test_javascript_runs_with_tsx_as_it_does_without(shop: Shop, name: str) -> None:
    shop.write(f"mine/{name}", EXPORTS[name] % GIVE_BACK)

    assert shop.data(f"mine/{Path(name).stem}", "n:=1")["params"] == {"n": 1}


@pytest.mark.heavy
@pytest.mark.usefixtures("tsx")
def test_with_tsx_too_no_unverified_file_is_loaded(shop: Shop) -> None:
    (shop.tools / "mine").mkdir(parents=True)
    (shop.tools / "mine" / "helper.ts").write_text("export default 1;", encoding="utf-8")
    shop.write("mine/typed.ts", "import helper from './helper';\nconsole.log(helper as number);")

    error = shop.runs("mine/typed")["error"]

    assert "./helper is not loaded: only the tool's own file is verified" in error


def test_typescript_without_tsx_runs_or_says_what_is_needed(shop: Shop) -> None:
    shop.write("mine/typed.ts", "export const execute = (given: object): object => given;")

    document = shop.runs("mine/typed", "n:=1")

    if document["exit_status"] == 0:
        assert document["data"] == {"n": 1}
    else:
        assert document["error"].startswith("TypeScript needs tsx, or Node.js 22.6 or newer; found")
