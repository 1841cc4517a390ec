"""Catalogs in the cache, and that damaged ones are not trusted."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lillux.digests import sha256_hex
from ryeos.items.refs import EXECUTABLE_KINDS, PROJECT, USER, Space, Spaces
from ryeos.search import catalog as module
from ryeos.search.catalog import Catalog
from ryeos.search.search import SearchRequest, search
from tests.support.workspace import ROOT, Workspace

MANY = 70
TIERS = frozenset({PROJECT, USER})


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder of the cache."""
    folder = tmp_path / "cache"
    folder.mkdir()
    return folder


@pytest.fixture
def opened(workspace: Workspace, place: Path) -> Callable[[], Catalog]:
    """Make a catalog as the next process would, over 70 tools of the project."""
    for number in range(100, 100 + MANY):
        workspace.project.tool(f"many/t{number}", f"# number{number} common\n")
    return lambda: Catalog(_spaces(workspace), workspace.rye().verifier, place)


def _spaces(workspace: Workspace) -> Spaces:
    return Spaces(project=workspace.project.space, user=workspace.user.space)


def found(catalog: Catalog, query: str) -> list[str]:
    """The ids of the hits of a query."""
    request = SearchRequest(query=query, tiers=TIERS, limit=100)
    return [hit.document.ref.id for hit in search(catalog, request, lambda _: ()).hits]


def kept(place: Path) -> Path:
    """The one file in the cache."""
    (path,) = place.iterdir()
    return path


def test_the_next_process_finds_the_same_items(opened: Callable[[], Catalog], place: Path) -> None:
    queries = ("number107", "common", '"number107 common"', "t16*")
    first = [found(opened(), query) for query in queries]

    assert kept(place).stat().st_mode & 0o777 == 0o600
    assert [found(opened(), query) for query in queries] == first
    assert first[0] == ["many/t107"]


READS = """
import os, sys
from pathlib import Path
from ryeos.items.refs import PROJECT, USER, Space, Spaces
from ryeos.search.catalog import Catalog
from ryeos.search.search import SearchRequest, search
project, user, place = map(Path, sys.argv[1:])
read = []
def heard(event, args):
    if event == "open" and isinstance(args[0], str) and "/.ai/tools/many/" in args[0]:
        read.append(args[0])
sys.addaudithook(heard)
spaces = Spaces(project=Space(PROJECT, project), user=Space(USER, user))
request = SearchRequest(query="number107", tiers=frozenset({PROJECT}))
hits = search(Catalog(spaces, None, place), request, lambda _: ()).hits
print(len(read), [hit.document.ref.id for hit in hits])
"""


def test_the_next_process_does_not_read_unchanged_files(
    workspace: Workspace, opened: Callable[[], Catalog], place: Path
) -> None:
    folders = [str(workspace.project.space.base), str(workspace.user.space.base), str(place)]
    command = [sys.executable, "-c", READS, *folders]

    def run() -> str:
        env = {**os.environ, "PYTHONPATH": str(ROOT)}
        return subprocess.run(
            command, env=env, capture_output=True, encoding="utf-8", check=True
        ).stdout

    opened()
    first = run()
    run()  # what was written within a tick of the first look
    workspace.project.tool("many/t105", "# number107 too\n")
    changed = run()

    assert first == f"{MANY} ['many/t107']\n"
    assert sorted(changed[changed.index("[") :].strip("[]\n").split(", ")) == [
        "'many/t105'",
        "'many/t107'",
    ]
    assert int(changed.split()[0]) < MANY


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda w: w.project.tool("many/t105", "# other\n"), ("", "other", "many/t105")),
        (lambda w: w.project.tool("new/er/x", "# other\n"), ("many/t105", "other", "new/er/x")),
        (lambda w: (w.project.space.ai / "tools/many/t105.py").unlink(), ("", "other", "")),
        (
            lambda w: (w.project.space.ai / "tools/many/t105.py").rename(
                w.project.space.ai / "tools/many/z5.py"
            ),
            ("many/z5", "z5", "many/z5"),
        ),
        (
            lambda w: os.utime(w.project.space.ai / "tools/many/t105.py", (1, 1)),
            ("many/t105", "t105", "many/t105"),
        ),
    ],
    ids=["changed", "added", "removed", "renamed", "touched"],
)
def test_changes_between_two_processes_are_seen(
    workspace: Workspace,
    opened: Callable[[], Catalog],
    change: Callable[[Workspace], object],
    expected: tuple[str, str, str],
) -> None:
    """Expected: the item with the word of number 5, a query, and its first hit."""
    found(opened(), "common")
    change(workspace)

    five, query, item_id = expected
    assert found(opened(), '"number105"') == [five] * bool(five)
    assert found(opened(), query)[:1] == [item_id] * bool(item_id)


