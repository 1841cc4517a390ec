"""Chains: from an id to verified elements, and never a stale one."""

import shutil
from pathlib import Path

import pytest

from lillux.signing import compute_key_fingerprint, generate_keypair
from ryeos.items.errors import (
    AmbiguousItemError,
    ChainError,
    ExecutorNotFoundError,
    IntegrityError,
    InvalidRefError,
    ItemNotFoundError,
    SignatureFormatError,
    SpecError,
    UnsignedError,
    UntrustedKeyError,
)
from ryeos.items.header_values import MetadataError
from ryeos.run.model import Chain
from ryeos.trust.store import document_path
from tests.support.errors import coded
from tests.support.workspace import SpaceFolder, Workspace

EXECUTE = "rye/core/primitives/execute"
SCRIPT = "rye/core/runtimes/python/script"
BASH = "rye/core/runtimes/bash/bash"


def build(workspace: Workspace, item_id: str) -> Chain:
    return workspace.rye().executor.build_chain(item_id)


def ids(chain: Chain) -> list[tuple[str, str]]:
    return [(element.item_id, element.space) for element in chain.elements]


def link(space: SpaceFolder, item_id: str, executor: str) -> Path:
    """A signed element that only names its executor."""
    return space.signed_yaml(item_id, executor=executor)


# --- elements of a chain


def test_a_chain_leads_from_the_tool_through_its_runtime_to_a_primitive(
    workspace: Workspace,
) -> None:
    path = workspace.project.signed_tool("mine/hello")

    chain = build(workspace, "mine/hello")

    assert ids(chain) == [
        ("mine/hello", "project"),
        (SCRIPT, "system:ryeos"),
        (EXECUTE, "system:ryeos"),
    ]
    assert [e.spec.tool_type for e in chain.elements] == ["python", "runtime", "primitive"]
    assert [e.executor_id for e in chain.elements] == [SCRIPT, EXECUTE, None]
    assert chain.tool.path == path
    assert chain.describe()[1] == {
        "item_id": SCRIPT,
        "space": "system:ryeos",
        "tool_type": "runtime",
        "executor_id": EXECUTE,
        "integrity": chain.elements[1].integrity,
        "provider_id": "ryeos",
        "provider_version": "0.1.0",
    }


def test_an_executor_may_be_a_python_file(workspace: Workspace) -> None:
    workspace.project.signed_tool(
        "mine/runner",
        executor=EXECUTE,
        tool_type="runtime",
        extra='CONFIG: dict[str, object] = {"command": "/bin/echo", "args": ["{tool_path}"]}\n',
    )
    tool = workspace.project.signed_tool("mine/hello", executor="mine/runner")

    result = workspace.run("mine/hello")

    copy = result.data["stdout"].strip()
    assert copy.startswith(str(workspace.home / ".ai/state/held"))
    assert copy.endswith(str(tool))


def test_a_primitive_needs_no_file(tmp_path: Path) -> None:
    bare = Workspace(tmp_path, ())
    bare.project.signed_yaml(
        "mine/echo", "config: {command: /bin/echo, args: [hi]}", executor=EXECUTE
    )

    chain = build(bare, "mine/echo")

    assert ids(chain)[1] == (EXECUTE, "system:builtin")
    assert (chain.primitive.path, chain.primitive.integrity) == (None, "")
    assert bare.run("mine/echo").data["stdout"] == "hi\n"


def test_a_shell_script_that_names_no_executor_runs_on_bash(workspace: Workspace) -> None:
    path = workspace.project.write("tools/hi.sh", "# description: hi\necho hi\n")
    workspace.project.sign_unchecked(path)

    chain = build(workspace, "hi")

    assert [e.item_id for e in chain.elements] == ["hi", BASH, EXECUTE]
    assert chain.tool.spec.tool_type == "bash"


def test_a_shell_script_without_a_header_is_refused(workspace: Workspace) -> None:
    path = workspace.project.write("tools/hi.sh", "# says hi\necho hi\n")
    workspace.project.sign_unchecked(path)

    with pytest.raises(ChainError, check=coded("CONFIG_ERROR")) as error:
        build(workspace, "hi")

    assert error.value.hint == "add one, like # executor_id: rye/core/runtimes/bash/bash"


# --- guards


