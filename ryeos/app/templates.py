"""Templates of items: texts that sign and run as they are, for ``rye new`` and ``help template:``.

What is to be filled in stands as ``@NAME@``. Names have no character that would need quoting, as
`ryeos.cli.new` refuses others, so that filling in is all there is to it.
"""

from collections.abc import Mapping

from lillux.values import dataclass
from ryeos.items.refs import Kind

_PYTHON_RUNTIME = "rye/core/runtimes/python/script"
_BASH_RUNTIME = "rye/core/runtimes/bash/bash"
_NODE_RUNTIME = "rye/core/runtimes/node/node"
_HTTP_PRIMITIVE = "rye/core/primitives/http_client"
_MCP_RUNTIME = "rye/core/runtimes/mcp/stdio"
_GRAPH_RUNTIME = "rye/core/runtimes/state-graph/runtime"


@dataclass(frozen=True, slots=True, kw_only=True)
class Template:
    """A text, the suffix of its file, what executes it, and a command to try it with."""

    suffix: str
    text: str
    executor: str = ""
    try_it: str = ""

    def fill(self, *, name: str, category: str, author: str) -> str:
        """The text for one item."""
        values = {"@NAME@": name, "@CATEGORY@": category, "@AUTHOR@": author}
        values["@EXECUTOR@"] = self.executor
        filled = self.text
        for mark, value in values.items():
            filled = filled.replace(mark, value)
        return filled


_PYTHON = '''\
"""Greets a person."""

import argparse
import json
import sys

__version__ = "1.0.0"
__tool_type__ = "python"
__executor_id__ = "@EXECUTOR@"
__category__ = "@CATEGORY@"
__tool_description__ = "Greets a person"

CONFIG_SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "default": "world", "description": "Who is greeted"},
    },
    "additionalProperties": False,
}

# What it may do; what is left out is not given.
SANDBOX = {"read": ["{project}"]}


def execute(params: dict, project_path: str) -> dict:
    """The work: parameters in, a result out that JSON can hold."""
    return {"greeting": f"hello {params['name']}", "from": "@NAME@"}


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--project-path", default=".")
    arguments = parser.parse_args()
    params = json.load(sys.stdin)
    print(json.dumps(execute(params, arguments.project_path)))
'''

_BASH = """\
#!/usr/bin/env bash
# version: 1.0.0
# tool_type: bash
# executor_id: @EXECUTOR@
# category: @CATEGORY@
# description: Says what it was given
# sandbox: {"read": ["{project}"], "programs": "any"}
# config_schema: {"type": "object", "additionalProperties": false, "properties":
#   {"name": {"type": "string", "default": "world", "description": "Who is greeted"}}}

# The sandbox is what it may do; what is left out is not given.

# $1 is the parameters as one JSON object, $2 the project folder, which is the current one too.
# Where jq is installed, it takes them apart: name=$(jq -r .name <<< "$params")
set -euo pipefail
params=$1

# Print one JSON document, and it becomes the result; any other text is handed on as it is.
printf '{"from": "@NAME@", "params": %s}\\n' "$params"
"""

_YAML = """\
version: "1.0.0"
tool_type: bash
executor_id: @EXECUTOR@
category: "@CATEGORY@"
description: Greets a person

config_schema:
  type: object
  properties:
    name: {type: string, default: world, description: Who is greeted}
  additionalProperties: false

# What it may do; what is left out is not given.
sandbox:
  read: ["{project}"]
  programs: any

config:
  # A parameter becomes one word here, whatever is in it: do not put quotes around it.
  script: echo hello {name}
"""

_JAVASCRIPT = """\
const __version__ = "1.0.0";
const __tool_type__ = "javascript";
const __executor_id__ = "@EXECUTOR@";
const __category__ = "@CATEGORY@";
const __tool_description__ = "Greets a person";

const CONFIG_SCHEMA = {
  type: "object",
  properties: {
    name: { type: "string", default: "world", description: "Who is greeted" },
  },
  additionalProperties: false,
};

// What it may do; what is left out is not given.
const SANDBOX = { read: ["{project}"] };

let text = "";
process.stdin.setEncoding("utf8");
process.stdin.on("data", (chunk) => { text += chunk; });
process.stdin.on("end", () => {
  const params = JSON.parse(text || "{}");
  console.log(JSON.stringify({ greeting: `hello ${params.name}`, from: "@NAME@" }));
});
"""

_HTTP = """\
version: "1.0.0"
tool_type: http
executor_id: @EXECUTOR@
category: "@CATEGORY@"
description: Looks up a word

config_schema:
  type: object
  required: [name]
  properties:
    name: {type: string, minLength: 1, description: The word}
  additionalProperties: false

# Only these hosts are reached, also after redirects.
sandbox:
  network: ["api.example.com:443"]

config:
  method: GET
  # A parameter is percent-encoded here. Others of its kind: body, headers, query in the address.
  url: https://api.example.com/words/{name}
  # A variable of the environment or of .env, on a node a secret. Never write a token here.
  # auth: {type: bearer, token: "${EXAMPLE_TOKEN}"}
  timeout: 10
"""

