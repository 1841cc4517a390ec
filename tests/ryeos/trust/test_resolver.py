import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from lillux.values import replace
from ryeos.items.errors import AmbiguousItemError, IntegrityError, ItemNotFoundError
from ryeos.items.refs import PROJECT, SYSTEM, USER, ItemRef, Kind, Location, Spaces, parse_reference
from ryeos.trust.resolver import (
    Resolver,
    candidates,
    is_regular_file,
    locations,
    require_inside_space,
)
from tests.support.workspace import ROOT, Workspace

posix = pytest.mark.skipif(sys.platform == "win32", reason="links need a privilege there")
BASH = "rye/core/runtimes/bash/bash"
SEARCHED = "(searched: project, user, system:ryeos)"


@pytest.fixture
def spaces(workspace: Workspace) -> Spaces:
    return workspace.context().spaces


@pytest.fixture
def resolver(spaces: Spaces) -> Resolver:
    return Resolver(spaces)


def tool(item_id: str) -> ItemRef:
    return ItemRef(Kind.TOOL, item_id)


def found_in(resolver: Resolver, item_id: str, start: str = PROJECT) -> str:
    """The space in which a tool was found, ``""`` if in none."""
    resolution = resolver.find(tool(item_id), start)
    return resolution.location.space.label if resolution else ""


# --- precedence -----------------------------------------------------------------------------------


def test_project_wins_over_user_and_user_over_system(
    workspace: Workspace, resolver: Resolver
) -> None:
    assert found_in(resolver, "rye/bash/bash") == "system:ryeos"

    workspace.user.yaml_tool("rye/bash/bash", "")
    assert found_in(resolver, "rye/bash/bash") == USER

    workspace.project.yaml_tool("rye/bash/bash", "")
    assert found_in(resolver, "rye/bash/bash") == PROJECT


def test_an_item_does_not_see_spaces_above_its_own(
    workspace: Workspace, resolver: Resolver
) -> None:
    workspace.project.tool("here")
    workspace.user.tool("mine")

    assert found_in(resolver, "here", USER) == ""
    assert found_in(resolver, "mine", USER) == USER
    assert found_in(resolver, "mine", SYSTEM) == ""
    assert found_in(resolver, "rye/bash/bash", "system:ryeos") == "system:ryeos"


def test_a_resolution_lists_shadowed_and_missing_paths(
    workspace: Workspace, resolver: Resolver
) -> None:
    mine = workspace.user.write("tools/rye/bash/bash.yml", "")

    resolution = resolver.find(tool("rye/bash/bash"))

    assert resolution
    assert resolution.location.path == mine
    assert [location.space.label for location in resolution.shadowed] == ["system:ryeos"]
    folder = workspace.project.space.ai / "tools" / "rye" / "bash"
    assert resolution.missed[0] == folder  # is not there
    assert resolution.missed[-1] == mine.with_suffix(".yaml")


@pytest.mark.parametrize("kind", list(Kind))
def test_suffixes_are_tried_in_the_order_of_the_kind(spaces: Spaces, kind: Kind) -> None:
    assert spaces.project

    paths = candidates(spaces.project, ItemRef(kind, "a/x.y"))

    folder = spaces.project.directory(kind) / "a"
    assert list(paths) == [folder / f"x.y{suffix}" for suffix in kind.suffixes]


def test_of_two_files_with_one_id_the_first_suffix_wins_with_a_warning(
    workspace: Workspace, resolver: Resolver
) -> None:
    for suffix in (".toml", ".yaml", ".py"):
        workspace.project.write(f"tools/x{suffix}", "")

    resolution = resolver.find(tool("x"))

    assert resolution
    assert resolution.location.path.name == "x.py"
    assert resolution.warnings == ("tool:x: x.py wins over x.yaml, x.toml beside it",)


def test_the_order_does_not_depend_on_the_hash_seed(workspace: Workspace) -> None:
    for suffix in (".toml", ".yaml", ".py", ".sh", ".js"):
        workspace.project.write(f"tools/x{suffix}", "")
    code = (
        "import sys; from pathlib import Path; from ryeos.items.refs import *;"
        "from ryeos.trust.resolver import Resolver;"
        "s = Spaces(project=Space(PROJECT, Path(sys.argv[1])), user=Space(USER, Path('/none')));"
        "print(Resolver(s).find(ItemRef(Kind.TOOL, 'x')).location.path.name)"
    )

    winners = {
        subprocess.check_output(
            [sys.executable, "-c", code, str(workspace.project_path)],
            cwd=ROOT,
            env={**workspace.env, "PYTHONHASHSEED": seed},
            text=True,
            encoding="utf-8",
        )
        for seed in ("0", "1", "2", "3")
    }

    assert winners == {"x.py\n"}