def test_a_chain_of_ten_elements_runs_and_one_of_eleven_is_refused(workspace: Workspace) -> None:
    for number in range(8):
        executor = f"mine/r{number + 1}" if number < 7 else EXECUTE
        link(workspace.project, f"mine/r{number}", executor)
    command = "config: {command: /bin/echo, args: [ten]}"
    workspace.project.signed_yaml("mine/ten", command, executor="mine/r0")
    workspace.project.signed_yaml("mine/eleven", command, executor="mine/ten")

    result = workspace.run("mine/ten")
    with pytest.raises(ChainError, check=coded("CHAIN_TOO_DEEP")) as error:
        build(workspace, "mine/eleven")

    assert (len(result.chain), result.data["stdout"]) == (10, "ten\n")
    assert str(error.value) == "Chain too deep (max 10): mine/eleven"
    assert error.value.hint == "let one of its elements name an executor nearer to a primitive"


def test_the_depth_is_checked_before_the_next_element_is_resolved(workspace: Workspace) -> None:
    for number in range(10):
        link(workspace.project, f"mine/r{number}", f"mine/r{number + 1}")

    with pytest.raises(ChainError, check=coded("CHAIN_TOO_DEEP")):
        build(workspace, "mine/r0")


def test_an_element_that_comes_twice_is_a_cycle(workspace: Workspace) -> None:
    link(workspace.project, "mine/a", "mine/b")
    link(workspace.project, "mine/b", "mine/a")
    link(workspace.project, "mine/self", "mine/self")

    with pytest.raises(ChainError, check=coded("CIRCULAR_DEPENDENCY")) as pair:
        build(workspace, "mine/a")
    with pytest.raises(ChainError, check=coded("CIRCULAR_DEPENDENCY")) as alone:
        build(workspace, "mine/self")

    assert str(pair.value) == "Circular dependency: mine/a -> mine/b -> mine/a"
    assert str(alone.value) == "Circular dependency: mine/self -> mine/self"
    assert alone.value.hint == "let one of them name another executor_id, and sign it again"


def test_two_spellings_of_one_element_are_a_cycle_too(workspace: Workspace) -> None:
    link(workspace.project, "mine/x/x", "mine/x")

    with pytest.raises(ChainError, check=coded("CIRCULAR_DEPENDENCY")) as error:
        build(workspace, "mine/x/x")

    assert str(error.value) == "Circular dependency: mine/x/x -> mine/x/x"


def test_a_missing_tool_is_not_found_and_a_close_one_is_suggested(workspace: Workspace) -> None:
    workspace.project.signed_tool("mine/hello")

    with pytest.raises(ItemNotFoundError) as error:
        build(workspace, "mine/helo")

    assert str(error.value) == ("Tool not found: mine/helo (searched: project, user, system:ryeos)")
    assert error.value.hint == "did you mean tool:mine/hello?"


def test_a_missing_executor_is_reported_with_the_item_that_needs_it(workspace: Workspace) -> None:
    link(workspace.project, "mine/a", "rye/core/runtimes/python/scrip")

    with pytest.raises(ExecutorNotFoundError) as error:
        build(workspace, "mine/a")

    assert isinstance(error.value, ValueError)
    assert str(error.value) == (
        "Executor not found: rye/core/runtimes/python/scrip (needed by mine/a)"
    )
    assert error.value.suggestions[0] == f"tool:{SCRIPT}"


def test_an_executor_that_is_absent_is_an_error_and_null_ends_the_chain(
    workspace: Workspace,
) -> None:
    absent = workspace.project.write("tools/absent.yaml", "tool_type: python\n")
    null = workspace.project.write("tools/null.yaml", "tool_type: python\nexecutor_id: null\n")
    primitive = workspace.project.write("tools/primitive.yaml", "tool_type: primitive\n")
    for path in (absent, null, primitive):
        workspace.project.sign_unchecked(path)

    with pytest.raises(ChainError, check=coded("CONFIG_ERROR")) as missing:
        build(workspace, "absent")
    with pytest.raises(ChainError, check=coded("EXECUTOR_NOT_FOUND")) as unknown:
        build(workspace, "null")
    with pytest.raises(ChainError, match=r"^Unknown primitive: primitive$"):
        build(workspace, "primitive")

    assert str(missing.value) == f"absent declares no executor ({absent})"
    assert missing.value.hint == 'add one, like __executor_id__ = "rye/core/runtimes/python/script"'
    assert str(unknown.value) == "Unknown primitive: null"
    assert unknown.value.hint == (
        "known primitives: rye/core/primitives/execute, rye/core/primitives/http_client,"
        " rye/core/primitives/state_graph, rye/core/primitives/subprocess,"
        " rye/core/primitives/thread"
    )


