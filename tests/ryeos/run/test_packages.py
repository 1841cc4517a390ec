"""Python tools that need packages: the block, the list that is signed, the environment of a run."""

import hashlib
import os
import shlex
import subprocess
import zipfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lillux.errors import LilluxError
from ryeos.items.errors import SpecError
from ryeos.run.chain import PACKAGES_MARK as MARK
from ryeos.run.packages import list_text, read_block
from tests.support.command_line import CommandLine
from tests.support.uv import installed_uv

TOOL = """\
# /// script
# requires-python = ">=3.8"
# dependencies = [{dependencies}]
# ///
__version__ = "1.0.0"
__tool_type__ = "python"
__executor_id__ = "rye/core/runtimes/python/{runtime}"
__category__ = "mine"
__tool_description__ = "Says what the package says"
import json
def execute(params, project_path):
    import shapes
    return {{"said": shapes.SAID}}
if __name__ == "__main__":
    print(json.dumps(execute({{}}, "")))
"""


def block(*lines: str) -> str:
    return "\n".join([MARK, *(f"# {line}" for line in lines), "# ///", "x = 1", ""])


@pytest.mark.parametrize(
    ("text", "dependencies"),
    [
        (block('dependencies = ["rich", "idna>=3,<4"]'), ("rich", "idna>=3,<4")),
        (block("dependencies = [", '  "rich[all]~=13.0",', "]"), ("rich[all]~=13.0",)),
        (block("dependencies = ['a; python_version < \"3.9\"']"), ('a; python_version < "3.9"',)),
        (block("dependencies = []"), None),
        (block('requires-python = ">=3.8"'), None),
        ("x = 1\n", None),
        ("# /// other\n# a = 1\n# ///\n", None),
    ],
)
def test_a_block_lists_the_dependencies_of_a_tool(
    text: str, dependencies: tuple[str, ...] | None
) -> None:
    found = read_block(text, "x.py")

    assert (found.dependencies if found else None) == dependencies


@pytest.mark.parametrize(
    "text",
    [
        block("dependencies = [") + block("dependencies = []"),
        block("dependencies = ["),
        block('dependencies = "rich"'),
        block("dependencies = [1]"),
        block("requires-python = 3"),
        *(block(f"dependencies = ['{one}']") for one in (
            "--index-url=http://x", "-r x", "./x", "x @ https://x/y.whl", "git+https://x", "a b",
            "a\t--hash=1", "a==1 --no-deps", "", "x" * 300, "https://x/y.whl",
        )),
        block('dependencies = ["a;b\\n--index-url=x"]'),
        "# /// script\n# never ended\n",
    ],
)  # fmt: skip
def test_an_invalid_block_is_refused(text: str) -> None:
    with pytest.raises(SpecError):
        read_block(text, "x.py")