def test_a_file_with_another_suffix_is_not_an_item(
    workspace: Workspace, resolver: Resolver
) -> None:
    workspace.project.write("tools/x.md", "")
    workspace.project.write("directives/x.yaml", "")

    assert resolver.find(tool("x")) is None
    assert resolver.find(ItemRef(Kind.DIRECTIVE, "x")) is None


# --- other spellings ------------------------------------------------------------------------------


def test_a_folder_stands_for_the_item_of_its_name_and_back(
    workspace: Workspace, resolver: Resolver
) -> None:
    workspace.project.tool("single")
    bash = resolver.find(tool("rye/bash"))
    single = resolver.find(tool("single/single"))

    assert bash
    assert (str(bash.requested), str(bash.location.ref)) == ("tool:rye/bash", "tool:rye/bash/bash")
    assert single
    assert str(single.location.ref) == "tool:single"


def test_an_alias_is_tried_if_no_file_has_the_id(workspace: Workspace, spaces: Spaces) -> None:
    resolver = Resolver(spaces, lambda: {tool("short"): BASH})
    aliased = resolver.find(tool("short"))
    workspace.project.tool("short")
    exact = resolver.find(tool("short"))

    assert aliased
    assert str(aliased.location.ref) == f"tool:{BASH}"
    assert exact
    assert str(exact.location.ref) == "tool:short"


def test_the_table_of_aliases_is_not_read_for_an_existing_file(spaces: Spaces) -> None:
    def unread() -> Mapping[ItemRef, str]:
        pytest.fail("the table was read")

    assert Resolver(spaces, unread).find(tool("rye/bash/bash"))


def test_an_alias_is_of_one_kind(spaces: Spaces) -> None:
    resolver = Resolver(spaces, lambda: {tool("short"): BASH})

    assert resolver.find(ItemRef(Kind.KNOWLEDGE, "short")) is None
    assert resolver.find(ItemRef(Kind.DIRECTIVE, "short")) is None


def test_a_file_with_the_name_of_an_alias_wins_with_a_warning(
    workspace: Workspace, spaces: Spaces
) -> None:
    resolver = Resolver(spaces, lambda: {tool("short"): BASH})
    workspace.project.tool("short")

    found = resolver.find(tool("short"))

    assert found
    assert [str(one.ref) for one in found.shadowed] == [f"tool:{BASH}"]
    (warning,) = found.warnings
    assert warning.endswith(f"an item of this id, which wins over the short id of tool:{BASH}")


@pytest.mark.parametrize(
    ("typed", "found"),
    [
        ("special", "tool:deep/down/special"),
        ("tool:special", "tool:deep/down/special"),
        ("review", "directive:mine/review"),
        ("grep", "tool:rye/file-system/grep"),
        ("create_tool", "directive:rye/authoring/create_tool"),
    ],
)
def test_a_tool_or_a_directive_is_found_by_its_file_name_alone(
    workspace: Workspace, resolver: Resolver, typed: str, found: str
) -> None:
    workspace.project.tool("deep/down/special")
    workspace.project.directive("mine/review")

    assert str(resolver.resolve(parse_reference(typed)).location.ref) == found


@pytest.mark.parametrize("typed", ["walk", "script", "special.test", "down/special", "note"])
def test_items_that_are_not_run_directly_are_not_found_by_file_name(
    workspace: Workspace, resolver: Resolver, typed: str
) -> None:
    workspace.project.tool("deep/down/special")
    workspace.project.knowledge("deep/note")

    with pytest.raises(ItemNotFoundError):
        resolver.resolve(parse_reference(typed))


def test_a_file_name_means_the_item_of_the_highest_space(
    workspace: Workspace, resolver: Resolver
) -> None:
    workspace.user.tool("deep/git")
    of_user = resolver.resolve(parse_reference("git"))
    workspace.project.tool("deeper/git")

    found = resolver.resolve(parse_reference("tool:git"))

    assert str(of_user.location.ref) == "tool:deep/git"
    assert str(found.location.ref) == "tool:deeper/git"
    assert [str(one.ref) for one in found.shadowed] == ["tool:deep/git", "tool:rye/code/git"]
    assert found.warnings[0] == (
        "tool:deeper/git: the project space has a file of this name, which wins over"
        " tool:deep/git of user"
    )


def test_two_files_of_one_name_are_listed_and_none_is_taken(
    workspace: Workspace, resolver: Resolver
) -> None:
    workspace.project.tool("a/special")
    workspace.project.tool("b/special")

    with pytest.raises(AmbiguousItemError, match="tool:a/special, tool:b/special"):
        resolver.resolve(parse_reference("special"))