def test_a_library_is_not_run(workspace: Workspace) -> None:
    library = workspace.project.write("tools/lib.yaml", "tool_type: library\nexecutor_id: null\n")
    workspace.project.sign_unchecked(library)

    with pytest.raises(ChainError, check=coded("EXECUTOR_NOT_FOUND")) as error:
        build(workspace, "lib")

    assert str(error.value) == "lib: expected something to run, found a library file"
    assert error.value.hint == "read it with: rye load tool:lib"


@pytest.mark.parametrize(
    ("item_id", "problem"),
    [
        ("../x", "'..' segments are not allowed"),
        ("a/../x", "'..' segments are not allowed"),
        ("/etc/passwd", "expected a relative path, found an absolute one"),
        ("a//b", "empty segments are not allowed"),
        ("a\0b", "control characters are not allowed"),
        ("a\\b", "expected '/' as separator, found a backslash"),
        ("", "expected a relative path, found nothing"),
        ("a" * 513, "longer than 512 bytes"),
    ],
)
def test_an_impossible_id_is_refused(workspace: Workspace, item_id: str, problem: str) -> None:
    # The unsafe path names an existing file.
    workspace.project.write("x.yaml", "tool_type: primitive\n")

    with pytest.raises(InvalidRefError) as error:
        build(workspace, item_id)

    assert error.value.problem == problem


def test_an_impossible_executor_id_is_refused(workspace: Workspace) -> None:
    path = workspace.project.yaml_tool("mine/a", "", executor="../../secret")
    workspace.project.sign_unchecked(path)

    with pytest.raises(SpecError) as error:
        build(workspace, "mine/a")

    assert str(error.value) == f"{path}: executor_id: '..' segments are not allowed"


# --- unreadable headers


@pytest.mark.parametrize(
    ("suffix", "text", "problem"),
    [
        (".yaml", "a: [1\n", "yaml header, line 3: expected YAML: did not find"),
        (".yaml", "- a\n", "yaml header, line 2: expected a mapping, found a sequence"),
        (".py", "def f(:\n", "python header, line 2: expected Python: invalid syntax"),
        (".py", "x = '''\n", "python header, line 2: expected Python: "),
    ],
)
def test_a_header_that_cannot_be_read_names_the_file_the_parser_and_the_line(
    workspace: Workspace, suffix: str, text: str, problem: str
) -> None:
    path = workspace.project.write(f"tools/broken{suffix}", text)
    workspace.project.sign_unchecked(path)

    with pytest.raises(MetadataError) as error:
        build(workspace, "broken")

    assert str(error.value).startswith(f"{path}: {problem}")


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("config: 5", "config: expected a mapping, got integer"),
        ("executor_id: [a]", "executor_id: expected an id or null, got list"),
        ("executor_id: ''", "executor_id: expected an id or null, got string"),
        ("version: 1.0", "version: expected a string, got number"),
        ("anchor: yes please", "anchor: expected a mapping, got string"),
        ("params_mode: telepathy", "params_mode: expected one of auto, stdin, args, both, got"),
    ],
)
def test_a_header_of_the_wrong_shape_names_the_file_and_the_field(
    workspace: Workspace, line: str, problem: str
) -> None:
    key = line.partition(":")[0]
    base = {"tool_type": "tool_type: x", "executor_id": f"executor_id: {BASH}"}
    text = "\n".join({**base, key: line}.values())
    path = workspace.project.write("tools/wrong.yaml", text + "\n")
    workspace.project.sign_unchecked(path)

    with pytest.raises(SpecError) as error:
        build(workspace, "wrong")

    assert str(error.value).startswith(f"{path}: {problem}")


def test_a_tool_of_ten_mebibytes_is_refused_before_it_is_parsed(workspace: Workspace) -> None:
    path = workspace.project.write("tools/big.yaml", "# " + "a" * 10 * 2**20)

    with pytest.raises(SignatureFormatError) as error:
        build(workspace, "big")

    assert str(error.value) == f"item larger than 8388608 bytes (10485762): {path}"


