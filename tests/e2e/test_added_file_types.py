"""A language that Rye does not know, added to the built file by three signed files."""

from pathlib import Path

import pytest

from tests.support.built import Machine
from tests.support.documents import examples, steps
from tests.support.programs import require_program

pytestmark = pytest.mark.e2e

PAGE = Path(__file__).resolve().parents[2] / "docs" / "items.md"


@pytest.mark.heavy
def test_lua_is_added_by_the_files_that_the_page_shows(machine: Machine) -> None:
    require_program("lua")
    assert machine.run("keys", "generate").returncode == 0
    for example in examples(PAGE):
        for step in steps(example.text):
            if step.command.startswith("cat > "):
                first, *lines = step.command.split("\n")
                path = machine.project / first.removeprefix("cat > ").removesuffix(" <<'EOF'")
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text("\n".join([*lines[:-1], ""]), "utf-8")
                assert machine.run("sign", str(path)).returncode == 0

    said = machine.run("run", "demo/shout", "word=hello")
    listed = machine.run("verify")
    found = machine.run("search", "loudly")
    shown = machine.run("load", "demo/shout")

    assert (said.returncode, said.stdout) == (0, '{\n  "said": "HELLO"\n}\n')
    assert (listed.returncode, "demo/shout" in listed.stdout) == (0, True)
    assert "tool:demo/shout" in found.stdout
    assert "word:upper()" in shown.stdout