def test_an_executor_is_found_by_its_file_name(workspace: Workspace, resolver: Resolver) -> None:
    workspace.project.tool("deep/down/special")
    core = resolver.find_executor("script", "system:ryeos")
    special = resolver.find_executor("special", PROJECT)

    assert core
    assert core.location.ref.id == "rye/core/runtimes/python/script"
    assert special
    assert special.location.ref.id == "deep/down/special"
    assert resolver.find_executor("special", USER) is None
    assert resolver.find_executor("nothing", PROJECT) is None


def test_an_executor_of_the_core_wins_over_others(workspace: Workspace, resolver: Resolver) -> None:
    workspace.project.tool("mine/execute")

    found = resolver.find_executor("execute", PROJECT)

    assert found
    assert found.location.ref.id == "rye/core/primitives/execute"


RUST = "rye/core/runtimes/rust_runtime"


def test_an_own_runtime_comes_before_an_alias_for_items_that_may_use_it(
    workspace: Workspace,
) -> None:
    resolver = workspace.rye().resolver
    before = resolver.find_executor("rust_runtime", PROJECT)
    path = workspace.project.tool(RUST)

    found = resolver.find_executor("rust_runtime", PROJECT)
    seen = {
        start: resolver.find_executor("rust_runtime", start) for start in (USER, "system:ryeos")
    }

    assert before
    assert found
    assert found.location.path == path
    assert path.parent in before.missed or path in before.missed
    assert [one.ref.id for one in found.shadowed] == ["rye/core/runtimes/rust/runtime"]
    for other in seen.values():
        assert other
        assert other.location.space.label == "system:ryeos"


def test_a_runtime_of_the_user_serves_a_project_and_no_bundle(workspace: Workspace) -> None:
    resolver = workspace.rye().resolver
    workspace.user.tool("rye/core/primitives/deep/subprocess")

    found = {
        start: resolver.find_executor("subprocess", start)
        for start in (PROJECT, USER, "system:ryeos")
    }

    assert [one.location.space.label for one in found.values() if one] == [
        USER,
        USER,
        "system:ryeos",
    ]


def test_a_protected_core_has_no_own_runtimes(workspace: Workspace) -> None:
    resolver = workspace.rye().resolver
    workspace.project.tool(RUST)
    guarded = Resolver(replace(resolver.spaces, protect_core=True), resolver._aliases)

    found = guarded.find_executor("rust_runtime", PROJECT)

    assert found
    assert found.location.space.label == "system:ryeos"


def test_a_file_name_that_two_executors_have_is_ambiguous(
    workspace: Workspace, resolver: Resolver
) -> None:
    workspace.project.tool("a/special")
    workspace.project.tool("b/special")

    with pytest.raises(AmbiguousItemError) as error:
        resolver.find_executor("special", PROJECT)

    assert error.value.suggestions == ("tool:a/special", "tool:b/special")


# --- references -----------------------------------------------------------------------------------


def test_a_bare_id_of_several_kinds_means_the_item_of_the_highest_space(
    workspace: Workspace, resolver: Resolver
) -> None:
    workspace.project.tool("x")
    workspace.user.knowledge("x")

    found = resolver.resolve(parse_reference("x"))

    assert str(found.location.ref) == "tool:x"
    assert [str(one.ref) for one in found.shadowed] == ["knowledge:x"]


def test_a_bare_id_of_several_kinds_of_one_space_is_ambiguous(
    workspace: Workspace, resolver: Resolver
) -> None:
    workspace.project.tool("x")
    workspace.project.knowledge("x")

    with pytest.raises(AmbiguousItemError) as error:
        resolver.resolve(parse_reference("x"))

    assert str(error.value) == "x: more than one item has this id: tool:x, knowledge:x"
    assert error.value.hint == "name the kind, like tool:x"


def test_a_kind_in_the_reference_resolves_the_ambiguity(
    workspace: Workspace, resolver: Resolver
) -> None:
    workspace.project.tool("x")
    workspace.user.knowledge("x")

    resolution = resolver.resolve(parse_reference("knowledge:x"))

    assert resolution.location.space.label == USER


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("rye/bash/bahs", "tool:rye/bash/bash"),
        ("tool:bash/bash", "tool:rye/bash/bash"),
        ("rye/bsah/bash", "tool:rye/bash/bash"),
        ("tool:Rye/Bash/Bash", "tool:rye/bash/bash"),
    ],
)
def test_a_typing_error_gets_a_suggestion(resolver: Resolver, typed: str, meant: str) -> None:
    with pytest.raises(ItemNotFoundError) as error:
        resolver.resolve(parse_reference(typed))

    assert error.value.suggestions[0] == meant
    assert error.value.hint.startswith(f"did you mean {meant}")


def test_an_id_without_similar_ids_gets_no_suggestion(resolver: Resolver) -> None:
    with pytest.raises(ItemNotFoundError) as error:
        resolver.resolve(parse_reference("tool:zzzzzz"))

    assert str(error.value) == f"Tool not found: zzzzzz {SEARCHED}"
    assert error.value.hint == "list what there is with: rye search '*'"


