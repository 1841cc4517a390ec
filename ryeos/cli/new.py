"""``rye new``: a template that is valid, runs as it is, and only waits to be signed."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from lillux.files import create_file, make_directory
from lillux.values import dataclass
from ryeos.app.output import one_line
from ryeos.cli.arguments import Arguments
from ryeos.cli.session import CommandSpec, Session
from ryeos.items.errors import InvalidRefError, TargetExistsError, UsageError
from ryeos.items.refs import PROJECT, USER, ItemRef, Kind, Reference, Space, parse_reference
from ryeos.trust.keys import require_user_space
from ryeos.trust.resolver import candidates

# --- item templates -------------------------------------------------------------------------------
# The texts that ``rye new`` writes. Data: what is to be filled in stands as ``@NAME@``.
#
# Names have no character that would need quoting (`ryeos.cli.new` refuses others), so that filling
# in is all there is to it.

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

# What it may do; what is left out is not given. To see what it needs: rye sandbox suggest
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

# The sandbox is what it may do; what is left out is not given. To see what it needs:
# rye sandbox suggest.

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

# What it may do; what is left out is not given. To see what it needs: rye sandbox suggest
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
const __tool_description__ = "Greets somebody";

const CONFIG_SCHEMA = {
  type: "object",
  properties: {
    name: { type: "string", default: "world", description: "Who is greeted" },
  },
  additionalProperties: false,
};

// What it may do; what is left out is not given. To see what it needs: rye sandbox suggest
const SANDBOX = { read: ["{project}"] };

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


# --- new ------------------------------------------------------------------------------------------

DEFAULT_LANGUAGE = "python"
_LANGUAGES = tuple(language for kind, language in TEMPLATES if kind is Kind.TOOL)
# What needs no quoting in any of the languages, and does not hide the file.
_PLAIN_SEGMENT = re.compile(r"[^\W_][\w.-]*")
_SNAKE_CASE = re.compile(r"[a-z][a-z0-9_]*")


def _configure(parser: Arguments) -> None:
    add = parser.add_argument
    add("kind", metavar="KIND", choices=[kind.value for kind in Kind], help=", ".join(Kind))
    add("id", metavar="ID", help="folders and a name, like mine/hello")
    add("--space", choices=(PROJECT, USER), default=PROJECT, help="default: project")
    add("--language", choices=_LANGUAGES, help=f"of a tool; default: {DEFAULT_LANGUAGE}")


def _run(session: Session) -> int:
    arguments = session.arguments
    reference = parse_reference(arguments.id, arguments.kind)
    ref = ItemRef(Kind(arguments.kind), reference.id)
    _check_name(ref)
    template = _template(ref, arguments.language)
    space = _space(session)
    _check_free(ref, space)
    path = Path(f"{space.directory(ref.kind) / ref.id}{template.suffix}")
    text = template.fill(name=ref.name, category=ref.category, author=_author(session))
    make_directory(path.parent)
    try:
        create_file(path, text.encode())
    except FileExistsError:
        raise _taken(path) from None
    _show(session, ref, path, template)
    return 0


def _check_name(ref: ItemRef) -> None:
    for segment in ref.id.split("/"):
        if not _PLAIN_SEGMENT.fullmatch(segment):
            problem = f"expected letters, digits, '-', '_' and '.' in {segment[:60]!r}"
            raise InvalidRefError(str(ref), f"{problem}, a letter or digit first")
    if ref.kind is Kind.DIRECTIVE and not _SNAKE_CASE.fullmatch(ref.name):
        better = re.sub(r"\W+", "_", ref.name.lower()).lstrip("0123456789_")
        hint = f"rye new directive {'/'.join(filter(None, (ref.category, better)))}"
        raise UsageError(f"{ref}: expected a name in snake_case, found {ref.name!r}", hint=hint)


def _template(ref: ItemRef, language: str | None) -> Template:
    if ref.kind is Kind.TOOL:
        return TEMPLATES[ref.kind, language or DEFAULT_LANGUAGE]
    if language:
        raise UsageError(f"--language {language}: expected with a tool, found a {ref.kind.value}")
    return TEMPLATES[ref.kind, ""]


def _space(session: Session) -> Space:
    if session.arguments.space == USER:
        return require_user_space(session.context)
    return session.rye.space(PROJECT)


def _check_free(ref: ItemRef, space: Space) -> None:
    """One id, one file: the same name with another suffix would hide one of the two."""
    for path in candidates(space, ref):
        if path.exists():
            raise _taken(path)


def _taken(path: Path) -> TargetExistsError:
    return TargetExistsError(
        str(path), "an item of this id", "choose another id, or edit that file"
    )


def _author(session: Session) -> str:
    """The user's name, as far as it can stand in any header."""
    named = session.environ.get("USER") or session.environ.get("USERNAME") or ""
    return re.sub(r"[^\w.-]", "", named) or "unknown"


def _show(session: Session, ref: ItemRef, path: Path, template: Template) -> None:
    for note in _notes(session, ref):
        session.output.warn(note)
    place = f" --space {USER}" if session.arguments.space == USER else ""
    sign = f"rye sign {ref}{place}"
    following = [sign, template.try_it.format(id=ref.id)] if template.try_it else [sign]
    envelope = {
        "status": "success",
        "ref": str(ref),
        "path": str(path),
        "space": session.arguments.space,
        "next": following,
    }
    session.output.answer(envelope, str(path))
    for command in following:
        session.output.note(f"next: {command}")


def _notes(session: Session, ref: ItemRef) -> Iterator[str]:
    resolver = session.rye.resolver
    reference = Reference(ref.kind, ref.id)
    hidden = resolver.resolve(reference).shadowed if ref.kind is not Kind.CONFIG else ()
    for location in hidden:
        yield f"{ref} hides {one_line(str(location.path))} ({location.space.label})"


COMMANDS = {
    "new": CommandSpec(
        _configure,
        _run,
        [
            "rye new tool mine/hello",
            "rye new tool mine/count --language bash",
            "rye new directive mine/review",
            "rye new knowledge mine/style --space user",
        ],
    ),
}