@given(st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    for whole in (text, f"{MARK}\n# {text}\n# ///\n", block(f"dependencies = [{text!r}]")):
        with suppress(LilluxError):
            read_block(whole, "x.py")


def wheel(folder: Path, version: str = "1.0.0", value: str = "round") -> Path:
    """A wheel of a package ``shapes``."""
    folder.mkdir(exist_ok=True)
    path = folder / f"shapes-{version}-py3-none-any.whl"
    info = f"shapes-{version}.dist-info"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("shapes.py", f"SAID = {value!r}\n")
        named = f"Metadata-Version: 2.1\nName: shapes\nVersion: {version}\n"
        archive.writestr(f"{info}/METADATA", named)
        tagged = "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        archive.writestr(f"{info}/WHEEL", tagged)
        archive.writestr(f"{info}/RECORD", "")
    return path


@pytest.fixture
def cli(tmp_path: Path, bundle: Any) -> CommandLine:  # noqa: ANN401 - a Space
    return CommandLine(tmp_path, bundle)


@pytest.fixture
def index(cli: CommandLine, tmp_path: Path) -> Path:
    """A folder of wheels as the only package index, and a key."""
    folder = tmp_path / "wheels"
    wheel(folder)
    cli.env |= {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(folder), "UV_FIND_LINKS": str(folder)}
    cli.env |= {"UV_OFFLINE": "1", "UV_CACHE_DIR": str(tmp_path / "uv"), "PATH": os.environ["PATH"]}
    assert cli("keys", "generate").status == 0
    return folder


def write(cli: CommandLine, dependencies: str = '"shapes>=1"', runtime: str = "function") -> Path:
    path = cli.project / ".ai/tools/mine/say.py"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(TOOL.format(dependencies=dependencies, runtime=runtime), "utf-8")
    return path


@pytest.mark.heavy
@pytest.mark.parametrize("tool", ["pip", "uv"])
@pytest.mark.parametrize("runtime", ["function", "script"])
def test_packages_listed_by_hash_are_installed_once_and_used(
    cli: CommandLine, index: Path, runtime: str, tool: str
) -> None:
    if tool == "uv":
        cli.env["PATH"] = f"{installed_uv()}{os.pathsep}{cli.env['PATH']}"
    write(cli, runtime=runtime)

    digest = hashlib.sha256((index / "shapes-1.0.0-py3-none-any.whl").read_bytes()).hexdigest()
    signed = cli("sign", "tool:mine/say")
    listed = (cli.project / ".ai/tools/mine/say.packages.yaml").read_text("utf-8")
    dry = cli("run", "mine/say", "--dry-run")
    ran = cli.json("run", "mine/say")
    for one in index.iterdir():
        one.unlink()
    again = cli.json("run", "mine/say")

    assert signed.status == 0
    assert "shapes==1.0.0" in signed.stderr
    assert f"shapes==1.0.0 --hash=sha256:{digest}" in listed
    assert "would be installed first" in dry.stderr
    assert ran["data"] == again["data"] == {"said": "round"}
    assert cli("verify").status == 0


@pytest.mark.heavy
def test_a_changed_byte_of_an_installed_package_is_refused_until_it_is_removed(
    cli: CommandLine, index: Path
) -> None:
    write(cli)
    assert cli("sign", "tool:mine/say").status == 0
    installed = cli.json("run", "mine/say")["data"]
    (module,) = (cli.home / ".ai/state/environments").rglob("shapes.py")
    cached = next(iter(module.parent.glob("__pycache__/shapes.*.pyc")), module)
    changes = []
    for path in {module, cached}:
        before = path.read_bytes()
        path.write_bytes(before + b"\n")
        changes.append(cli("run", "mine/say", "--json"))
        path.write_bytes(before)
    module.write_bytes(b"SAID = 'changed'\n")
    refused = cli("run", "mine/say", "--json").json
    subprocess.run(shlex.split(refused["hint"].partition(": ")[2]), check=True)

    assert installed == {"said": "round"}
    assert {(done.status, done.json["code"]) for done in changes} == {(4, "INTEGRITY")}
    assert str(module) in refused["error"]
    assert cli.json("run", "mine/say")["data"] == {"said": "round"}


@pytest.mark.heavy
def test_other_bytes_of_the_same_version_are_not_installed(cli: CommandLine, index: Path) -> None:
    write(cli)
    assert cli("sign", "tool:mine/say").status == 0
    wheel(index, value="evil")

    done = cli("run", "mine/say")

    assert done.status == 6
    assert "packages: cannot install them" in done.stderr
    assert "evil" not in done.stdout


@pytest.mark.heavy
def test_a_list_is_not_used_once_it_or_the_block_was_changed(cli: CommandLine, index: Path) -> None:
    path = write(cli)
    cli("sign", "tool:mine/say")
    listed = path.with_name("say.packages.yaml")
    before = listed.read_bytes()

    listed.write_bytes(before.replace(b"shapes==1.0.0", b"shapes==1.0.1"))
    changed = cli("run", "mine/say")
    listed.unlink()
    missing = cli("run", "mine/say")
    listed.write_bytes(before.replace(b"block: ", b"block: f"))
    cli("sign", "tool:mine/say.packages")
    other = cli("run", "mine/say")
    wheel(index, "2.0.0", "square")
    write(cli, '"shapes>=2"')
    cli("sign", "tool:mine/say")

    assert "content modified since signing" in changed.stderr
    assert "the list of packages is not there" in missing.stderr
    assert "the list of packages is of another block" in other.stderr
    assert "shapes==2.0.0" in listed.read_text("utf-8")


def test_a_planted_list_is_replaced_and_never_signed(cli: CommandLine, index: Path) -> None:
    path = write(cli)
    found = read_block(path.read_text("utf-8"), "x.py")
    assert found
    listed = path.with_name("say.packages.yaml")
    planted = f"evil==1.0 --hash=sha256:{'0' * 64}"
    listed.write_text(list_text("mine/say", found, [planted]), "utf-8")

    signed = cli("sign", "tool:mine/say")
    made = listed.read_bytes()
    again = cli("sign", "--force", "tool:mine/say")

    assert (signed.status, again.status) == (0, 0)
    assert b"evil" not in made
    assert b"shapes==1.0.0" in made
    assert made == listed.read_bytes()  # signed and of this block: kept
    assert cli("verify").status == 0


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("dependencies", "problem"),
    [
        ('"nosuch==1"', "cannot resolve them"),
        ('"shapes>=9"', "cannot resolve them"),
        ('"./wheels/shapes"', "expected a package with versions"),
    ],
)
def test_a_tool_with_unavailable_packages_is_not_signed(
    cli: CommandLine, index: Path, dependencies: str, problem: str
) -> None:
    path = write(cli, dependencies)

    done = cli("sign", "tool:mine/say")

    assert done.status == 6
    assert problem in done.stderr
    assert "rye:signed" not in path.read_text("utf-8")
    assert not path.with_name("say.packages.yaml").exists()