# --- damaged, foreign, planted --------------------------------------------------------------------


@pytest.mark.parametrize(
    "spoil",
    [
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(path.read_bytes()[:-1]),
        lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
        lambda path: path.write_bytes(path.read_bytes().replace(b"number107", b"number109", 1)),
        lambda path: path.write_bytes(b"\0" * 100_000),
        lambda path: path.chmod(0o666),
        lambda path: (path.rename(f"{path}-moved"), path.symlink_to(f"{path}-moved")),
        lambda path: (path.unlink(), path.mkdir()),
        lambda path: subprocess.run(["sh", "-c", 'rm "$1"; mkfifo "$1"', "", path], check=True),
    ],
    ids=["empty", "cut", "half", "a word", "zeros", "of all", "a link", "a folder", "a pipe"],
)
def test_a_damaged_catalog_is_rebuilt(
    opened: Callable[[], Catalog], place: Path, spoil: Callable[[Path], object]
) -> None:
    found(opened(), "common")
    spoil(kept(place))

    assert found(opened(), "number107") == ["many/t107"]


def _resigned(path: Path, change: Callable[[dict[str, object], bytes], bytes]) -> None:
    """A changed catalog with a matching digest."""
    body = path.read_bytes()[65:]
    line, _, rest = body.partition(b"\n")
    head = json.loads(line)
    new = change(head, rest)
    body = json.dumps(head).encode() + b"\n" + new
    path.write_bytes(f"{sha256_hex(body)}\n".encode() + body)


@pytest.mark.parametrize(
    "change",
    [
        lambda head, rest: (head.update(key=["another version"]), rest)[1],
        lambda head, rest: (head.pop("shelves"), rest)[1],
        lambda head, rest: (head.update(columns=[]), rest)[1],
        lambda head, rest: (head.update(columns={}), rest)[1],
        lambda head, rest: (head.update(shelves=[[0, "", {}]]), rest)[1],
        lambda head, rest: (head.update(links="x"), rest)[1],
        lambda head, rest: (head["columns"].update(headers=0), rest)[1],
        lambda _, rest: rest.replace(b"many/t107.py", b"../../xyz.py", 1),
        lambda _, rest: b"\xff" * len(rest),
        lambda _, __: b"",
    ],
    ids=[
        "version",
        "shelves",
        "list",
        "none",
        "few",
        "links",
        "sizes",
        "a way out",
        "noise",
        "cut",
    ],
)
def test_an_inconsistent_catalog_is_rebuilt(
    opened: Callable[[], Catalog], place: Path, change: Callable[[dict[str, object], bytes], bytes]
) -> None:
    found(opened(), "common")
    _resigned(kept(place), change)

    assert found(opened(), "number107") == ["many/t107"]


def test_a_damaged_cached_header_is_read_from_its_file(
    opened: Callable[[], Catalog], place: Path
) -> None:
    found(opened(), "common")
    _resigned(kept(place), lambda _, rest: rest.replace(b'{"', b'x"'))

    assert found(opened(), "author:x OR number107") == ["many/t107"]


@pytest.mark.property
@given(st.data())
def test_a_changed_byte_in_the_cache_makes_no_search_fail(data: st.DataObject) -> None:
    with TemporaryDirectory() as folder:
        project, user, place = (Path(folder, name) for name in ("project", "user", "cache"))
        for path in (project / ".ai/tools", user / ".ai", place):
            path.mkdir(parents=True)
        for number in range(MANY):
            (project / f".ai/tools/t{number}.py").write_text(f"# number{number}\n", "utf-8")
        spaces = Spaces(project=Space(PROJECT, project), user=Space(USER, user))
        found(Catalog(spaces, None, place), "x")  # type: ignore[arg-type]
        path = kept(place)
        body = bytearray(path.read_bytes()[65:])
        for _ in range(data.draw(st.integers(1, 8))):
            body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
        path.write_bytes(f"{sha256_hex(bytes(body))}\n".encode() + body)

        search(
            Catalog(spaces, None, place),  # type: ignore[arg-type]
            SearchRequest(query="number107 OR t1* OR author:x", filters={"version": "!1"}),
            lambda _: (),
        )


