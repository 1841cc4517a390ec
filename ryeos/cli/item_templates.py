"""The texts that ``rye new`` writes. Data: what is to be filled in stands as ``@NAME@``.

Names have no character that would need quoting (`ryeos.cli.new` refuses others), so that filling
in is all there is to it.
"""

from collections.abc import Mapping

from lillux.values import dataclass
from ryeos.items import Kind

_PYTHON_RUNTIME = "rye/core/runtimes/python/script"
_BASH_RUNTIME = "rye/core/runtimes/bash/bash"
_NODE_RUNTIME = "rye/core/runtimes/node/node"


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
"""Greets somebody."""

import argparse
import json
import sys

__version__ = "1.0.0"
__tool_type__ = "python"
__executor_id__ = "@EXECUTOR@"
__category__ = "@CATEGORY@"
__tool_description__ = "Greets somebody"

CONFIG_SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "default": "world", "description": "Who is greeted"},
    },
    "additionalProperties": False,
}


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

# $1 is the parameters as one JSON object, $2 the project folder.
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
description: Greets somebody

config_schema:
  type: object
  properties:
    name: {type: string, default: world, description: Who is greeted}
  additionalProperties: false

config:
  # A parameter becomes one word here, whatever is in it: do not put quotes around it.
  script: echo hello {name}
"""

_JAVASCRIPT = """\
const __version__ = "1.0.0";
const __tool_type__ = "javascript";
const __executor_id__ = "@EXECUTOR@";
const __category__ = "@CATEGORY@";
const __tool_description__ = "Greets somebody";

const CONFIG_SCHEMA = {
  type: "object",
  properties: {
    name: { type: "string", default: "world", description: "Who is greeted" },
  },
  additionalProperties: false,
};

let text = "";
process.stdin.setEncoding("utf8");
process.stdin.on("data", (chunk) => { text += chunk; });
process.stdin.on("end", () => {
  const params = JSON.parse(text || "{}");
  console.log(JSON.stringify({ greeting: `hello ${params.name}`, from: "@NAME@" }));
});
"""

_DIRECTIVE = """\
# @NAME@

```xml
<directive name="@NAME@" version="1.0.0">
  <metadata>
    <description>Greet somebody</description>
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
    (Kind.DIRECTIVE, ""): Template(
        suffix=".md", text=_DIRECTIVE, try_it="rye run directive:{id} name=Ada"
    ),
    (Kind.KNOWLEDGE, ""): Template(suffix=".md", text=_KNOWLEDGE, try_it="rye run knowledge:{id}"),
    (Kind.CONFIG, ""): Template(suffix=".yaml", text=_CONFIG),
}
"""(kind, language) -> template; the language is empty for what is written in one way only."""
