import pytest
from hypothesis import given
from hypothesis import strategies as st

from lillux.contained_paths import require_plain_path
from rye_services.names import RegistryNameError, folded_namespace, is_reserved, namespace_name
from rye_services.registry.names import bundle_name, item_name, version_of

NUMBERS = st.integers(0, 999_999_999)


def test_an_id_is_a_namespace_a_category_and_a_name() -> None:
    name = item_name("tool", "ada/text/words/count")

    assert (name.namespace, name.category, name.name) == ("ada", "text/words", "count")
    assert str(name) == "tool:ada/text/words/count"
    assert name.ref.category == "ada/text/words"


def test_an_id_may_have_no_category() -> None:
    name = item_name("tool", "my/heavy-compute")

    assert (name.namespace, name.category, name.name) == ("my", "", "heavy-compute")


@pytest.mark.parametrize(
    "item_id",
    [
        "", "ada", "ada/", "a/b",
        "/a/b/c", "ada/b/c/", "ada//c", "ada/../c", "ada/./c", "ada/b/c d", "Ada/b/c",
        "ada/b/c.", "ada/b/nul", "ada/b/con.py", "a/b/c", "ada/b\\c/d", "ada/b/é", "ada/b/c\n",
        "ada/b/-c", "ada/b/" + "c" * 101, "ada/" + "b/" * 11 + "c", "ada/b/c\0",
    ],
)  # fmt: skip
def test_any_other_text_is_refused_as_an_id(item_id: str) -> None:
    with pytest.raises(RegistryNameError):
        item_name("tool", item_id)


@given(item_id=st.text(max_size=40) | st.from_regex(r"[a-z0-9._/-]{5,40}", fullmatch=True))
def test_every_valid_id_is_a_valid_path_on_every_system(item_id: str) -> None:
    try:
        name = item_name("knowledge", item_id)
    except RegistryNameError:
        return

    require_plain_path(name.id)
    assert "/".join(filter(None, (name.namespace, name.category, name.name))) == item_id


def test_config_cannot_be_published() -> None:
    with pytest.raises(RegistryNameError, match="expected tool, directive or knowledge"):
        item_name("config", "ada/b/c")


@given(one=st.tuples(NUMBERS, NUMBERS, NUMBERS), other=st.tuples(NUMBERS, NUMBERS, NUMBERS))
def test_versions_compare_by_their_numbers(
    one: tuple[int, int, int], other: tuple[int, int, int]
) -> None:
    first, second = (version_of(".".join(map(str, numbers))) for numbers in (one, other))

    assert (first < second) == (one < other)
    assert (first == second) == (one == other)
    assert version_of(first.text) == first


@pytest.mark.parametrize(
    "text",
    ["", "1", "1.0", "1.0.0.0", "v1.0.0", "1.0.0-rc1", "01.0.0", "1.0.0\n", "\uff11.0.0", "1.0.-1"],
)
def test_any_other_text_is_refused_as_a_version(text: str) -> None:
    with pytest.raises(RegistryNameError):
        version_of(text)


def test_names_that_differ_only_in_hyphens_and_underscores_are_equal() -> None:
    assert folded_namespace("a_b") == folded_namespace("a-b")
    assert is_reserved("rye_registry")
    assert not is_reserved("ada")


@pytest.mark.parametrize(
    "name",
    ["", "a", "A1", "-a", "a" * 40, "a b", "a/b", "nul", "é1", "ada-", "ada--x", "ada_-x", "ad\n"],
)
def test_any_other_text_is_refused_as_a_namespace(name: str) -> None:
    with pytest.raises(RegistryNameError):
        namespace_name(name)


@pytest.mark.parametrize(
    "bundle_id", ["ryeos", "ryeos-core", "a", "A-b", "../up", "con", "b" * 64, "ada-", "ada--x"]
)
def test_any_other_text_is_refused_as_a_bundle_id(bundle_id: str) -> None:
    with pytest.raises(RegistryNameError):
        bundle_name(bundle_id)