_MCP = """\
version: "1.0.0"
tool_type: mcp
executor_id: @EXECUTOR@
category: "@CATEGORY@"
description: One tool of an MCP server

# The server is an item that your user adds: rye mcp add SERVER -- PROGRAM, and for all its tools:
# rye mcp discover SERVER
config:
  server: mcp/servers/example
  tool_name: @NAME@

input_schema:
  type: object
  properties:
    name: {type: string, description: As the server says}
"""

_GRAPH = """\
version: "1.0.0"
tool_type: graph
executor_id: @EXECUTOR@
category: "@CATEGORY@"
description: Lists each folder, then says how many there were

# Only these items are called, by any caller of the graph.
permissions: [rye.execute.tool.rye.bash.bash]

config_schema:
  type: object
  properties:
    folders: {type: array, items: {type: string}, default: ["."], description: Folders}
  additionalProperties: false

config:
  start: enough
  nodes:
    # A gate goes one way or another. Others: {any: [...]}, {all: [...]}, {not: {...}}.
    enough:
      type: gate
      next:
        - when: {path: inputs.folders, op: empty}
          to: none
        - to: each

    each:
      type: foreach
      over: "${inputs.folders}"
      as: folder
      parallel: true
      collect: listed
      # In a command every value ends in `| sh`, which quotes it.
      action: {item_id: "tool:rye/bash/bash", params: {command: "ls -a -- ${folder | sh}"}}
      next: done

    # A node without a type is one call:
    #   node: {action: {item_id: ..., params: {...}}, assign: {name: "${result}"}, next: done}
    none:
      type: return
      output: {count: 0}

    done:
      type: return
      output: {count: "${state.listed | length}", first: "${state.listed.0.stdout}"}
"""

_DIRECTIVE = """\
# @NAME@

```xml
<directive name="@NAME@" version="1.0.0">
  <metadata>
    <description>Greet a person</description>
    <category>@CATEGORY@</category>
    <author>@AUTHOR@</author>
  </metadata>
  <inputs>
    <input name="name" type="string" required="false" default="world">Who is greeted</input>
  </inputs>
  <outputs>
    <output name="greeting" type="string">What was said</output>
  </outputs>
</directive>
```

Greet {input:name} in one friendly sentence.
"""

_KNOWLEDGE = """\
```yaml
name: "@NAME@"
title: "@NAME@"
entry_type: reference
category: "@CATEGORY@"
version: "1.0.0"
tags: []
```

What is worth knowing goes here.
"""

_CONFIG = """\
version: "1.0.0"
category: "@CATEGORY@"

# Items ask for this file with config_resolve; the project's copy is laid over the user's.
example: true
"""

_GREET = "rye run {id} name=Ada"

TEMPLATES: Mapping[tuple[Kind, str], Template] = {
    (Kind.TOOL, "python"): Template(
        suffix=".py", text=_PYTHON, executor=_PYTHON_RUNTIME, try_it=_GREET
    ),
    (Kind.TOOL, "bash"): Template(suffix=".sh", text=_BASH, executor=_BASH_RUNTIME, try_it=_GREET),
    (Kind.TOOL, "yaml"): Template(
        suffix=".yaml", text=_YAML, executor=_BASH_RUNTIME, try_it=_GREET
    ),
    (Kind.TOOL, "javascript"): Template(
        suffix=".js", text=_JAVASCRIPT, executor=_NODE_RUNTIME, try_it=_GREET
    ),
    (Kind.TOOL, "http"): Template(
        suffix=".yaml", text=_HTTP, executor=_HTTP_PRIMITIVE, try_it=f"{_GREET} --dry-run"
    ),
    (Kind.TOOL, "mcp"): Template(suffix=".yaml", text=_MCP, executor=_MCP_RUNTIME),
    (Kind.TOOL, "graph"): Template(
        suffix=".yaml", text=_GRAPH, executor=_GRAPH_RUNTIME, try_it="rye run {id}"
    ),
    (Kind.DIRECTIVE, ""): Template(
        suffix=".md", text=_DIRECTIVE, try_it="rye run directive:{id} name=Ada"
    ),
    (Kind.KNOWLEDGE, ""): Template(suffix=".md", text=_KNOWLEDGE, try_it="rye run knowledge:{id}"),
    (Kind.CONFIG, ""): Template(suffix=".yaml", text=_CONFIG),
}
"""(kind, language) -> template; the language is empty for what is written in one way only."""