def test_a_tool_that_is_not_utf_8_is_refused(workspace: Workspace) -> None:
    path = workspace.project.write("tools/latin.py", "# caf\xe9\n".encode("latin-1"))

    with pytest.raises(SignatureFormatError) as error:
        build(workspace, "latin")

    assert str(error.value).endswith(f": {path}")


def test_the_elements_before_a_failure_are_known(workspace: Workspace) -> None:
    workspace.project.signed_tool("mine/hello", executor="mine/unsigned")
    path = workspace.project.yaml_tool("mine/unsigned", "")

    result = workspace.run("mine/hello", trace=True)

    assert result.error == f"unsigned item, expected a rye:signed line: {path}"
    assert [element["item_id"] for element in result.chain] == ["mine/hello"]
    assert [event["step"] for event in result.trace] == [
        *["resolve"] * 2,
        *["verify_integrity"] * 2,
    ]


# --- short ids


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("bash_runtime", BASH),
        ("shell_runtime", BASH),
        ("python_script_runtime", SCRIPT),
        ("python_script", SCRIPT),
        ("rye/core/runtimes/python_script_runtime", SCRIPT),
        ("execute", EXECUTE),
        ("subprocess", "rye/core/primitives/subprocess"),
        ("rye/core/primitives/subprocess", "rye/core/primitives/subprocess"),
        ("script", SCRIPT),
        ("rye/core/runtimes/bash", BASH),
    ],
)
def test_short_ids_of_executors_lead_to_the_same_elements(
    workspace: Workspace, written: str, meant: str
) -> None:
    link(workspace.project, "mine/a", written)

    chain = build(workspace, "mine/a")

    assert (chain.elements[1].item_id, chain.elements[1].requested_id) == (meant, written)


@pytest.mark.parametrize("written", ["rye/bash", "rye/bash/bash"])
def test_the_bash_tool_has_two_spellings(workspace: Workspace, written: str) -> None:
    result = workspace.run(written, params={"command": "echo hi"})

    assert (result.data["stdout"], result.chain[0]["item_id"]) == ("hi\n", "rye/bash/bash")


def test_the_spelling_with_the_folder_twice_finds_the_shorter_one(workspace: Workspace) -> None:
    workspace.project.signed_tool("mine/x")

    assert build(workspace, "mine/x/x").tool.item_id == "mine/x"


def test_a_file_with_the_exact_id_wins_over_an_alias(workspace: Workspace) -> None:
    link(workspace.project, "bash_runtime", EXECUTE)
    link(workspace.project, "mine/a", "bash_runtime")

    chain = build(workspace, "mine/a")

    assert chain.elements[1].item_id == "bash_runtime"
    assert chain.elements[1].space == "project"


def test_a_new_runtime_is_used_by_its_name_and_the_alias_is_shown_as_hidden(
    workspace: Workspace,
) -> None:
    """001, Adding New Runtimes: without a restart, and for no item that may not use it."""
    link(workspace.user, "mine/of_user", "rust_runtime")
    link(workspace.project, "mine/a", "rust_runtime")
    rye = workspace.rye()
    before = rye.executor.build_chain("mine/a").elements[1]
    link(workspace.project, "rye/core/runtimes/rust_runtime", "subprocess")

    chain = rye.executor.build_chain("mine/a")
    of_user = rye.executor.build_chain("mine/of_user")

    assert before.item_id == "rye/core/runtimes/rust/runtime"
    assert [one.item_id for one in chain.elements] == [
        "mine/a",
        "rye/core/runtimes/rust_runtime",
        "rye/core/primitives/subprocess",
    ]
    assert [one.ref.id for one in chain.elements[1].shadowed] == ["rye/core/runtimes/rust/runtime"]
    assert of_user.elements[1].item_id == "rye/core/runtimes/rust/runtime"


def test_a_name_that_two_executors_have_is_ambiguous(workspace: Workspace) -> None:
    link(workspace.project, "one/runner", EXECUTE)
    link(workspace.project, "two/runner", EXECUTE)
    link(workspace.project, "mine/a", "runner")

    with pytest.raises(AmbiguousItemError) as error:
        build(workspace, "mine/a")

    assert str(error.value) == (
        "runner: more than one item has this id: tool:one/runner, tool:two/runner"
    )


