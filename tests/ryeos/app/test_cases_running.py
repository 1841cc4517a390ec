import os
from pathlib import Path

import pytest

from lillux.cancellation import Cancellation
from lillux.signing import compute_key_fingerprint, generate_keypair
from ryeos.app.case_files import case_files
from ryeos.app.item_tests import FILE_ITSELF, CaseResult, CaseState, planned, run_cases
from ryeos.items.errors import ItemNotFoundError, RyeError
from tests.support.errors import coded
from tests.support.workspace import Workspace

HEADER = """\
version: "1.0.0"
tool_type: test
executor_id: null
category: {}
description: cases
cases:
"""
HELLO = "config: {script: 'echo hello {name}; touch made'}\n"


def cases(workspace: Workspace, item_id: str, text: str, *, sign: bool = True) -> Path:
    """Cases beside a tool of the project."""
    header = HEADER.format(item_id.rpartition("/")[0])
    path = workspace.project.write(f"tools/{item_id}.test.yaml", header + text)
    if sign:
        workspace.project.sign(path)
    return path


def run(workspace: Workspace, *patterns: str) -> dict[str, CaseResult]:
    rye = workspace.rye()
    results = run_cases(rye, list(planned(rye, case_files(rye, patterns))))
    return {result.name: result for result in results}


@pytest.fixture
def hello(workspace: Workspace) -> Workspace:
    workspace.project.signed_yaml("mine/hello", HELLO)
    return workspace


def test_a_case_passes_or_reports_the_difference(hello: Workspace) -> None:
    cases(
        hello,
        "mine/hello",
        "- {name: greets, params: {name: ada}, expect: {stdout: hello ada}}\n"
        "- {name: wrong, params: {name: ada}, expect: {stdout: hello bob}}\n",
    )

    results = run(hello, "mine/hello")

    assert results["greets"].state is CaseState.PASSED
    assert results["wrong"].problems == ('stdout: expected "hello bob", found "hello ada"',)


def test_the_project_itself_is_not_touched(hello: Workspace) -> None:
    cases(hello, "mine/hello", "- {name: a, params: {name: x}, expect: {files: {made: ''}}}\n")

    results = run(hello)

    assert results["a"].state is CaseState.PASSED
    assert [path.name for path in hello.project_path.iterdir()] == [".ai"]
    assert not (hello.project_path / ".ai/lockfiles").exists()


def test_a_case_may_run_in_the_project(hello: Workspace) -> None:
    case = "- {name: a, in_project: true, params: {name: x}, expect: {files: {made: ''}}}\n"
    cases(hello, "mine/hello", case)

    assert run(hello)["a"].state is CaseState.PASSED
    assert (hello.project_path / "made").is_file()


def test_no_case_sees_files_of_another(workspace: Workspace) -> None:
    workspace.project.signed_yaml("mine/count", "config: {script: 'ls | wc -l; touch x'}\n")
    names = range(12)
    cases(
        workspace,
        "mine/count",
        "".join(f"- {{name: n{n}, files: {{f: a}}, expect: {{matches: '1'}}}}\n" for n in names),
    )

    results = run(workspace)

    assert list(results) == [f"n{n}" for n in names]
    assert {result.state for result in results.values()} == {CaseState.PASSED}


def test_private_keys_and_runs_of_the_project_are_not_copied(workspace: Workspace) -> None:
    for name in ("signing", "receipts"):
        workspace.project.write(f"config/keys/{name}/private_key.pem", "secret")
    workspace.project.write("state/runs/a", "x")
    workspace.project.write("config/mine/a.yaml", "a: 1\n")
    workspace.project.signed_yaml("mine/ls", "config: {script: 'find .ai/config .ai -type f'}\n")
    cases(workspace, "mine/ls", "- {name: a, expect: {stdout: ''}}\n")

    (problem,) = run(workspace)["a"].problems

    assert "config/mine/a.yaml" in problem
    assert "private_key" not in problem
    assert "state/" not in problem


