"""A project with one item in each state, and files that no reader takes, for `test_states`."""

from collections.abc import Mapping

_TOOL = """\
version: "1.0.0"
tool_type: bash
executor_id: {executor}
category: mine
description: says a word
{more}
"""
_RUNTIME = "rye/core/runtimes/bash/bash"
_SAYS = """\
config_schema:
  type: object
  required: [name]
  properties:
    name: {type: string, minLength: 2, description: a word}
    count: {type: integer, minimum: 1, maximum: 3, description: how often}
    kind: {type: string, enum: [red, blue], description: which}
    flag: {type: boolean, description: whether}
    list: {type: array, items: {type: string}, maxItems: 2, description: words}
  additionalProperties: false
config: {command: "echo ok"}"""


def tool(more: str = 'config: {command: "echo ok"}', executor: str = _RUNTIME) -> str:
    """The text of a tool."""
    return _TOOL.format(more=more, executor=executor)


def directive(inside: str = "", *, attributes: str = 'name="x" version="1.0.0"') -> str:
    """The text of a directive whose block holds more."""
    return (
        f"# x\n\n```xml\n<directive {attributes}>\n<metadata>\n<description>says</description>\n"
        f"<category>mine</category>\n<author>ada</author>\n</metadata>\n{inside}\n</directive>\n"
        "```\n\nSay {input:name}.\n"
    )


def knowledge(fields: str) -> str:
    """The text of a knowledge item."""
    return f"```yaml\n{fields}\n```\n\nA fact.\n"


SIGNED = {
    "tools/mine/good.yaml": tool(_SAYS),
    "tools/mine/plain.yaml": tool(),
    "tools/mine/fails.yaml": tool('config: {command: "echo no >&2; exit 3"}'),
    "tools/mine/changed.yaml": tool(),
    "tools/mine/cut.yaml": tool(),
    "directives/mine/good.md": directive(
        '<inputs><input name="name" type="string" required="true">a name</input></inputs>'
    ).replace('name="x"', 'name="good"'),
    "directives/mine/changed.md": directive(attributes='name="changed" version="1.0.0"'),
    "knowledge/mine/good.md": knowledge(
        'name: good\ntitle: good\nentry_type: reference\ncategory: mine\nversion: "1.0.0"'
    ),
}
UNSIGNED = {
    "tools/mine/unsigned.yaml": tool(),
    "directives/mine/unsigned.md": directive(),
    "knowledge/mine/unsigned.md": SIGNED["knowledge/mine/good.md"].replace("good", "unsigned"),
}
UNTRUSTED = {"tools/mine/untrusted.yaml": tool()}
# Signed as another program would sign them: nothing was validated.
UNCHECKED = {
    "tools/mine/no_executor.yaml": tool(executor="mine/absent"),
    "tools/mine/cycle.yaml": tool(executor="mine/cycle"),
    "tools/mine/first.yaml": tool(executor="mine/second"),
    "tools/mine/second.yaml": tool(executor="mine/first"),
    "tools/mine/no_type.yaml": tool().replace("tool_type: bash\n", ""),
    "tools/mine/no_config.yaml": tool(""),
    "tools/mine/bad_schema.yaml": tool("config_schema: {type: nothing}\nconfig: {command: x}"),
    "tools/mine/bad_timeout.yaml": tool("config: {command: x, timeout: long}"),
    "tools/mine/bad_rights.yaml": tool("sandbox: {write: 3}\nconfig: {command: x}"),
    "tools/mine/unknown_rights.yaml": tool("sandbox: {wirte: []}\nconfig: {command: x}"),
}
STATES = ("unsigned", "changed", "cut", "untrusted")