def test_a_project_does_not_redirect_an_alias(workspace: Workspace) -> None:
    workspace.project.signed(
        "config/rye/aliases.yaml",
        'version: "1.0.0"\ncategory: rye\naliases: {bash_runtime: mine/evil}\n',
    )
    link(workspace.project, "mine/evil", EXECUTE)
    link(workspace.project, "mine/a", "bash_runtime")

    assert build(workspace, "mine/a").elements[1].item_id == BASH


# --- caches


def test_an_unchanged_chain_is_built_once(workspace: Workspace) -> None:
    workspace.project.signed_tool("mine/hello")
    executor = workspace.warm.executor

    first = executor.build_chain("mine/hello")
    second = executor.build_chain("mine/hello")

    assert second is first
    assert executor.get_cache_stats() == {"chain_cache_size": 1, "metadata_cache_size": 3}
    assert executor.build_chain("mine/hello", force_refresh=True) is not first


def test_cached_chains_can_be_invalidated(workspace: Workspace) -> None:
    workspace.project.signed_tool("mine/hello")
    workspace.project.signed_yaml("mine/shell", "config: {script: echo}")
    executor = workspace.warm.executor
    executor.build_chain("mine/hello")
    executor.build_chain("mine/shell")

    executor.invalidate_tool("mine/other")
    assert executor.get_cache_stats()["chain_cache_size"] == 2
    executor.invalidate_tool(SCRIPT)
    assert executor.get_cache_stats()["chain_cache_size"] == 1
    executor.clear_caches()
    assert executor.get_cache_stats() == {"chain_cache_size": 0, "metadata_cache_size": 0}


def test_an_edited_tool_is_seen_at_once(workspace: Workspace) -> None:
    rye = workspace.warm
    workspace.project.signed_tool("mine/hello", version="1.0.0")
    rye.executor.build_chain("mine/hello")

    workspace.project.signed_tool("mine/hello", version="2.0.0")

    assert rye.executor.build_chain("mine/hello").tool.spec.version == "2.0.0"


def test_an_edited_runtime_is_seen_at_once(workspace: Workspace) -> None:
    rye = workspace.warm
    workspace.project.sign(workspace.project.runtime("mine/py", command="old"))
    workspace.project.signed_tool("mine/hello", executor="mine/py")
    rye.executor.build_chain("mine/hello")

    workspace.project.sign(workspace.project.runtime("mine/py", command="new"))

    assert rye.executor.build_chain("mine/hello").elements[1].spec.config["command"] == "new"


def test_an_unsigned_edit_is_refused_at_once(workspace: Workspace) -> None:
    rye = workspace.warm
    path = workspace.project.signed_tool("mine/hello")
    rye.executor.build_chain("mine/hello")

    path.write_text(path.read_text("utf-8") + "# more\n", encoding="utf-8")

    with pytest.raises(IntegrityError) as error:
        rye.executor.build_chain("mine/hello")
    assert str(error.value) == f"content modified since signing: {path}"


def test_a_shadowing_file_is_seen_at_once(workspace: Workspace) -> None:
    rye = workspace.warm
    workspace.user.signed_tool("mine/hello")
    assert rye.executor.build_chain("mine/hello").tool.space == "user"

    workspace.project.signed_tool("mine/hello")

    assert rye.executor.build_chain("mine/hello").tool.space == "project"


def test_a_shadowing_runtime_is_seen_at_once(workspace: Workspace) -> None:
    rye = workspace.warm
    workspace.project.signed_tool("mine/hello")
    rye.executor.build_chain("mine/hello")

    workspace.user.sign(workspace.user.runtime(SCRIPT))

    chain = rye.executor.build_chain("mine/hello")
    assert ids(chain)[1] == (SCRIPT, "user")
    assert chain.warnings == (
        f"tool:{SCRIPT}: the user space replaces a core item of system:ryeos",
    )


def test_an_unsigned_shadowing_file_is_not_skipped(workspace: Workspace) -> None:
    rye = workspace.warm
    workspace.user.signed_tool("mine/hello")
    rye.executor.build_chain("mine/hello")

    workspace.project.tool("mine/hello")

    with pytest.raises(UnsignedError):
        rye.executor.build_chain("mine/hello")