def test_the_target_of_a_link_in_the_project_is_not_copied(
    workspace: Workspace, tmp_path: Path
) -> None:
    workspace.project.signed_yaml("mine/ls", "config: {script: 'find -L .ai -name \"*.pem\"'}\n")
    cases(workspace, "mine/ls", "- {name: a, expect: {stdout: ''}}\n")
    keys = tmp_path / "keys"
    keys.mkdir()
    (keys / "private_key.pem").write_text("secret", "utf-8")
    (workspace.project_path / ".ai/knowledge").symlink_to(keys)

    assert run(workspace)["a"].problems == ()


def test_a_huge_file_among_the_items_is_not_copied(hello: Workspace) -> None:
    with (hello.project_path / ".ai/tools/mine/huge.bin").open("wb") as file:
        file.truncate(1 << 40)
    cases(hello, "mine/hello", "- {name: a, params: {name: x}}\n")

    assert run(hello)["a"].state is CaseState.PASSED


def test_cases_without_a_signature_are_not_read(hello: Workspace) -> None:
    path = cases(hello, "mine/hello", "- {name: a, params: {name: x}}\n", sign=False)

    results = run(hello)

    assert results[FILE_ITSELF].state is CaseState.FAILED
    assert str(path) in results[FILE_ITSELF].problems[0]
    assert "unsigned item" in results[FILE_ITSELF].problems[0]


def test_changed_cases_are_not_read(hello: Workspace) -> None:
    path = cases(hello, "mine/hello", "- {name: a, params: {name: x}}\n")
    path.write_text(path.read_text("utf-8").replace("name: x", "name: y"), "utf-8")

    assert "modified since signing" in run(hello)[FILE_ITSELF].problems[0]


def test_a_file_of_another_shape_is_a_failure_that_says_why(hello: Workspace) -> None:
    cases(hello, "mine/hello", "- {name: a, parms: {name: x}}\n")

    assert "parms" in run(hello)[FILE_ITSELF].problems[0]


def test_a_case_whose_program_is_missing_is_skipped(hello: Workspace) -> None:
    case = "- {name: a, params: {name: x}, skip_unless: [sh, no-such-program-anywhere]}\n"
    cases(hello, "mine/hello", case)

    result = run(hello)["a"]

    assert result.state is CaseState.SKIPPED
    assert result.problems == ("not here: no-such-program-anywhere",)


def test_a_case_ends_at_its_limit(workspace: Workspace) -> None:
    workspace.project.signed_yaml("mine/slow", "config: {script: 'sleep 60'}\n")
    cases(workspace, "mine/slow", "- {name: a, timeout: 0.2, expect: {code: TIMEOUT}}\n")

    assert run(workspace)["a"].problems == ()


def test_variables_of_a_case_are_those_of_the_tool(workspace: Workspace) -> None:
    workspace.project.signed_yaml("mine/env", "config: {script: 'echo $COLOR'}\n")
    cases(workspace, "mine/env", "- {name: a, env: {COLOR: '$HOME'}, expect: {stdout: $HOME}}\n")

    assert run(workspace)["a"].problems == ()


@pytest.mark.parametrize("path", ["../out", "/etc/out", "a/../../out", ".."])
def test_no_file_of_a_case_leaves_its_folder(hello: Workspace, path: str) -> None:
    case = f"- {{name: a, params: {{name: x}}, files: {{{path}: text}}}}\n"
    cases(hello, "mine/hello", case + f"- {{name: b, expect: {{files: {{{path}: null}}}}}}\n")

    results = run(hello)

    assert results["a"].state is CaseState.FAILED
    assert results["b"].state is CaseState.FAILED


def test_a_link_that_a_tool_makes_is_not_followed(workspace: Workspace) -> None:
    workspace.project.signed_yaml("mine/link", "config: {script: 'ln -s /etc/hostname out'}\n")
    cases(workspace, "mine/link", "- {name: a, expect: {files: {out: {contains: a}}}}\n")

    assert run(workspace)["a"].state is CaseState.FAILED


