"""What ``help`` says about what comes with the program, and what is made to be shared. Data.

Page: ``docs/reference/bundle.md``.
"""

from collections.abc import Mapping

# The ones to know first, with what they are for. The overview names those that are here.
MAIN_TOOLS: Mapping[str, str] = {
    "rye/file-system/read": "a file; in its folder edit_lines, write, ls, glob, grep",
    "rye/code/git": "status, diff, log, show, blame, add, commit, branches",
    "rye/bash/bash": "any command",
    "rye/web/fetch": "a page as Markdown; in its folder search",
    "rye/core/processes/list": "background runs; in its folder status, steps, cancel",
    "rye/core/testing/test": "the cases of a tool",
    "rye/mcp/manager": "tools of MCP servers, as items",
    "rye/core/registry/registry": "published items and bundles",
    "rye/core/remote/remote": "other machines",
}

BUNDLE_TOPICS: Mapping[str, str] = {
    "bundle": """\
What comes with Rye, and bundles of others

  rye/file-system/     read, edit_lines, write, ls, glob, grep: kept to the project; lines have ids
  rye/code/git         a repository, without running what its configuration names
  rye/bash/bash        any command
  rye/web/             fetch, search: pages as Markdown; nothing of this machine's own network
  rye/core/processes/  list, status, steps, cancel: background runs
  rye/core/testing/test, rye/core/telemetry/telemetry     cases of tools; runs in numbers
  rye/core/keys/keys, rye/core/lock/lock, rye/core/init/init     keys, lockfiles, set-up
  rye/core/remote/remote, rye/core/registry/registry     nodes; registries
  rye/core/bundler/bundler     bundles, made and looked at
  rye/mcp/manager      MCP servers, and items made of their tools

Directives rye/authoring/create_tool, create_directive, create_knowledge, create_runtime and
create_graph say how to write one; rye/core/review_item, how to read one before it is trusted.
Knowledge explains each concept: search scope=knowledge.rye.*
A program of the edition core has only what is below rye/core.

A bundle is a folder of such items, signed as a whole. An installed one is a further system space:

  rye bundle create ID 'mine/**' --release 1.0.0    make one; verify and inspect look at it
  rye bundle install ID|DIR                         from a registry or a folder; its key is pinned
  rye bundle list, uninstall, search, pull, push
""",
    "test": """\
Cases beside a tool

.ai/tools/mine/hello.test.yaml holds the cases of mine/hello, and is signed like the tool:

  version: "1.0.0"
  tool_type: test
  executor_id: null
  category: mine
  description: Cases of hello
  cases:
    - name: greets
      params: {name: Ada}
      expect: {data: {greeting: hello Ada}}
    - name: a name is text
      params: {name: 3}
      expect: {code: VALIDATION_FAILED}

expect also knows status, equals, contains, matches, error, stdout, stderr, files; a case also
files, env, timeout, skip_unless, in_project. Each runs in a copy of the project's items.

  rye test                 all of the project; status 1 where one fails, 3 where there is none
  rye test mine/hello -k greets
Agents: tool:rye/core/testing/test. The format as a schema for editors: rye help --schema test
""",
}
