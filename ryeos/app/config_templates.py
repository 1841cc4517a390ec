"""Templates of the settings files that Rye reads, for ``rye new config`` and ``help``.

Each has every key that its file may have: what a file needs as it would be, the rest as comments.
"""

from collections.abc import Mapping

from lillux.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigTemplate:
    """The purpose of a file, in a line, and its keys; ``header`` stands above them."""

    about: str
    keys: str

    def text(self, category: str) -> str:
        """The whole file."""
        return f'version: "1.0.0"\ncategory: {category}\n\n# {self.about}\n{self.keys}'


CONFIGS: Mapping[str, ConfigTemplate] = {
    "execution/execution": ConfigTemplate(
        about="Limits of runs, in seconds and numbers: of every tool, and of single ones by id.",
        keys="""\
defaults: {timeout: 300, max_steps: 1000, max_concurrency: 10}
tools:
  # mine/slow: {timeout: 3600}
""",
    ),
    "agents/policy": ConfigTemplate(
        about="What agents may sign and run. Only user space counts.",
        keys="""\
sign: ask             # never, allow
shells: session       # ask, deny, allow
rules:                # the first that fits: allow, ask, deny
  - {client: "*", items: "tool:rye/web/**", decision: ask}
tools: []             # items that are MCP tools of their own: [tool:mine/total]
projects: []          # more folders that agents may name: [~/shops/*]
""",
    ),
    "sandbox/policy": ConfigTemplate(
        about="What tools may do at most. Only user space counts.",
        keys="""\
level: declared       # off, project, strict
# limits: {network: ["*.corp.example:443"]}
rules:
  - {items: "rye/bash/*", limits: {write: ["{project}", "{tmp}"]}}
agents: {write: [], sockets: [], caches: true}
""",
    ),
    "file-system/access": ConfigTemplate(
        about="Folders beside the project that the file tools may reach. Only user space counts.",
        keys="allow: []             # [~/notes]\n",
    ),
    "web/access": ConfigTemplate(
        about="Private hosts that rye/web/fetch may reach. Only user space and bundles count.",
        keys='allow_private: []     # ["intranet.example:443", 10.0.0.0/8]\n',
    ),
    "web/search": ConfigTemplate(
        about="Who answers rye/web/search. Only user space and bundles count.",
        keys="""\
provider: searxng     # brave, tavily
url: https://search.example
key_env: ""           # the variable that holds the key of brave or tavily
""",
    ),
    "remotes/remotes": ConfigTemplate(
        about="Nodes to run on, by name, as its user adds them: `rye remote add NAME URL`",
        keys="""\
# project_path: my-project     # what nodes call this project; project_name is an older word
defaults: {timeout: 300}
remotes:
  default:
    url: https://node.example
    # key_env: RYE_REMOTE_API_KEY    # the variable that holds an API key, in no file
    # node_id: fp:07097e6443239d36
    # timeout: 60
    # roles: [registry]
    # allow_insecure: false
    # project_path: "@acme/app"
""",
    ),
    "registry/registry": ConfigTemplate(
        about="Registries, by name, as their user names them: `rye registry login --url URL`",
        keys="""\
registry:
  default:
    url: https://registry.example
    # key_env: REGISTRY_KEY            # the variable that holds an API key, in no file
    # fingerprint: 07097e6443239d36    # of the registry's key
    # timeout: 60
    # allow_insecure: false
""",
    ),
    "cas/manifest": ConfigTemplate(
        about="Which files travel to a node. A copy adds to these lists and takes nothing away.",
        keys="""\
manifest:
  skip_dirs: []                       # folders right below .ai
  hard_exclude: {names: [], patterns: []}
sync:
  include: [.ai/]                     # [src/, "*.toml"]
  exclude: []
  gitignore: true
""",
    ),
    "integrity/integrity": ConfigTemplate(
        about="Whether signatures that cover a part of a file only are refused.",
        keys="require_full_coverage: false\n",
    ),
    "rye/aliases": ConfigTemplate(
        about="Other ids of items, tried when no file has the id itself.",
        keys="""\
aliases: {}           # {total: shop/total}
directives: {}
prefixes: []          # folders whose ids may be said without them: [shop/]
""",
    ),
    "agent/agent": ConfigTemplate(
        about="Models and limits of threads. Only user space and bundles count.",
        keys="""\
tiers: {}             # {fast: ollama/qwen3, general: [anthropic/claude-sonnet-5-5]}
defaults: {turns: 20, tokens: 200000, spend: "1", duration_s: 1800, tool_calls: 100}
ceilings: {}          # no thread gets more: {spend: 5, turns: 100}
daily: {spend: "5"}   # dollars a day (UTC) for all threads
# compact: fast       # makes summaries of long threads
# min_output: 256
# overhead: 1024
# image_tokens: 5000
""",
    ),
    "agent/hook_conditions": ConfigTemplate(
        about="Hooks that watch every graph. In a project it has to be signed.",
        keys="""\
hooks:
  - id: note_errors
    event: error      # graph_started, after_step, limit, graph_completed
    layer: 2
    condition: {path: classification, op: eq, value: permanent}
    action: {item_id: "tool:mine/note", params: {text: "${error.error}"}}
    comment: says what failed
""",
    ),
}
"""The id of a file -> its template."""
