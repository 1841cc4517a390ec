"""Configuration of three spaces."""

import copy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lillux.signing import generate_keypair
from ryeos.items.errors import IntegrityError, SpecError, UntrustedKeyError
from ryeos.items.header_values import MetadataError
from ryeos.trust.config import ConfigReader, Layer, deep_merge, merge_layers
from tests.support.workspace import SpaceFolder, Workspace, publish

HEAD = 'version: "1.0.0"\ncategory: mine\n'
KEYS = {"version": "1.0.0", "category": "mine"}
VALUES = st.recursive(
    st.none() | st.integers() | st.text(max_size=3) | st.lists(st.integers(), max_size=2),
    lambda inner: st.dictionaries(st.sampled_from("abcd"), inner, max_size=3),
    max_leaves=8,
)
MAPPINGS = st.dictionaries(st.sampled_from("abcd"), VALUES, max_size=4)


def write(space: SpaceFolder, text: str, name: str = "mine/x.yaml") -> Path:
    return space.signed(f"config/{name}", HEAD + text)


def read(workspace: Workspace, spec: object) -> dict[str, Any]:
    return workspace.rye().config.resolve(spec)


def merged(workspace: Workspace) -> dict[str, Any]:
    values = read(workspace, {"path": "mine/x.yaml"})
    return {name: value for name, value in values.items() if name not in KEYS}


# --- deep_merge


def test_the_project_overrides_the_user_and_the_user_the_bundles(
    workspace: Workspace,
) -> None:
    source = workspace.folder / "source"
    (source / "config/mine").mkdir(parents=True)
    (source / "config/mine/x.yaml").write_text(
        f"{HEAD}a: system\nb: system\nc: system\n", encoding="utf-8"
    )
    workspace.bundles = (*workspace.bundles, publish(workspace.folder / "more", source, "more"))
    write(workspace.user, "b: user\nc: user\n")
    write(workspace.project, "c: project\n")

    assert merged(workspace) == {"a": "system", "b": "user", "c": "project"}
    assert [layer.label for layer in workspace.rye().config.layers("mine/x.yaml")] == [
        *("system:more", "user", "project")
    ]


def test_mappings_merge_and_everything_else_replaces(workspace: Workspace) -> None:
    write(workspace.user, "m: {a: 1, b: {c: 1, d: 1}}\nlist: [1, 2]\nt: {x: 1}\nn: 1\ns: [1]\n")
    write(workspace.project, "m: {b: {c: 2}, e: 2}\nlist: [3]\nt: text\nn: null\ns: {y: 1}\n")

    assert merged(workspace) == {
        "m": {"a": 1, "b": {"c": 2, "d": 1}, "e": 2},
        "list": [3],
        "t": "text",
        "n": None,
        "s": {"y": 1},
    }


def test_extends_of_an_overriding_layer_is_dropped_at_any_depth(workspace: Workspace) -> None:
    write(workspace.user, "extends: low\ndeep: {extends: low, a: 1}\n")
    write(workspace.project, "extends: high\ndeep: {extends: high, b: {extends: high}}\n")

    assert merged(workspace) == {"extends": "low", "deep": {"extends": "low", "a": 1, "b": {}}}


@given(low=MAPPINGS, high=MAPPINGS)
def test_a_merge_changes_neither_side_and_keeps_every_value_of_the_upper_one(
    low: dict[str, Any], high: dict[str, Any]
) -> None:
    before = copy.deepcopy((low, high))

    result = deep_merge(low, high)

    assert (low, high) == before
    assert set(result) == {*low, *high}
    for name, value in high.items():
        if not isinstance(value, dict):
            assert result[name] == value
    assert deep_merge(result, high) == result
    assert deep_merge({}, high) == high == deep_merge(high, {})


def test_no_layers_merge_to_an_empty_mapping_and_one_to_itself() -> None:
    only = Layer("user", Path("x"), {"extends": "kept", "a": 1})

    assert merge_layers([]) == {}
    assert merge_layers([only]) == {"extends": "kept", "a": 1}


# --- first_match


def test_mode_first_match_takes_the_first_file_whole(workspace: Workspace) -> None:
    write(workspace.user, "a: user\n")
    write(workspace.project, "b: project\nextends: kept\n")
    spec = {"path": "mine/x.yaml", "mode": "first_match"}

    assert read(workspace, spec) == {**KEYS, "b": "project", "extends": "kept"}

    (workspace.project.space.ai / "config/mine/x.yaml").unlink()
    assert read(workspace, spec) == {**KEYS, "a": "user"}

    (workspace.user.space.ai / "config/mine/x.yaml").unlink()
    assert read(workspace, spec) == {}


# --- forms of a request


@pytest.mark.parametrize(
    "spec", [None, 5, "mine/x.yaml", {}, {"path": ""}, {"path": None}, {"path": "no/such.yaml"}, []]
)
def test_an_empty_request_gives_an_empty_mapping(workspace: Workspace, spec: object) -> None:
    assert read(workspace, spec) == {}