_HEADER = "version: '1.0.0'\ntool_type: bash\nexecutor_id: rye/core/runtimes/bash/bash\n"
BAD_ITEMS: Mapping[str, str] = {
    # tools
    "tools/bad/not_yaml.yaml": "a: [b\n",
    "tools/bad/a_list.yaml": "- a\n- b\n",
    "tools/bad/empty.yaml": "",
    "tools/bad/no_version.yaml": tool().replace('version: "1.0.0"\n', ""),
    "tools/bad/number_version.yaml": tool().replace('"1.0.0"', "1.0"),
    "tools/bad/odd_version.yaml": tool().replace("1.0.0", "new"),
    "tools/bad/no_executor.yaml": tool().replace("executor_id: rye/core/runtimes/bash/bash\n", ""),
    "tools/bad/no_type.yaml": tool().replace("tool_type: bash\n", ""),
    "tools/bad/other_category.yaml": tool(),
    "tools/bad/no_description.yaml": tool().replace("description: says a word\n", ""),
    "tools/bad/schema.yaml": tool("config_schema: {type: nothing}").replace("mine", "bad"),
    "tools/bad/schema_list.yaml": tool("config_schema: []").replace("mine", "bad"),
    "tools/bad/rights.yaml": tool("sandbox: {write: 3}").replace("mine", "bad"),
    "tools/bad/twice.yaml": tool("version: '2.0.0'").replace("mine", "bad"),
    "tools/bad/anchors.yaml": tool("config: &a {command: x}\nmore: *a").replace("mine", "bad"),
    "tools/bad/tabs.yaml": "version:\t'1'\n\ta: b\n",
    "tools/bad/no_docstring.py": "print(1)\n",
    "tools/bad/syntax.py": "def (:\n",
    "tools/bad/computed.py": '"""x"""\n__version__ = "1" + ".0.0"\n__tool_type__ = "python"\n',
    "tools/bad/script.sh": "#!/bin/sh\n# rye: version 1\necho 1\n",
    "tools/bad/plain.js": "console.log(1)\n",
    "tools/bad/plain.toml": "a = \n",
    "tools/bad/plain.json": "{",
    # directives
    "directives/bad/no_block.md": "# x\n\nDo it.\n",
    "directives/bad/not_xml.md": "```xml\n<directive name='x'>\n```\n",
    "directives/bad/no_name.md": directive(attributes='version="1.0.0"'),
    "directives/bad/no_version.md": directive(attributes='name="no_version"'),
    "directives/bad/other_name.md": directive(),
    "directives/bad/input.md": directive("<inputs><input type='string'/></inputs>"),
    "directives/bad/input_type.md": directive(
        "<inputs><input name='a' type='thing'/></inputs>", attributes='name="input_type"'
    ),
    "directives/bad/permission.md": directive("<permissions><read/></permissions>"),
    "directives/bad/limits.md": directive('<limits turns="six"/>'),
    "directives/bad/two_blocks.md": directive() + directive(),
    "directives/bad/not_closed.md": "```xml\n<directive name='x' version='1.0.0'></directive>\n",
    "directives/bad/entity.md": directive("<x>&nothing;</x>"),
    "directives/bad/doctype.md": "```xml\n<!DOCTYPE x>\n<directive name='x'/>\n```\n",
    # knowledge
    "knowledge/bad/no_header.md": "# A fact\n",
    "knowledge/bad/not_yaml.md": knowledge("a: [b"),
    "knowledge/bad/no_name.md": knowledge("title: x\nversion: '1.0.0'"),
    "knowledge/bad/tags.md": knowledge(
        "name: tags\ntitle: x\nentry_type: reference\ncategory: bad\nversion: '1.0.0'\ntags: 3"
    ),
    "knowledge/bad/not_closed.md": "```yaml\nname: x\n",
    # configuration
    "config/bad/not_yaml.yaml": "a: [b\n",
    "config/bad/not_toml.toml": "a = \n",
}

_FLOW = """\
version: "1.0.0"
tool_type: graph
executor_id: rye/core/runtimes/state-graph/runtime
category: flows
description: a graph
permissions: [rye.execute.tool.rye.bash.bash]
config:
{config}
"""
_CALL = 'action: {item_id: "tool:rye/bash/bash", params: {command: "true"}}'
BAD_GRAPHS: Mapping[str, str] = {
    "no_config": _FLOW.replace("config:\n{config}\n", ""),
    "not_yaml": "config: [",
    "a_list": "- a\n",
    "no_start": "  nodes: {a: {type: return}}",
    "no_nodes": "  start: a",
    "nodes_a_list": "  start: a\n  nodes: [a]",
    "start_absent": "  start: b\n  nodes: {a: {type: return}}",
    "unknown_key": "  start: a\n  strat: b\n  nodes: {a: {type: return}}",
    "unknown_type": "  start: a\n  nodes: {a: {type: loop}}",
    "node_a_text": "  start: a\n  nodes: {a: done}",
    "next_absent": f"  start: a\n  nodes:\n    a: {{{_CALL}, next: b}}",
    "no_action": "  start: a\n  nodes: {a: {assign: {x: 1}, next: b}, b: {type: return}}",
    "action_a_text": "  start: a\n  nodes: {a: {action: x, next: b}, b: {type: return}}",
    "action_without_item": "  start: a\n  nodes: {a: {action: {params: {}}}}",
    "item_not_permitted": '  start: a\n  nodes: {a: {action: {item_id: "tool:mine/x"}}}',
    "foreach_without_over": f"  start: a\n  nodes:\n    a: {{type: foreach, as: x, {_CALL}}}",
    "gate_without_next": "  start: a\n  nodes: {a: {type: gate}}",
    "gate_bad_condition": "  start: a\n  nodes: {a: {type: gate, next: [{when: 3, to: a}]}}",
    "gate_bad_operator": (
        "  start: a\n  nodes: {a: {type: gate, next: [{when: {path: x, op: like}, to: a}]}}"
    ),
    "bad_expression": '  start: a\n  nodes: {a: {type: return, output: {x: "${state.}"}}}',
    "unknown_filter": '  start: a\n  nodes: {a: {type: return, output: {x: "${state.a | nil}"}}}',
    "not_reached": "  start: a\n  nodes: {a: {type: return}, b: {type: return}}",
    "bad_max_steps": "  start: a\n  max_steps: many\n  nodes: {a: {type: return}}",
    "large_max_steps": "  start: a\n  max_steps: 99999999999\n  nodes: {a: {type: return}}",
    "bad_on_error": "  start: a\n  on_error: retry\n  nodes: {a: {type: return}}",
    "bad_retry": f"  start: a\n  nodes:\n    a: {{{_CALL}, retry: {{max_retries: -1}}}}",
    "bad_hook": "  start: a\n  hooks: [{event: never}]\n  nodes: {a: {type: return}}",
    "bad_state": "  start: a\n  state: 3\n  nodes: {a: {type: return}}",
}