@pytest.mark.skipif(os.name == "nt", reason="there are no such pipes")
def test_a_pipe_among_the_items_is_left_out(hello: Workspace) -> None:
    os.mkfifo(hello.project_path / ".ai/tools/mine/pipe")
    cases(hello, "mine/hello", "- {name: a, params: {name: x}}\n")

    assert run(hello)["a"].state is CaseState.PASSED


def test_an_approved_key_counts_in_the_copy_too(workspace: Workspace) -> None:
    friend = generate_keypair()
    workspace.project.trust(friend)
    path = workspace.project.yaml_tool("mine/hello", HELLO)
    workspace.project.sign_unchecked(path, friend)
    cases(workspace, "mine/hello", "- {name: a, params: {name: x}}\n")

    before = run(workspace)["a"]
    workspace.rye().approvals.approve(
        workspace.project_path, compute_key_fingerprint(friend.public_pem)
    )
    after = run(workspace)["a"]

    assert (before.state, after.state) == (CaseState.FAILED, CaseState.PASSED)


def test_python_functions_have_cases_too(workspace: Workspace) -> None:
    runtime = "rye/core/runtimes/python/function"
    body = "def execute(params, project_path):\n    return {'twice': params['n'] * 2}\n"
    workspace.project.signed_tool("mine/twice", body, executor=runtime)
    cases(workspace, "mine/twice", "- {name: a, params: {n: 2}, expect: {equals: {twice: 4}}}\n")

    assert run(workspace)["a"].problems == ()


def test_a_missing_tool_is_an_outcome(workspace: Workspace) -> None:
    cases(workspace, "mine/gone", "- {name: a, expect: {code: ITEM_NOT_FOUND}}\n- {name: b}\n")

    results = run(workspace)

    assert results["a"].state is CaseState.PASSED
    assert "not found" in results["b"].problems[0]


def test_after_an_interruption_no_case_begins(hello: Workspace) -> None:
    cases(hello, "mine/hello", "- {name: a, params: {name: x}}\n")
    rye, cancellation = hello.rye(), Cancellation()
    cancellation.cancel()

    (result,) = run_cases(rye, list(planned(rye, case_files(rye, ()))), cancellation=cancellation)

    assert (result.state, result.problems) == (CaseState.SKIPPED, ("interrupted",))


# --- choice of cases ------------------------------------------------------------------------------


def test_files_are_chosen_by_tool_by_pattern_and_by_project(hello: Workspace) -> None:
    cases(hello, "mine/hello", "- {name: a}\n")
    cases(hello, "mine/deep/other", "- {name: b}\n")
    rye = hello.rye()

    def chosen(*patterns: str) -> list[str]:
        return [location.ref.id for location in case_files(rye, patterns)]

    assert chosen() == ["mine/hello.test", "mine/deep/other.test"]
    assert chosen("mine/hello") == chosen("tool:mine/hello.test") == ["mine/hello.test"]
    assert chosen("mine/**") == ["mine/hello.test", "mine/deep/other.test"]
    assert chosen("mine/*", "mine/hello") == ["mine/hello.test"]
    assert chosen("rye/bash") == ["rye/bash/bash.test"]
    assert "rye/core/lock/lock.test" in chosen("rye/**")


def test_a_project_without_cases_is_reported(hello: Workspace) -> None:
    rye = hello.rye()

    with pytest.raises(RyeError, check=coded("ITEM_NOT_FOUND"), match="no test cases: mine/hello"):
        case_files(rye, ["mine/hello"])
    with pytest.raises(RyeError, check=coded("ITEM_NOT_FOUND"), match="none in this project"):
        case_files(rye, [])
    with pytest.raises(ItemNotFoundError, match="mine/helo"):
        case_files(rye, ["mine/helo"])
