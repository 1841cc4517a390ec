"""Rights that a reader sees in a tool and that Rye does not read: never signed, and never run."""

from pathlib import Path

import pytest

from ryeos.items.errors import ItemValidationError
from tests.support.workspace import Workspace

TOOL = "mine/deploy"
MARK = "PWNED"
WRITES = f'\nopen("{MARK}", "w").close()\n'

UNREAD = {
    "in a chain": "X = SANDBOX = {}",
    "computed": "SANDBOX = dict()",
    "in a branch": "if True:\n    SANDBOX = {}",
    "twice": 'SANDBOX = {}\nx = 1\nSANDBOX = {"write": "any", "read": "any"}',
    "in other letters": "Sandbox = {}",
    "misspelt": "SANDBX = {}",
    "with a Cyrillic letter": "S\u0410NDBOX = {}",
    "as a comment": "# sandbox: {}",
    "through globals": 'globals()["SANDBOX"] = {}',
    "through another name of globals": 'g = globals()\ng["SANDBOX"] = {}',
    "with another colon": "# sandbox\uff1a {}",
    "a single right": "# sandbox.write: []",
    "handed on": 'SANDBOX = {"write": ["{project}"]}\nS = SANDBOX\nS["write"] = []',
}


@pytest.mark.parametrize("declaration", UNREAD.values(), ids=UNREAD)
def test_a_seeming_declaration_is_not_signed(workspace: Workspace, declaration: str) -> None:
    path = workspace.project.tool(TOOL, WRITES, extra=f"{declaration}\n")
    before = path.read_bytes()

    with pytest.raises(ItemValidationError, match=r"line \d+: "):
        workspace.project.sign(path)

    assert path.read_bytes() == before


@pytest.mark.parametrize("declaration", UNREAD.values(), ids=UNREAD)
def test_a_tool_that_was_signed_with_one_does_not_run(
    workspace: Workspace, declaration: str
) -> None:
    path = workspace.project.tool(TOOL, WRITES, extra=f"{declaration}\n")
    workspace.project.sign_unchecked(path)

    result = workspace.run(TOOL)

    assert result.metadata["error_code"] == "VALIDATION_FAILED"
    assert "seems to declare rights" in str(result.error)
    assert not (workspace.project_path / MARK).exists()


def test_verifying_refuses_what_a_run_refuses(workspace: Workspace) -> None:
    path = workspace.project.tool(TOOL, WRITES, extra="SANDBOX = dict()\n")
    workspace.project.sign_unchecked(path)
    target = workspace.project.target(path).verify_target

    (report,) = workspace.rye().audit([target])

    assert report.state == "refused"
    assert "SANDBOX is computed" in report.problem


def test_an_older_tool_with_two_blocks_gets_neither(workspace: Workspace) -> None:
    text = (
        "# version: 1.0.0\n# tool_type: bash\n"
        "# executor_id: rye/core/runtimes/bash/bash\n# category: mine\n# description: d\n"
        '# sandbox: {}\n# sandbox: {"write": "any", "programs": "any"}\n'
        f"touch {MARK}\n"
    )
    path = workspace.project.write("tools/mine/two.sh", text)
    workspace.project.sign_unchecked(path)

    result = workspace.run("mine/two")

    assert result.metadata["error_code"] == "VALIDATION_FAILED"
    assert not (workspace.project_path / MARK).exists()


def test_a_declaration_behind_a_carriage_return_is_not_signed(workspace: Workspace) -> None:
    path = workspace.project.write(
        "tools/mine/deploy.py", workspace.project.tool(TOOL).read_bytes() + b"# x\rSANDBOX = {}\n"
    )

    with pytest.raises(ItemValidationError, match="line 8: a carriage return in the line"):
        workspace.project.sign(path)


def test_a_json_tool_with_a_key_twice_is_not_signed(workspace: Workspace) -> None:
    path = workspace.project.write(
        "tools/mine/call.json",
        '{"tool_type": "http", "executor_id": "rye/core/primitives/http_client",\n'
        '"version": "1.0.0", "category": "mine", "description": "d",\n'
        '"sandbox": {}, "sandbox": {"network": "any"}}',
    )

    with pytest.raises(Exception, match="expected each key once, found 'sandbox' twice"):
        workspace.project.sign(path)


def test_a_json_tool_with_a_key_in_other_letters_is_not_signed(workspace: Workspace) -> None:
    path = workspace.project.write(
        "tools/mine/call.json",
        '{"tool_type": "http", "executor_id": "rye/core/primitives/http_client",\n"Sandbox": {}}',
    )

    with pytest.raises(ItemValidationError, match="line 2: Sandbox is not read"):
        workspace.project.sign(path)