def test_a_list_gives_each_file_under_its_path(workspace: Workspace) -> None:
    write(workspace.user, "a: 1\n")
    write(workspace.user, "b: 2\n", "mine/y.yaml")
    spec = [{"path": "mine/x.yaml"}, {"path": "mine/y.yaml", "mode": "first_match"}, "no"]

    assert read(workspace, spec) == {
        "mine/x.yaml": {**KEYS, "a": 1},
        "mine/y.yaml": {**KEYS, "b": 2},
    }


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ({"path": 5}, "config_resolve.path: expected a string, got integer"),
        (
            {"path": "a.yaml", "mode": "magic"},
            "config_resolve.mode: expected deep_merge or first_match, got 'magic'",
        ),
        ([{"path": [1]}], "config_resolve[0].path: expected a string, got list"),
        (
            {"path": "../secret.yaml"},
            (
                "config_resolve.path: expected a path below .ai/config:"
                " unsafe path '../secret.yaml': '..' segments are not allowed"
            ),
        ),
    ],
)
def test_an_invalid_request_is_refused(workspace: Workspace, spec: object, problem: str) -> None:
    with pytest.raises(SpecError) as error:
        read(workspace, spec)

    assert str(error.value) == problem


@pytest.mark.parametrize("path", ["/etc/passwd", "a/../../b.yaml", "a\\b.yaml", "a\0.yaml", "C:x"])
def test_a_path_outside_of_the_configuration_is_refused(workspace: Workspace, path: str) -> None:
    with pytest.raises(SpecError):
        read(workspace, {"path": path})


def test_a_link_out_of_the_configuration_is_refused(workspace: Workspace) -> None:
    secret = workspace.folder / "secret.yaml"
    secret.write_text("password: s3cret\n", encoding="utf-8")
    folder = workspace.project.space.ai / "config/mine"
    folder.mkdir(parents=True)
    (folder / "x.yaml").symlink_to(secret)

    with pytest.raises(SpecError):
        read(workspace, {"path": "mine/x.yaml"})


# --- trust


def test_an_unsigned_file_is_used_with_a_warning(workspace: Workspace) -> None:
    path = workspace.project.write("config/mine/x.yaml", "a: 1\n")

    assert merged(workspace) == {"a": 1}
    assert workspace.warnings == [f"unsigned configuration is used: {path}"]


def test_a_tampered_file_is_refused(workspace: Workspace) -> None:
    path = write(workspace.project, "a: 1\n")
    path.write_text(path.read_text("utf-8").replace("a: 1", "a: 2"), encoding="utf-8")

    with pytest.raises(IntegrityError) as error:
        merged(workspace)

    assert str(error.value) == f"content modified since signing: {path}"


def test_a_file_by_an_untrusted_key_is_refused(workspace: Workspace) -> None:
    path = workspace.project.write("config/mine/x.yaml", HEAD)
    workspace.project.sign_unchecked(path, generate_keypair())

    with pytest.raises(UntrustedKeyError):
        merged(workspace)


@pytest.mark.parametrize("text", ["- a\n", "text\n", "5\n", "a: [\n", "a: 1\na: 2\n"])
def test_a_file_that_is_not_a_mapping_is_refused(workspace: Workspace, text: str) -> None:
    path = workspace.project.write("config/mine/x.yaml", text)

    with pytest.raises(MetadataError) as error:
        merged(workspace)

    assert str(error.value).startswith(f"{path}: ")


@pytest.mark.parametrize("text", ["", "\n", "# a: 2\n\n  # b: 3\n"])
def test_a_file_with_only_comments_is_ignored(workspace: Workspace, text: str) -> None:
    write(workspace.user, "a: 1\n")
    workspace.project.write("config/mine/x.yaml", text)

    assert merged(workspace) == {"a": 1}


def test_a_toml_file_is_read_too(workspace: Workspace) -> None:
    workspace.project.write("config/mine/x.toml", 'a = 1\n[b]\nc = "d"\n')

    assert read(workspace, {"path": "mine/x.toml"}) == {"a": 1, "b": {"c": "d"}}


def test_a_folder_with_the_name_of_the_file_is_ignored(workspace: Workspace) -> None:
    (workspace.project.space.ai / "config/mine/x.yaml").mkdir(parents=True)

    assert merged(workspace) == {}


def test_outside_a_project_the_other_spaces_are_read(workspace: Workspace) -> None:
    write(workspace.user, "a: 1\n")
    rye = workspace.rye()
    spaces = type(rye.context.spaces)(project=None, user=workspace.user.space)

    values = ConfigReader(spaces, rye.verifier).resolve({"path": "mine/x.yaml"})

    assert values == {**KEYS, "a": 1}


# --- spaces


def test_only_the_named_spaces_are_read(workspace: Workspace) -> None:
    write(workspace.user, "allow: [user]")
    path = workspace.project.write("config/mine/x.yaml", HEAD + "allow: [project]")
    path.write_bytes(path.read_bytes() + b": not YAML :")  # nor is the other one read

    for mode in ("deep_merge", "first_match"):
        spec = {"path": "mine/x.yaml", "mode": mode, "spaces": ["user", "system"]}
        assert read(workspace, spec)["allow"] == ["user"]
        assert read(workspace, {**spec, "spaces": ["system"]}) == {}


@pytest.mark.parametrize("spaces", ["user", [], ["home"], [["user"]]])
def test_a_space_that_does_not_exist_is_an_error(spaces: object, workspace: Workspace) -> None:
    with pytest.raises(SpecError) as error:
        read(workspace, {"path": "mine/x.yaml", "spaces": spaces})

    assert str(error.value) == (
        f"config_resolve.spaces: expected a list of project, user, system, got {spaces!r}"
    )