@pytest.mark.heavy
def test_without_an_index_a_first_run_reports_the_missing_packages(
    cli: CommandLine, index: Path
) -> None:
    write(cli)
    cli("sign", "tool:mine/say")
    (index / "shapes-1.0.0-py3-none-any.whl").unlink()

    done = cli("run", "mine/say", "--json")

    assert (done.status, done.json["code"]) == (6, "PACKAGES_UNAVAILABLE")
    assert "package index" in done.json["hint"]


@pytest.mark.heavy
def test_a_list_for_another_platform_is_reported_and_replaced(
    cli: CommandLine, index: Path
) -> None:
    path = write(cli)
    found = read_block(path.read_text("utf-8"), "x.py")
    assert found
    listed = path.with_name("say.packages.yaml")
    assert cli("sign", "tool:mine/say").status == 0
    elsewhere = [f"shapes==1.0.0 --hash=sha256:{'0' * 64}"]
    text = list_text("mine/say", found, elsewhere, "win-amd64, Python 3.12")
    listed.write_text(text, "utf-8")
    assert cli("sign", str(listed)).status == 0

    refused = cli("run", "mine/say", "--json")
    signed = cli("sign", "--force", "tool:mine/say")
    done = cli("run", "mine/say", "--json")

    assert (refused.status, refused.json["code"]) == (6, "PACKAGES_UNAVAILABLE")
    assert "was made by pip for win-amd64, Python 3.12, this is " in refused.json["error"]
    assert refused.json["hint"].startswith(f"make it for here: rye sign --force {path};")
    assert (signed.status, done.json["data"]) == (0, {"said": "round"})
    assert "win-amd64" not in listed.read_text("utf-8")


@pytest.mark.heavy
def test_another_python_than_the_block_allows_is_refused(cli: CommandLine, index: Path) -> None:
    path = write(cli)
    path.write_text(path.read_text("utf-8").replace(">=3.8", ">=4"), "utf-8")

    assert "expected Python >=4" in cli("sign", "tool:mine/say").stderr