def test_a_json_file_of_data_may_say_anything(workspace: Workspace) -> None:
    path = workspace.project.write("tools/mine/data.json", '{"Sandbox": {}, "a": 1, "a": 2}')

    assert workspace.project.sign(path).error is None


def test_a_tool_that_reads_its_block_is_signed_and_runs(workspace: Workspace) -> None:
    body = 'print(SANDBOX["read"])  # the SANDBOX of this tool\n'
    path = workspace.project.tool(TOOL, body, extra='SANDBOX = {"read": ["{project}"]}\n')

    assert workspace.project.sign(path).error is None
    assert workspace.run(TOOL).success


def test_a_directive_with_a_second_block_is_not_signed(workspace: Workspace) -> None:
    block = '```xml\n<directive name="plan" version="9.0.0">\n</directive>\n```\n'
    path = workspace.project.directive("mine/plan", body=block)

    with pytest.raises(ItemValidationError, match="begins a second header"):
        workspace.project.sign(path)


def test_knowledge_with_a_key_in_other_letters_is_not_signed(workspace: Workspace) -> None:
    path: Path = workspace.project.knowledge("mine/fact")
    path.write_text(path.read_text("utf-8").replace("version:", "Version: x\nversion:"), "utf-8")

    with pytest.raises(ItemValidationError, match="line 6: Version is not read"):
        workspace.project.sign(path)


JSDOC = (
    "/**\n * @version 1.0.0\n * @tool_type javascript\n"
    " * @executor_id rye/core/runtimes/node/node\n * @category mine\n * @description d\n"
    " * @sandbox {}\n */\nexport function execute() {}\n"
)
INSIDE = (
    'version: "1.0.0"\ntool_type: bash\nexecutor_id: rye/core/runtimes/bash/bash\n'
    f"category: mine\ndescription: d\nconfig:\n  script: touch {MARK}\n  sandbox: {{}}\n"
)


@pytest.mark.parametrize(("name", "text"), [("a.mjs", JSDOC), ("a.yaml", INSIDE)])
def test_rights_beside_what_is_read_are_neither_signed_nor_run(
    workspace: Workspace, name: str, text: str
) -> None:
    path = workspace.project.write(f"tools/mine/{name}", text)

    with pytest.raises(ItemValidationError, match=r"line [78]: .*sandbox"):
        workspace.project.sign(path)
    workspace.project.sign_unchecked(path)

    assert workspace.run("mine/a").metadata["error_code"] == "VALIDATION_FAILED"
    assert not (workspace.project_path / MARK).exists()


HEADER = "# version: 1.0.0\n# tool_type: bash\n# category: mine\n# description: d\n"
NOT_READ = {
    "a flag of a script": ("a.sh", f"#!/bin/bash\n{HEADER}# retryable: true\n"),
    "a block of a script": ("a.sh", f'#!/bin/bash\n{HEADER}# env_config: {{"unset": ["X"]}}\n'),
    "a block of JSDoc": (
        "a.mjs",
        JSDOC.replace("@sandbox {}", '@config_schema {"type": "object"}'),
    ),
    "a second comment": (
        "a.mjs",
        JSDOC.replace(" * @sandbox {}\n */", " */\n/** @version 2.0.0 */"),
    ),
    "a comment of YAML": ("a.yaml", INSIDE.replace("  sandbox: {}", '# sandbox: {"write": []}')),
    "a merge in a block": (
        "a.yaml",
        INSIDE.replace("  sandbox:", "sandbox: {<<: {write: []}}\nx:"),
    ),
    "a single right in YAML": ("a.yaml", INSIDE.replace("  sandbox:", "sandbox.write:")),
    "a key twice": (
        "a.py",
        (
            '"""t"""\n__version__ = "1.0.0"\n__tool_type__ = "python"\n__category__ = "mine"\n'
            '__executor_id__ = "rye/core/runtimes/python/function"\n__tool_description__ = "d"\n'
            'SANDBOX = {"write": [], "programs": "none", "write": ["{project}"]}\n'
        ),
    ),
    "a field below config": ("a.yaml", INSIDE.replace("sandbox: {}", "executor_id: x/y")),
}


@pytest.mark.parametrize(("name", "text"), NOT_READ.values(), ids=NOT_READ)
def test_a_field_that_is_not_read_is_not_signed(workspace: Workspace, name: str, text: str) -> None:
    path = workspace.project.write(f"tools/mine/{name}", text)

    with pytest.raises(ItemValidationError, match=r"line \d+: "):
        workspace.project.sign(path)
