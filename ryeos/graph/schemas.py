"""JSON Schemas of graph, runtime, tool and test files, for editors.

Draft 07: what the YAML and JSON plugins of editors and our own validator understand alike. A
schema knows the structure; what needs the whole file (targets of edges, expressions, references)
or the machine is reported by ``rye graph validate`` and by the run.
"""

from collections.abc import Mapping
from typing import Any

from ryeos.graph.case_schema import TEST_SCHEMA
from ryeos.graph.graph_schema import GRAPH_SCHEMA
from ryeos.graph.schema_parts import DRAFT, SANDBOX, Schema, anything, mapping, prose, truth, word
from ryeos.items.specs import RUNTIME_TYPE, ParamsMode
from ryeos.items.unknown_keys import BLOCKS, FOREIGN

# The keys that every tool's header may have, a runtime's among them: `ryeos.items.specs` reads
# them.

_INTERPRETERS = (
    *("local_binary", "system_binary", "venv_python", "venv", "node_modules", "venv_node"),
    *("binary", "version_manager", "command"),
)
_ENV = mapping(
    "Variables, in order; later ones see earlier ones as ${NAME}.",
    additionalProperties={"type": ["string", "number", "boolean", "null"]},
)
_PROGRAM: Schema = {
    "type": ["object", "null"],
    "description": "A program to find; its path goes into the variable var.",
    "properties": {
        "type": {
            "type": "string",
            "examples": list(_INTERPRETERS),
            "description": f"How it is found: {', '.join(_INTERPRETERS)}.",
        },
        "binary": anything("The name of the program."),
        "candidates": anything("Further names."),
        "search_paths": anything("Folders, looked at below each root: .venv/bin."),
        "search_roots": anything("Roots before the project: {anchor_path}."),
        "search": anything("Spaces to look in: project, user, system."),
        "venv_path": anything("The folder of the virtual environment."),
        "manager": anything("pyenv, nvm, rbenv, asdf, mise or fnm."),
        "version": anything("A version of the manager, as text."),
        "plugin": anything("The plugin of asdf or mise."),
        "resolve_cmd": anything("A command whose first line is the path."),
        "var": anything("The variable that gets the path, like RYE_PYTHON."),
        "fallback": anything("What is taken where nothing is found."),
    },
}
ENV_CONFIG = mapping(
    "Programs to find, and the environment of the process.",
    properties={
        "interpreter": _PROGRAM,
        "env": _ENV,
        "unset": {
            "type": ["array", "null"],
            "items": {"type": "string"},
            "description": "Variables that the process does not get.",
        },
        "env_policy": word("What the process gets of the caller's.", ("inherit", "minimal")),
    },
)
_LIST: Schema = {"type": ["array", "null"]}
ANCHOR = mapping(
    "Where a tool's own modules are.",
    properties={
        "enabled": anything("Only true switches it on."),
        "mode": word("When it applies.", ("auto", "always", "never"), "auto", optional=False),
        "markers_any": {**_LIST, "description": "File names, one of which marks the folder."},
        "siblings": {"type": "boolean", "description": "Also where a Python tool imports one."},
        "root": prose("The folder: tool_dir, tool_parent or project_path."),
        "lib": prose("A folder beside the runtime's file: {runtime_lib}."),
        "cwd": prose("The working directory, a template."),
        "env_paths": mapping("{VARIABLE: {prepend: [...], append: [...]}}, templates of folders."),
        "env": mapping("{NAME: template}, set while the anchor is active."),
    },
)
VERIFY_DEPS = mapping(
    "Which files beside a tool must be signed.",
    properties={
        "enabled": anything("Only true switches it on."),
        "scope": word(
            "Which folder.",
            ("anchor", "tool_dir", "tool_siblings", "tool_file"),
            "anchor",
            optional=False,
        ),
        "recursive": anything("Folders below too."),
        "extensions": anything("Suffixes to verify, .py; none means nothing is verified."),
        "exclude_dirs": anything("Names of folders that are passed over."),
        "unverified": {
            "enum": ["refused", "left_out"],
            "description": "Whether a file that is not verified refuses the run.",
        },
    },
)
CONFIG = mapping(
    "How the primitive runs it: a chain's configs are merged, the tool's on top.",
    properties={
        "command": anything("The program, or a command line; ${RYE_PYTHON}, {tool_path}."),
        "args": anything("Its arguments, templates: {tool_path}, {params_json}."),
        "input_data": anything("What it gets on standard input: {params_json}."),
        "cwd": anything("The working directory."),
        "env": anything("Further variables."),
        "timeout": anything("Seconds."),
        "flags": anything("Parameter to option: {db_path: --db}."),
        "script_from": anything("Where a shell runtime looks for the script, in order."),
        "protocol": anything("function or mcp: how the program is talked to."),
        "launchers": anything("Suffix to command line of an MCP server."),
        "verify_files": anything("Which files of an MCP server must be signed."),
        "url": anything("The address, of the HTTP primitive."),
        "method": anything("GET, POST ..., of the HTTP primitive."),
        "headers": anything("Of the HTTP primitive."),
        "body": anything("Of the HTTP primitive."),
        "retry": anything("Of the HTTP primitive."),
        "max_output_bytes": anything("The most output that is kept."),
    },
)
_NAMES: Schema = {
    "anyOf": [
        {"type": "array", "items": {"type": ["string", "object"]}},
        {"type": ["object", "null"]},
    ]
}
_INPUT_SCHEMA = mapping("The JSON Schema of the parameters.")

