import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ryeos.items.errors import RyeError
from ryeos.run.threads.errors import AmbiguousThreadError, ThreadNotFoundError
from ryeos.run.threads.ids import find_thread_id, short_thread_id, thread_id_for, valid_thread_id
from tests.support.errors import coded

KNOWN = ("mine/build/build-1-2-00aa", "mine/build/build-3-4-11aa", "rye/bash/bash-5-6-22bb")


def make(item_id: str) -> str:
    return thread_id_for(item_id, epoch_ms=1763725437000, pid=42, chance=b"\x00\xff")


def test_an_id_has_the_item_the_time_and_the_process() -> None:
    assert make("mine/build") == "mine/build/build-1763725437000-42-00ff"


@pytest.mark.parametrize("item_id", ["registry.db", "registry.db/x", ".hidden", "Registry.DB-wal"])
def test_no_thread_folder_clashes_with_the_registry(item_id: str) -> None:
    assert valid_thread_id(make(item_id)).startswith(f"item-{item_id}/")


def test_a_long_name_still_fits_into_a_folder() -> None:
    assert valid_thread_id(make("mine/" + "ä" * 125))


@pytest.mark.parametrize(
    ("thread_id", "problem"),
    [
        ("../x", "'..' segments are not allowed"),
        ("/etc/passwd", "expected a relative path, found an absolute one"),
        ("tool:x/y", "':' is not allowed (drive letters, alternate streams)"),
        ("a/\x1b[2J", "control characters are not allowed"),
        ("registry.db", "names a file of the registry"),
        ("x" * 256, "expected at most 1024 bytes, 255 in a segment"),
        ("", "expected a relative path, found nothing"),
    ],
)
def test_an_id_that_is_not_a_valid_folder_is_refused(thread_id: str, problem: str) -> None:
    with pytest.raises(RyeError, check=coded("INVALID_REF")) as error:
        valid_thread_id(thread_id)

    assert str(error.value) == f"thread id {thread_id[:200]!r}: {problem}"


@pytest.mark.parametrize("text", ["rye/", "22bb", "bash-5", KNOWN[2]])
def test_a_thread_is_found_by_the_begin_or_the_end_of_its_id(text: str) -> None:
    assert find_thread_id(text, KNOWN, "db") == KNOWN[2]


def test_an_ambiguous_short_id_is_refused() -> None:
    with pytest.raises(AmbiguousThreadError) as error:
        find_thread_id("aa", KNOWN, "db")

    assert error.value.suggestions == KNOWN[:2]


def test_a_mistyped_id_gets_a_suggestion() -> None:
    with pytest.raises(ThreadNotFoundError) as error:
        find_thread_id("bash-5-6-22cb", KNOWN, "db")

    assert str(error.value) == "thread not found: bash-5-6-22cb (searched: db)"
    assert error.value.hint == "did you mean rye/bash/bash-5-6-22bb?"


@pytest.mark.property
@example("rye-remote-")
@given(st.text(alphabet=st.characters(codec="utf-8"), max_size=40))
def test_a_text_is_found_ambiguous_unknown_or_invalid(text: str) -> None:
    if text.startswith("rye-remote-"):
        with pytest.raises(RyeError, match="the id of a run on a node"):
            find_thread_id(text, KNOWN, "db")
        return
    try:
        found = find_thread_id(text, KNOWN, "db")
    except (ThreadNotFoundError, AmbiguousThreadError):
        return
    except RyeError as error:
        if error.code != "INVALID_REF":
            raise
        return

    assert text in found


@given(st.binary(min_size=2, max_size=2), st.integers(1, 10**6))
def test_an_id_is_found_by_its_short_form(chance: bytes, pid: int) -> None:
    made = thread_id_for("mine/x", epoch_ms=1795457199777, pid=pid, chance=chance)
    graph = f"mine-flow-1795457199777-{chance.hex()}"

    assert short_thread_id(made) == short_thread_id(graph) == f"run-{chance.hex()}"
    assert find_thread_id(short_thread_id(made), [made, "mine/y"], "db") == made
    assert short_thread_id("mine/y") == "mine/y"
