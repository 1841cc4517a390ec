"""A machine with items for tests of the MCP server of the built file, and ways to start it."""

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from tests.support.built import Machine
from tests.support.mcp_client import McpClient

BASH = "rye/bash/bash"
_FUNCTION = '''\
"""A function for tests."""

__version__ = "1.0.0"
__tool_type__ = "python"
__executor_id__ = "python_function_runtime"
__category__ = "mine"
__tool_description__ = "A function for tests"

'''
_NOISY = """\
import os
import subprocess
import sys

print("printed by an import")


def execute(params, project_path):
    print("printed")
    sys.stdout.flush()
    os.write(1, b"written to descriptor 1\\n")
    subprocess.run([sys.executable, "-c", "print('printed by a child')"], check=True)
    return {"read": sys.stdin.read()}
"""
_MEDIA = """\
def execute(params, project_path):
    image = {"type": "image", "mimeType": "image/png", "data": "A" * params["size"]}
    return {"mcp_content": [image, {"type": "text", "text": "a picture"}, {"type": "odd"}]}
"""
_ODD = """\
def execute(params, project_path):
    return {"half": "\\ud800", "nothing": None, "text": "ü" * params.get("size", 1)}
"""
_LIMITED = """\
version: "1.0.0"
tool_type: bash
executor_id: rye/core/runtimes/bash/bash
category: mine
description: ends after two seconds
config: {command: "sleep 600", timeout: 2}
"""
_DIRECTIVE = """\
# greet

```xml
<directive name="greet" version="1.0.0">
<metadata>
<description>Greets</description>
<category>mine</category>
<author>ann</author>
</metadata>
<inputs><input name="who" type="string" required="true">whom</input></inputs>
</directive>
```

Say hello to {input:who}.
"""
_KNOWLEDGE = """\
```yaml
name: fact
title: A fact
entry_type: reference
category: mine
version: "1.0.0"
```

Water is wet.
"""


def with_items(machine: Machine) -> Machine:
    """The machine, whose user has a key, and whose project has signed items."""
    ai = machine.project / ".ai"
    texts = {
        "tools/mine/noisy.py": _FUNCTION + _NOISY,
        "tools/mine/media.py": _FUNCTION + _MEDIA,
        "tools/mine/odd.py": _FUNCTION + _ODD,
        "tools/mine/limited.yaml": _LIMITED,
        "directives/mine/greet.md": _DIRECTIVE,
        "knowledge/mine/fact.md": _KNOWLEDGE,
    }
    for name, text in texts.items():
        path = ai / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    machine.ask("keys", "generate", "-q")
    machine.ask("sign", "-q", *map(str, (ai / name for name in texts)))
    return machine


def server(
    machine: Machine,
    *arguments: str,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> McpClient:
    """The server of the machine, started now in its project."""
    return McpClient(
        [*machine.rye, "mcp", *arguments],
        env=machine.environ() if env is None else env,
        cwd=cwd or machine.project,
        stderr=machine.temporary / "stderr",
    )


def children(pid: int) -> list[int]:
    """The processes that a process has started, zombies left out."""
    argv = ["ps", "-A", "-o", "pid=,ppid=,stat="]
    output = subprocess.run(argv, capture_output=True, check=True, encoding="ascii").stdout
    rows = [line.split() for line in output.splitlines()]
    return [int(row[0]) for row in rows if int(row[1]) == pid and not row[2].startswith("Z")]


class Family:
    """A shell script that ignores TERM and has a child, and a pipe that tells when both are gone.

    ``script`` holds the pipe open, as does what it starts.
    """

    def __init__(self, path: Path) -> None:
        os.mkfifo(path)
        self._reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        os.set_blocking(self._reader, True)
        self.script = (
            f"trap '' TERM; exec 9>'{path}'; echo r >&9; sleep 600 & while :; do wait; done"
        )

    def await_running(self, count: int = 1) -> None:
        """Return when so many scripts run."""
        import select

        for _ in range(count):
            select.select([self._reader], [], [])
            assert os.read(self._reader, 2) == b"r\n"

    def await_end(self) -> None:
        """Return when the last process that holds it is gone."""
        assert os.read(self._reader, 1) == b""

    def close(self) -> None:
        """Give up the reading end."""
        os.close(self._reader)