def test_an_unwritable_cache_does_not_change_results(
    workspace: Workspace, opened: Callable[[], Catalog], tmp_path: Path
) -> None:
    opened()
    nowhere = tmp_path / "file"
    nowhere.write_text("", "utf-8")
    catalog = Catalog(_spaces(workspace), workspace.rye().verifier, nowhere)

    assert found(catalog, "number107") == ["many/t107"]


def test_no_more_than_32_catalogs_are_kept(
    workspace: Workspace, place: Path, opened: Callable[[], Catalog]
) -> None:
    for number in range(40):
        (place / f"{number:064x}").write_text("", "utf-8")
        os.utime(place / f"{number:064x}", (number, number))
    (place / "notes").write_text("", "utf-8")
    found(opened(), "common")

    left = {path.name for path in place.iterdir()}
    assert len(left) == 33
    assert {"notes", f"{9:064x}"} < left
    assert f"{8:064x}" not in left


# --- the watch ------------------------------------------------------------------------------------


def test_a_server_sees_each_change_without_reading_files(
    workspace: Workspace, opened: Callable[[], Catalog], tmp_path: Path
) -> None:
    catalog = opened()
    behind = workspace.project.space.ai / "data.py"
    behind.write_text("# before\n", "utf-8")
    (workspace.project.space.ai / "tools/many/link.py").symlink_to(behind)
    for _ in range(3):
        found(catalog, "common")
    tool = workspace.project.space.ai / "tools/many/t105.py"
    seen = []
    with tool.open("r+", encoding="utf-8") as file:  # in its place, without a word to the folder
        file.seek(0)
        file.write("# inplace")
    seen.append(found(catalog, "inplace"))
    found(catalog, "x")
    workspace.project.tool("deep/in/new", "# inside\n")
    seen.append(found(catalog, "inside"))
    found(catalog, "x")
    workspace.project.tool("deep/in/new", "# outside\n")
    seen.append(found(catalog, "outside"))
    found(catalog, "x")
    tool.unlink()
    seen.append(found(catalog, "inplace"))

    assert seen == [["many/t105"], ["deep/in/new"], ["deep/in/new"], []]


# --- equal to a new catalog -----------------------------------------------------------------------

_NAMES = ("a", "b", "c/a", "c/d/e")
_WORDS = ("one", "two", "three")


@pytest.mark.property
@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("write"), st.sampled_from(_NAMES), st.sampled_from(_WORDS)),
            st.tuples(st.just("remove"), st.sampled_from(_NAMES), st.just("")),
            st.tuples(st.just("search"), st.sampled_from(_WORDS), st.just("")),
            st.tuples(st.just("restart"), st.just(""), st.just("")),
        ),
        max_size=20,
    )
)
def test_a_cached_catalog_gives_the_same_answers(steps: list[tuple[str, str, str]]) -> None:
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_WORTH_KEEPING", 1)
        project, user, place = (Path(folder, name) for name in ("project", "user", "cache"))
        for path in (project / ".ai/tools", user / ".ai", place):
            path.mkdir(parents=True)
        spaces = Spaces(project=Space(PROJECT, project), user=Space(USER, user))
        catalog = Catalog(spaces, None, place)  # type: ignore[arg-type]
        for action, what, word in steps:
            path = project / ".ai/tools" / f"{what}.py"
            if action == "write":
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(f"# {word}\n", "utf-8")
            elif action == "remove":
                path.unlink(missing_ok=True)
            elif action == "restart":
                catalog = Catalog(spaces, None, place)  # type: ignore[arg-type]
            else:
                fresh = Catalog(spaces, None)  # type: ignore[arg-type]
                assert _scores(catalog, what) == _scores(fresh, what)
        assert _scores(catalog, "*") == _scores(Catalog(spaces, None), "*")  # type: ignore[arg-type]


def _scores(catalog: Catalog, query: str) -> dict[str, float]:
    request = SearchRequest(query=query, tiers=TIERS, kinds=EXECUTABLE_KINDS)
    hits = search(catalog, request, lambda _: ()).hits
    return {hit.document.ref.id: hit.score for hit in hits}