def test_an_unknown_bare_id_is_reported_as_item(resolver: Resolver) -> None:
    with pytest.raises(ItemNotFoundError) as error:
        resolver.resolve(parse_reference("zzzzzz"))

    assert str(error.value) == f"Item not found: zzzzzz {SEARCHED}"


def test_an_id_with_control_characters_is_not_suggested(
    workspace: Workspace, resolver: Resolver
) -> None:
    workspace.project.write("tools/greet\x1b[2J.py", "")

    assert resolver.suggest(parse_reference("tool:greet[2J")) == ()


# --- listings -------------------------------------------------------------------------------------


def test_a_listing_has_only_items(workspace: Workspace) -> None:
    project = workspace.project
    for name in ("b.py", "a.yaml", "sub/c.py", "d.txt", ".hidden.py", "_private.py"):
        project.write(f"tools/{name}", "")
    for folder in ("__pycache__", "node_modules", ".venv", ".git", "state", ".any"):
        project.write(f"tools/{folder}/x.py", "")

    listed = [str(location.ref) for location in locations(project.space, Kind.TOOL)]

    assert listed == ["tool:a", "tool:b", "tool:sub/c"]


def test_an_item_of_several_spaces_is_known_once(workspace: Workspace, resolver: Resolver) -> None:
    workspace.project.yaml_tool("rye/bash/bash", "")

    known = [ref.id for ref in resolver.known(Kind.TOOL)]

    assert known.count("rye/bash/bash") == 1


# --- folders, links and missing files -------------------------------------------------------------


def test_only_a_regular_file_is_an_item(workspace: Workspace) -> None:
    folder = workspace.project.space.ai / "tools" / "x.py"
    folder.mkdir(parents=True)

    assert not is_regular_file(folder)
    assert not is_regular_file(folder / "nothing")
    assert not is_regular_file(Path("a\0b"))


@posix
def test_a_link_within_the_folder_of_its_kind_is_accepted(workspace: Workspace) -> None:
    path = workspace.project.tool("x")
    link = path.with_name("y.py")
    link.symlink_to("x.py")

    require_inside_space(Location(ref=tool("y"), space=workspace.project.space, path=link))


@posix
def test_a_link_out_of_the_folder_of_its_kind_is_refused(
    workspace: Workspace, resolver: Resolver
) -> None:
    outside = workspace.project.write("state/x.py", "")
    link = workspace.project.space.ai / "tools" / "y.py"
    link.parent.mkdir()
    link.symlink_to(outside)

    with pytest.raises(IntegrityError) as error:
        resolver.find(tool("y"))

    assert str(error.value) == f"symlink escape: the file lies outside the project space: {link}"
    assert error.value.hint == "put the file itself into the space instead of a link"


# --- the core -------------------------------------------------------------------------------------


def test_a_replaced_core_item_gives_a_warning(workspace: Workspace, resolver: Resolver) -> None:
    workspace.user.yaml_tool(BASH, "")

    resolution = resolver.find(tool(BASH))

    assert resolution
    assert resolution.warnings == (
        f"tool:{BASH}: the user space replaces a core item of system:ryeos",
    )


def test_a_protected_core_is_looked_up_in_bundles_only(
    workspace: Workspace, spaces: Spaces
) -> None:
    workspace.user.yaml_tool(BASH, "")
    workspace.project.yaml_tool("rye/core/runtimes/mine", "")
    workspace.project.yaml_tool("rye/Core/runtimes/mine", "")
    workspace.project.yaml_tool("rye/bash/bash", "")
    protected = Resolver(replace(spaces, protect_core=True))

    assert found_in(protected, BASH) == "system:ryeos"
    assert found_in(protected, "rye/core/runtimes/bash") == "system:ryeos"
    assert found_in(protected, "rye/core/runtimes/mine") == ""
    assert found_in(protected, "rye/Core/runtimes/mine") == ""
    assert found_in(protected, "rye/bash/bash") == PROJECT


def test_suggestions_prefer_the_same_folder_and_skip_libraries(
    workspace: Workspace,
) -> None:
    for item_id in ("team/stats", "other/star", "other/lib/stat"):
        workspace.project.tool(item_id)
    resolver = workspace.rye().resolver

    assert resolver.suggest(parse_reference("team/stat")) == ("tool:team/stats",)
    elsewhere = resolver.suggest(parse_reference("third/stat"))
    assert {"tool:other/star", "tool:team/stats"} <= set(elsewhere)
    assert "tool:other/lib/stat" not in elsewhere
    assert resolver.suggest(parse_reference("other/lib/stats"))[0] == "tool:team/stats"
