"""``rye graph validate`` on drafts and sub-graphs; ``resume`` and ``status`` on stopped runs."""

import json
from pathlib import Path

import pytest

from tests.support.command_line import CommandLine

HEAD = """\
version: "1.0.0"
tool_type: graph
executor_id: rye/core/runtimes/state-graph/runtime
category: mine
description: For tests
permissions: [rye.execute.tool.mine.*, rye.execute.tool.rye.bash.bash]
"""
NEEDS_GOODS = """\
config:
  start: fetch
  nodes:
    fetch:
      action: {item_id: "tool:rye/bash/bash", params: {command: "cat goods"}}
      assign: {goods: "${result.stdout | trim}"}
      next: done
    done: {type: return, output: {goods: "${state.goods}"}}
"""
CALLS = """\
config:
  start: ask
  nodes:
    ask:
      action: {{item_id: "tool:mine/inner"}}
      assign:
        got: "{reads}"
      next: done
    done: {{type: return, output: {{got: "${{state.got}}"}}}}
"""


def graph(cli: CommandLine, name: str, body: str) -> Path:
    path = cli.project / ".ai" / "tools" / "mine" / f"{name}.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(HEAD + body, "utf-8")
    return path


# --- validate -------------------------------------------------------------------------------------


def test_a_draft_is_validated_by_its_id_with_line_and_column(cli: CommandLine) -> None:
    graph(cli, "draft", NEEDS_GOODS.replace("next: done", "next: dne"))

    done = cli("graph", "validate", "mine/draft")
    (error,) = cli("graph", "validate", "mine/draft", "--json").json["errors"]

    path = Path(".ai/tools/mine/draft.yaml")
    text = (cli.project / path).read_text("utf-8").splitlines()
    line = next(number for number, one in enumerate(text, 1) if "next: dne" in one)
    assert done.status == 1
    assert done.stdout.startswith(f"{path}:{line}:7: error: config.nodes.fetch.next: ")
    assert (error["line"], error["column"]) == (line, 7)


def test_a_text_that_is_no_yaml_has_line_and_column_where_it_is_validated_and_signed(
    signer: CommandLine,
) -> None:
    broken = NEEDS_GOODS.replace('"cat goods"}}', '"cat goods"}')
    path = graph(signer, "draft", broken)
    line = 1 + path.read_text("utf-8").splitlines().index(
        '      assign: {goods: "${result.stdout | trim}"}'
    )

    done = signer("graph", "validate", "mine/draft")
    (error,) = signer("graph", "validate", "mine/draft", "--json").json["errors"]
    signed = signer("sign", "tool:mine/draft")

    words = "expected YAML: did not find expected ',' or '}'"
    assert done.status == 1
    assert done.stdout == f".ai/tools/mine/draft.yaml:{line}:7: error: {words}\n"
    assert (error["message"], error["line"], error["column"]) == (words, line, 7)
    assert signed.status == 6
    assert signed.stderr.startswith(f"error: {path}:{line}:7: yaml header: {words}\n")
    assert "cause:" not in signed.stderr


def test_a_graph_that_is_refused_by_sign_has_line_and_column_of_each_problem(
    signer: CommandLine,
) -> None:
    path = graph(signer, "draft", NEEDS_GOODS.replace("next: done", "next: dne"))
    lines = path.read_text("utf-8").splitlines()
    line = 1 + lines.index("      next: dne")

    signed = signer("sign", "tool:mine/draft")

    assert signed.stderr.startswith(f"error: {path}:{line}:7: config.nodes.fetch.next: ")


def test_a_problem_of_what_is_not_there_has_the_place_of_what_should_hold_it(
    cli: CommandLine,
) -> None:
    graph(cli, "draft", "config:\n  nodes:\n    a: {type: return}\n")

    done = cli("graph", "validate", "mine/draft")

    assert ".ai/tools/mine/draft.yaml:7:1: error: config.start: expected" in done.stdout