def test_a_file_of_an_earlier_suffix_is_seen_at_once(workspace: Workspace) -> None:
    rye = workspace.warm
    workspace.project.signed_yaml("mine/hello", "config: {script: echo}")
    rye.executor.build_chain("mine/hello")

    path = workspace.project.signed_tool("mine/hello")

    assert rye.executor.build_chain("mine/hello").tool.path == path


def test_a_new_file_with_the_id_of_an_alias_is_seen_at_once(workspace: Workspace) -> None:
    rye = workspace.warm
    link(workspace.project, "mine/a", "bash_runtime")
    rye.executor.build_chain("mine/a")

    link(workspace.project, "bash_runtime", EXECUTE)

    assert rye.executor.build_chain("mine/a").elements[1].item_id == "bash_runtime"


def test_a_deleted_file_is_seen_at_once(workspace: Workspace) -> None:
    rye = workspace.warm
    path = workspace.project.signed_tool("mine/hello")
    workspace.user.signed_tool("mine/hello")
    rye.executor.build_chain("mine/hello")

    path.unlink()

    assert rye.executor.build_chain("mine/hello").tool.space == "user"
    shutil.rmtree(workspace.user.space.ai / "tools")
    with pytest.raises(ItemNotFoundError):
        rye.executor.build_chain("mine/hello")


def test_a_removed_key_is_noticed_at_once(workspace: Workspace) -> None:
    friend = generate_keypair()
    document = workspace.user.trust(friend)
    path = workspace.project.tool("mine/hello")
    workspace.project.sign(path, friend)
    rye = workspace.warm
    rye.executor.build_chain("mine/hello")

    document.unlink()

    with pytest.raises(UntrustedKeyError) as error:
        rye.executor.build_chain("mine/hello")
    fingerprint = compute_key_fingerprint(friend.public_pem)
    assert document == document_path(workspace.user.space, fingerprint)
    assert str(error.value) == f"signed by the untrusted key {fingerprint}: {path}"


def test_a_withdrawn_approval_is_noticed_at_once(workspace: Workspace) -> None:
    friend = generate_keypair()
    workspace.project.trust(friend)
    fingerprint = compute_key_fingerprint(friend.public_pem)
    rye = workspace.warm
    rye.approvals.approve(workspace.project_path, fingerprint)
    workspace.project.sign(workspace.project.tool("mine/hello"), friend)
    rye.executor.build_chain("mine/hello")

    rye.approvals.withdraw(workspace.project_path, fingerprint)

    with pytest.raises(UntrustedKeyError):
        rye.executor.build_chain("mine/hello")


def test_equal_files_share_one_parsed_header(workspace: Workspace) -> None:
    path = workspace.project.write("tools/one.sh", "# tool_type: bash\necho hi\n")
    workspace.project.sign_unchecked(path)
    shutil.copy(path, path.with_name("two.sh"))
    executor = workspace.warm.executor

    executor.build_chain("one")
    executor.build_chain("two")

    assert executor.get_cache_stats() == {"chain_cache_size": 2, "metadata_cache_size": 3}


def test_the_digest_of_a_chain_changes_with_any_of_its_elements(workspace: Workspace) -> None:
    workspace.project.signed_tool("mine/hello", version="1.0.0")
    first = build(workspace, "mine/hello").digest
    again = build(workspace, "mine/hello").digest

    workspace.user.sign(workspace.user.runtime(SCRIPT))
    other = build(workspace, "mine/hello").digest

    assert first == again
    assert other != first


@pytest.mark.parametrize(
    ("item_id", "found"),
    [
        ("rye/core/runtimes/bash/bash", "a runtime, which runs tools that name it"),
        ("rye/core/runtimes/mcp/stdio", "a runtime, which runs tools that name it"),
        ("mine/r", "a runtime, which runs tools that name it"),
        ("rye/core/primitives/state_graph", "the primitive that walks graphs"),
    ],
)
def test_a_runtime_called_as_a_tool_is_refused_by_name(
    workspace: Workspace, item_id: str, found: str
) -> None:
    workspace.project.sign(workspace.project.runtime("mine/r"))

    refused = workspace.run(item_id, params={"command": "true"})

    assert refused.metadata["error_code"] == "EXECUTOR_NOT_FOUND"
    assert refused.error == f"{item_id}: expected a tool, found {found}"
    assert refused.failure
    assert "executor_id:" in refused.failure.hint