FIELDS: dict[str, Schema] = {
    "version": prose("X.Y.Z, in quotes."),
    "tool_type": prose("python, bash, javascript, http, graph, runtime ..."),
    "executor_id": {
        "type": ["string", "null"],
        "minLength": 1,
        "description": "What runs it, like rye/core/runtimes/bash/bash; null ends the chain.",
    },
    "category": prose("The folder below tools."),
    "description": prose("What it does, for people, for agents and for search."),
    "name": anything("Its name; the file's place decides."),
    "env_config": ENV_CONFIG,
    "config_schema": _INPUT_SCHEMA,
    "input_schema": _INPUT_SCHEMA,
    "parameters": {"type": ["array", "null"], "description": "The parameters as a list."},
    "config": CONFIG,
    "anchor": ANCHOR,
    "verify_deps": VERIFY_DEPS,
    "config_resolve": anything(
        "A file of config items: {path, mode: deep_merge|first_match, spaces: [user, system]}."
    ),
    "execution_params": {**_NAMES, "description": "Parameters that go into the config."},
    "inputs": {**_NAMES, "description": "Names of what it takes."},
    "outputs": {**_NAMES, "description": "Names of what it gives."},
    "child_constraints": mapping("What the tools that run on it must meet."),
    "params_mode": word(
        "How parameters reach the program.", ("", *(mode.value for mode in ParamsMode)), "auto"
    ),
    "variants": {
        "type": ["array", "null"],
        "description": "Other configs, by the suffix of the tool and by what its config says.",
        "items": {
            "type": "object",
            "properties": {
                "suffixes": anything("Suffixes of tools: .yaml."),
                "when": mapping("What the config must say."),
                "config": {**CONFIG, "type": "object"},
            },
            "required": ["config"],
        },
    },
    "sandbox": SANDBOX,
    "execution_owner": prose("Who sees to background runs."),
    "native_async": truth("Whether the tool itself can run in the background."),
}


def _without_unknown_keys() -> dict[str, Schema]:
    """`FIELDS` where an unread key is a slip: in the blocks of a runtime."""
    closed = dict(FIELDS)
    for name in BLOCKS:
        closed[name] = {**FIELDS[name], "additionalProperties": False}
    variants = FIELDS["variants"]
    closed["variants"] = {**variants, "items": {**variants["items"], "additionalProperties": False}}
    programs = {"type": "object", "required": ["type", "var"], **_PROGRAM}
    closed["env_config"] = {**ENV_CONFIG, "additionalProperties": {**programs, "type": "object"}}
    return closed


# The JSON Schema of a runtime file. Readers: `ryeos.items.specs`, `ryeos.items.unknown_keys`.

RUNTIME_SCHEMA: dict[str, Any] = {
    "$schema": DRAFT,
    "title": "Rye runtime",
    "description": "How tools of one kind are run: which interpreter, with which arguments.",
    "type": "object",
    "properties": {
        **_without_unknown_keys(),
        "tool_type": {"const": RUNTIME_TYPE, "description": "What the file is."},
        **{key: anything("Not read by the engine.") for key in sorted(FOREIGN)},
    },
    "patternProperties": {"^(x-|_)": {}},
    "additionalProperties": False,
    "required": ["tool_type", "executor_id"],
}

# The JSON Schema of a tool's header, where the file is YAML, JSON or TOML.
#
# A tool may have keys of its own, so none is refused. A graph has its own schema.

_BLOCKS = _without_unknown_keys()

TOOL_SCHEMA: dict[str, Any] = {
    "$schema": DRAFT,
    "title": "Rye tool",
    "description": "A tool of Rye whose file is data: what it takes and what runs it.",
    "type": "object",
    "properties": {
        **FIELDS,
        "anchor": _BLOCKS["anchor"],
        "verify_deps": _BLOCKS["verify_deps"],
    },
    "required": ["executor_id"],
}

SCHEMAS: Mapping[str, Schema] = {
    "graph": GRAPH_SCHEMA,
    "runtime": RUNTIME_SCHEMA,
    "test": TEST_SCHEMA,
    "tool": TOOL_SCHEMA,
}
"""Name -> schema."""