def graph(text: str) -> str:
    """The whole file of a graph, of which this may be the ``config`` only."""
    return _FLOW.replace("{config}", text) if text.startswith("  ") else text


BAD_SETTINGS: Mapping[tuple[str, str], tuple[str, ...]] = {
    # path below .ai/config of user space, a command that reads it: texts, of which each is a file
    ("execution/execution.yaml", "run tool:mine/plain --dry-run"): (
        "a: [b",
        "- a",
        "defaults: 3",
        "defaults: {timeout: long}",
        "defaults: {timeout: -1}",
        "tools: {mine/plain: {timeout: x}}",
        "unknown: 1",
    ),
    ("agents/policy.yaml", ""): (
        "sign: perhaps",
        "rules: 3",
        "rules: [{decision: x}]",
        "shells: 3",
    ),
    ("sandbox/policy.yaml", "sandbox show tool:mine/plain"): (
        "level: most",
        "rules: 3",
        "rules: [{items: 3}]",
        "limits: {netwrok: []}",
        "agents: 3",
    ),
    ("remotes/remotes.yaml", "remote list"): (
        "remotes: 3",
        "remotes: {default: 3}",
        "remotes: {default: {}}",
        "remotes: {default: {url: 'ftp://x'}}",
        "remotes: {default: {url: 'http://example.com'}}",
        "remotes: {default: {url: 'https://x.example', timeout: long}}",
        "remotes: {default: {url: 'https://x.example', node_id: x}}",
        "remotes: {default: {url: 'https://x.example', more: x}}",
        "remotes: {'a b': {url: 'https://x.example'}}",
        "project_path: 3",
    ),
    ("registry/registry.yaml", "registry logout"): (
        "registry: 3",
        "registry: {default: {url: 3}}",
        "registry: {default: {url: 'https://x.example', fingerprint: x}}",
    ),
    ("integrity/integrity.yaml", "run tool:mine/plain --dry-run"): (
        "require_full_coverage: maybe",
    ),
    ("rye/aliases.yaml", "run tool:mine/alias"): ("aliases: 3", "aliases: {a: 3}", "prefixes: x"),
    ("agent/agent.yaml", "run directive:mine/good name=x --fork"): (
        "tiers: 3",
        "tiers: {fast: 3}",
        "defaults: {turns: many}",
        "daily: {spend: x}",
        "ceilings: {nothing: 1}",
    ),
    ("agent/providers/own.yaml", "agent set-up --provider own --yes"): (
        "dialect: nothing",
        "dialect: openai-chat",
        "dialect: openai-chat\nbase_url: 3",
        "dialect: openai-chat\nbase_url: 'http://x.example'\nmodels: 3",
    ),
}

BAD_LOCKFILES: Mapping[str, str] = {
    "not_json": "{",
    "a_list": "[]",
    "empty": "",
    "another_version": '{"lockfile_version": 9}',
    "no_root": '{"lockfile_version": 1, "generated_at": "x", "resolved_chain": []}',
    "root_a_text": '{"lockfile_version": 1, "generated_at": "x", "root": "x"}',
    "twice": '{"lockfile_version": 1, "lockfile_version": 1}',
    "another_chain": (
        '{"lockfile_version": 1, "generated_at": "x", "root": {"tool_id": "mine/plain", '
        '"version": "1.0.0", "integrity": "' + "0" * 64 + '"}, "resolved_chain": []}'
    ),
}
