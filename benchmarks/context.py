"""Cost for a model: bytes and tokens of ten tasks, against those of a flat FastMCP server.

A client shows its model the text of a result or its structure, and the list of tools once. Of each
answer the longer of the two is counted. Tokens are those of o200k, by a library from npm.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.timing import Figure
from tests.support.mcp_client import McpClient

ROOT = Path(__file__).resolve().parents[1]
TOKENIZER = "gpt-tokenizer@4.0.0"
SIZES = (10, 100, 1000)
_COUNT = """
const { encode } = require("gpt-tokenizer/encoding/o200k_base");
const texts = JSON.parse(require("fs").readFileSync(0, "utf8"));
console.log(JSON.stringify(texts.map((text) => encode(text).length)));
"""
_POLICY = 'version: "1.0.0"\ncategory: agents\nsign: allow\n'
_ADD = """\
version: "1.0.0"
tool_type: bash
executor_id: rye/core/runtimes/bash/bash
category: shop
description: Adds up the prices of an order
config_schema:
  type: object
  required: [prices]
  properties: {prices: {type: array, items: {type: number}, description: What each costs}}
config: {script: "echo 42"}
"""
_GRAPH = """\
version: "1.0.0"
tool_type: graph
executor_id: rye/core/runtimes/state-graph/runtime
category: shop
description: Adds up, then says so
permissions: [rye.execute.tool.shop.add]
config:
  start: add
  nodes:
    add:
      action: {item_id: "tool:shop/add", params: {prices: [1, 2]}}
      assign: {sum: "${result.result}"}
      next: done
    done: {type: return, output: {sum: "${state.sum}"}}
"""
_PAGE = """\
```yaml
name: returns
title: Returns
entry_type: reference
category: shop
version: "1.0.0"
description: When goods may be sent back, and who pays for it
```

Goods come back within thirty days. The shop pays for what was broken, the customer for the rest.
"""
_PEER = """
import sys
from pathlib import Path
try:
    from mcp.server.mcpserver import MCPServer as Server
except ImportError:
    from mcp.server.fastmcp import FastMCP as Server
import subprocess
server = Server("flat")

@server.tool()
def add(prices: list[float]) -> int:
    "Adds up the prices of an order"
    return 42

@server.tool()
def bash(command: str, cwd: str = ".", timeout: float = 60) -> dict[str, str | int]:
    "Run a shell command in the project folder and give back what it printed"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr)
    return {"stdout": done.stdout, "stderr": done.stderr, "exit": done.returncode}

@server.tool()
def read(path: str, offset: int = 1, limit: int = 2000) -> str:
    "Read a text file of the project"
    return Path(path).read_text("utf-8")

@server.tool()
def edit(path: str, old_text: str, new_text: str) -> str:
    "Replace text in a file of the project"
    text = Path(path).read_text("utf-8")
    Path(path).write_text(text.replace(old_text, new_text), "utf-8")
    return "changed"

@server.tool()
def page(title: str) -> str:
    "Read a page of the knowledge base"
    return Path("page.md").read_text("utf-8")

@server.tool()
def order() -> dict[str, int]:
    "Adds up, then says so"
    return {"sum": 42}

def filler(number: int):
    def tool(text: str, count: int = 1, flag: bool = False) -> str:
        return text
    tool.__name__ = f"tool_{number}"
    tool.__doc__ = f"Does the work of department {number} with a text, so many times if asked to"
    return tool

for number in range(int(sys.argv[1]) - 6):
    server.tool()(filler(number))