def test_what_is_no_graph_file_is_refused_by_name(cli: CommandLine) -> None:
    path = graph(cli, "x", NEEDS_GOODS)
    path.rename(path.with_suffix(".py"))

    refused = cli("graph", "validate", "mine/x")

    assert refused.status == 2
    assert "expected a graph, a YAML file" in refused.stderr


@pytest.mark.parametrize(
    ("reads", "problem"),
    [
        ("${result.output.goods}", ""),
        ("${result.status} ${result.steps} ${result.graph_run_id}", ""),
        ("${result.output}", ""),
        ("${result.output.good}", "the output of mine/inner has no 'good' (did you mean goods?)"),
        (
            "${result.goods}",
            "a run of mine/inner gives no 'goods' (did you mean result.output.goods?)",
        ),
        ("${result.outptu.goods}", "a run of mine/inner gives no 'outptu' (did you mean output?)"),
    ],
)
def test_what_is_read_from_a_sub_graph_is_compared_with_its_output(
    cli: CommandLine, reads: str, problem: str
) -> None:
    graph(cli, "inner", NEEDS_GOODS)
    graph(cli, "outer", CALLS.format(reads=reads))

    done = cli("graph", "validate", "mine/outer")

    assert done.status == (1 if problem else 0), done.stdout
    assert (f"error: config.nodes.ask.assign.got: {problem}\n" in done.stdout) == bool(problem)


@pytest.mark.parametrize(
    "inner",
    [
        NEEDS_GOODS.replace('output: {goods: "${state.goods}"}', 'output: "${state}"'),
        NEEDS_GOODS.replace("config:", "config:\n  result: both").replace(
            'output: {goods: "${state.goods}"}', 'output: "${state.goods}"'
        ),
        "config: [no graph]\n",
    ],
)
def test_an_output_that_only_a_run_can_tell_is_not_compared(cli: CommandLine, inner: str) -> None:
    graph(cli, "inner", inner)
    graph(cli, "outer", CALLS.format(reads="${result.output.anything}"))

    assert cli("graph", "validate", "mine/outer").status == 0


# --- runs that stopped ----------------------------------------------------------------------------


@pytest.fixture
def shop(signer: CommandLine) -> CommandLine:
    """A project with a graph that needs a file, which is not there."""
    graph(signer, "needs", NEEDS_GOODS)
    assert signer("sign", "tool:mine/needs").status == 0
    return signer


def test_status_names_a_run_that_can_be_resumed_and_resume_takes_the_only_one(
    shop: CommandLine,
) -> None:
    assert shop("graph", "run", "mine/needs").status == 1
    (stopped,) = shop.json("status")["resumable"]
    said = shop("status")
    (shop.project / "goods").write_text("tea\n", "utf-8")

    done = shop("graph", "resume")

    run_id = stopped["run_id"]
    assert (stopped["node"], stopped["status"]) == ("fetch", "error")
    assert f"can be resumed: {run_id} (tool:mine/needs, error at fetch)" in said.stdout
    assert "next: rye graph resume\n" in said.stderr
    assert f"resuming {run_id} at fetch\n" in done.stderr
    assert json.loads(done.stdout)["output"] == {"goods": "tea"}
    assert shop.json("status")["resumable"] == []


def test_of_several_stopped_runs_none_is_chosen(shop: CommandLine) -> None:
    for _ in range(2):
        shop("graph", "run", "mine/needs")
    ids = [one["run_id"] for one in shop.json("status")["resumable"]]

    refused = shop("graph", "resume")

    assert len(ids) == 2
    assert refused.status == 2
    assert f"expected one of {', '.join(ids)}, found none" in refused.stderr
    assert refused.stderr.endswith(f"hint: rye graph resume {ids[0]}\n")


def test_without_a_stopped_run_there_is_nothing_to_resume(shop: CommandLine) -> None:
    (shop.project / "goods").write_text("tea\n", "utf-8")
    shop("graph", "run", "mine/needs")

    refused = shop("graph", "resume", "--json")

    assert (refused.status, refused.json["code"]) == (3, "RUN_NOT_FOUND")
    assert shop.json("status")["resumable"] == []
