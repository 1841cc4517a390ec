"""The built file of the edition that holds the core alone."""

import json
from pathlib import Path

import pytest

from tests.support.built import BASE_PYTHON, ROOT, Machine, build_pyz

pytestmark = [pytest.mark.e2e, pytest.mark.heavy]


@pytest.fixture(scope="module")
def core_pyz(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file, built for this machine."""
    out = tmp_path_factory.mktemp("core")
    said = build_pyz(ROOT, "--host", "--edition", "core", "--out", str(out))
    assert "edition   core, the bundle ryeos-core" in said
    return out / "rye.pyz"


@pytest.fixture
def core(core_pyz: Path, tmp_path: Path) -> Machine:
    """A user's machine, with that file."""
    own = tmp_path / "core"
    own.mkdir()
    return Machine(own, BASE_PYTHON, core_pyz)


def test_each_edition_reports_its_name(core: Machine, machine: Machine) -> None:
    versions = [json.loads(one.ask("version", "--json")) for one in (core, machine)]

    assert [one["edition"] for one in versions] == ["core", "full"]
    assert [one["bundle"] for one in versions] == ["0.1.0", "0.1.0"]


def test_the_list_of_contents_says_the_edition(core_pyz: Path) -> None:
    contents = json.loads(core_pyz.with_name("rye.pyz.cdx.json").read_text("utf-8"))

    properties = contents["metadata"]["component"]["properties"]
    assert properties == [{"name": "rye:edition", "value": "core"}]


def test_the_core_verifies_and_holds_only_core_items(core: Machine) -> None:
    report = json.loads(core.ask("verify", "--all", "--json"))

    refs = [item["ref"] for item in report["items"] if "ref" in item]
    tools = [ref for ref in refs if ref.startswith("tool:")]
    assert set(report["counts"]) == {"valid"}
    assert tools
    assert {ref.split("/")[1] for ref in tools} == {"core"}


def test_the_core_runs_tools_of_a_project(core: Machine) -> None:
    assert core.run("keys", "generate").returncode == 0
    path = core.project / ".ai" / "tools" / "hello.sh"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        '# version: 1.0.0\n# category: ""\n# description: Greets\necho hello\n', "utf-8"
    )
    assert core.run("sign", str(path)).returncode == 0

    said = core.run("run", "hello")

    assert (said.returncode, said.stdout) == (0, "hello\n")


def test_items_of_the_full_edition_are_not_found_in_the_core(core: Machine) -> None:
    said = core.run("run", "rye/bash/bash", "command=echo hi")

    assert said.returncode == 3


def test_a_file_of_the_core_verifies_itself(core: Machine, core_pyz: Path) -> None:
    assert core.run("self", "verify", str(core_pyz)).returncode == 0