server.run()
"""

Call = tuple[str, Mapping[str, Any]]


def _run(item: str, **parameters: object) -> Call:
    return "execute", {"item_id": item, "parameters": parameters}


_FILES = "rye/file-system"
TASKS: Mapping[str, Sequence[Call]] = {
    "find and run a tool": (("search", {"query": "prices"}), _run("shop/add", prices=[1, 2])),
    "a two-byte answer": (_run("shop/add", prices=[1, 2]),),
    "author a tool": (
        ("help", {"topic": "template:yaml"}),
        (
            "sign",
            {"item_id": "tool:shop/more", "content": _ADD, "try_parameters": {"prices": [1]}},
        ),
    ),
    "edit a file": (
        _run(f"{_FILES}/read", path="notes.txt", ids=False),
        _run(
            f"{_FILES}/edit_lines",
            path="notes.txt",
            edits=[{"old_text": "line 5", "new_text": "line five"}],
        ),
    ),
    "run a graph": (_run("shop/order"),),
    "read a page": (("load", {"item_id": "knowledge:shop/returns"}),),
    "a shell command": (_run("rye/bash/bash", command="echo hi"),),
    "a failed command": (_run("rye/bash/bash", command="echo no >&2; exit 3"),),
    "a search of ten": (("search", {"query": "file", "limit": 10}),),
    "a background run": (
        ("execute", {**_run("rye/bash/bash", command="echo hi")[1], "async": True}),
        _run("rye/core/processes/status", thread_id="bash-", wait_s=30),
    ),
}
_FLAT: Mapping[str, Sequence[Call]] = {
    "find and run a tool": (("add", {"prices": [1, 2]}),),
    "a two-byte answer": (("add", {"prices": [1, 2]}),),
    "author a tool": (("bash", {"command": "cat notes.txt >> made.py"}),),
    "edit a file": (
        ("read", {"path": "notes.txt"}),
        ("edit", {"path": "notes.txt", "old_text": "line 5\n", "new_text": "line five\n"}),
    ),
    "run a graph": (("order", {}),),
    "read a page": (("page", {"title": "returns"}),),
    "a shell command": (("bash", {"command": "echo hi"}),),
    "a failed command": (("bash", {"command": "echo no >&2; exit 3"}),),
    "a search of ten": (),
    "a background run": (("bash", {"command": "echo hi"}),),
}


def figures(pyz: Path, scratch: Path) -> Iterator[Figure]:
    """Rows in bytes, and in tokens where there is npm: the list of tools, and each task."""
    count, unit = _counter(scratch)
    project = _project(pyz, scratch / "context")
    env = {"HOME": str(project.parent), "PATH": os.environ["PATH"]}
    ours = [sys.executable, str(pyz), "mcp", "--project", str(project)]
    listed, tasks = _measured(ours, env, project, TASKS)
    flat = {}
    for size in SIZES:
        words = [sys.executable, "-c", _PEER, str(size)]
        flat[size] = _measured(words, env, project, _FLAT if size == SIZES[0] else {})
    for size in SIZES:
        floor = count([flat[size][0]])
        name, wanted = f"context, tools/list, {size} tools", "at most 1250 tokens"
        yield Figure(name, count([listed]), f"FastMCP with {size}", floor, wanted, unit)
    for name, answers in tasks.items():
        wanted = {"a two-byte answer": "at most 40", "a search of ten": "at most 450"}.get(name, "")
        peer = count(flat[SIZES[0]][1][name]) or 1
        yield Figure(f"context, {name}", count(answers), "FastMCP", peer, wanted, unit)
    whole = count([listed, *(text for texts in tasks.values() for text in texts)])
    for size in SIZES:
        texts = [text for texts in flat[SIZES[0]][1].values() for text in texts]
        floor = count([flat[size][0], *texts])
        yield Figure("context, all ten", whole, f"FastMCP with {size}", floor, "", unit)


def _measured(
    words: Sequence[str], env: Mapping[str, str], project: Path, tasks: Mapping[str, Sequence[Call]]
) -> tuple[str, dict[str, list[str]]]:
    """The list of tools, and the answers of each task."""
    stderr = project.parent / "stderr"
    with McpClient(words, env=env, cwd=project, stderr=stderr) as client:
        client.initialize()
        tools = client.result(client.send("tools/list"))["tools"]
        answers = {
            name: [_read(client.call(tool, **arguments)) for tool, arguments in calls]
            for name, calls in tasks.items()
        }
    return _compact(tools), answers


def _read(result: Mapping[str, Any]) -> str:
    """The part of a result that a model reads: the longer of its text and its structure."""
    text = "\n".join(block.get("text", "") for block in result["content"])
    structure = result.get("structuredContent")
    return max(text, _compact(structure) if structure else "", key=len)


def _compact(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _project(pyz: Path, home: Path) -> Path:
    """A project with a signed tool, a graph, a page and a file."""
    project = home / "project"
    items = {
        "tools/shop/add.yaml": _ADD,
        "tools/shop/order.yaml": _GRAPH,
        "knowledge/shop/returns.md": _PAGE,
    }
    for name, text in items.items():
        path = project / ".ai" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    (project / "notes.txt").write_text("".join(f"line {n}\n" for n in range(40)), "utf-8")
    (project / "page.md").write_text(_PAGE, "utf-8")
    policy = home / ".ai/config/agents/policy.yaml"
    policy.parent.mkdir(parents=True)
    policy.write_text(_POLICY, "utf-8")
    env = {"HOME": str(home), "PATH": os.environ["PATH"]}
    for arguments in (["keys", "generate"], ["sign", "tool:shop/**", "knowledge:shop/returns"]):
        words = [sys.executable, str(pyz), *arguments]
        subprocess.run(words, cwd=project, env=env, check=True, capture_output=True)
    return project


def _counter(scratch: Path) -> tuple[Callable[[Sequence[str]], int], str]:
    """A counter of tokens, or of bytes without npm; and the unit that it counts."""
    npm, node = shutil.which("npm"), shutil.which("node")
    if not npm or not node:
        return lambda texts: sum(len(text.encode()) for text in texts), "bytes"
    folder = scratch / "tokenizer"
    folder.mkdir()
    install = [npm, "install", "--silent", "--no-audit", "--no-fund", "--ignore-scripts", TOKENIZER]
    subprocess.run(install, cwd=folder, check=True, capture_output=True)

    def count(texts: Sequence[str]) -> int:
        done = subprocess.run(
            [node, "-e", _COUNT], cwd=folder, input=json.dumps(texts), text=True, check=True,
            capture_output=True, encoding="utf-8",
        )  # fmt: skip
        return sum(json.loads(done.stdout))

    return count, "tokens"
