from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from lillux.canonical_json import CanonicalJsonError
from lillux.store import Store
from lillux.values import replace
from ryeos.graph.node_cache import NodeCache
from ryeos.graph.run_objects import NodeInput

INPUT = NodeInput(
    graph_id="mine/g",
    graph_hash="a" * 64,
    node_name="n",
    interpolated_action={"item_id": "x", "params": {"n": 1.5}},
    chain=("b" * 64,),
)


class Ground:
    """A cache, its clock, and its warnings."""

    def __init__(self, root: Path) -> None:
        self.now = datetime(2026, 1, 2, tzinfo=UTC)
        self.warnings: list[str] = []
        self.store = Store(root)
        self.cache = NodeCache(self.store, clock=lambda: self.now, warn=self.warnings.append)

    @property
    def pointer(self) -> Path:
        return self.store.root / "cache" / "nodes" / f"{INPUT.digest()}.json"


@pytest.fixture
def ground(tmp_path: Path) -> Ground:
    """An empty cache."""
    return Ground(tmp_path / "objects")


def test_a_result_is_found_by_the_same_input_only(ground: Ground) -> None:
    digest = ground.cache.put(INPUT, {"value": 1})

    found = ground.cache.get(INPUT)

    assert found is not None
    assert (found.result, found.node_result_hash) == ({"value": 1}, digest)
    assert ground.cache.get(replace(INPUT, chain=("c" * 64,))) is None


@pytest.mark.parametrize(("age_s", "is_found"), [(0, True), (9, True), (10, False), (-1, False)])
def test_a_result_is_found_until_it_is_too_old(ground: Ground, age_s: int, is_found: bool) -> None:  # noqa: FBT001 - a column of a table
    ground.cache.put(INPUT, 1)
    ground.now += timedelta(seconds=age_s)

    assert (ground.cache.get(INPUT, ttl_s=10) is not None) is is_found


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"{}",
        b'{"node_result_hash":"../x","cached_at":1}',
        b'{"node_result_hash":1,"cached_at":1}',
        b'{"node_result_hash":"' + b"0" * 64 + b'","cached_at":1}',
    ],
)
def test_a_damaged_pointer_is_a_miss_that_is_reported(ground: Ground, data: bytes) -> None:
    ground.cache.put(INPUT, 1)
    ground.pointer.write_bytes(data)

    assert ground.cache.get(INPUT) is None
    assert len(ground.warnings) == 1
    assert ground.warnings[0].startswith("cached result of node 'n' is not used: ")


def test_a_changed_result_is_a_miss_that_is_reported(ground: Ground) -> None:
    digest = ground.cache.put(INPUT, {"value": 1})
    path = ground.store.root / "objects" / digest[:2] / digest[2:4] / f"{digest}.json"
    path.write_bytes(path.read_bytes().replace(b"1", b"2"))

    assert ground.cache.get(INPUT) is None
    assert str(path) in ground.warnings[0]


def test_a_miss_is_no_warning(ground: Ground) -> None:
    assert ground.cache.get(INPUT) is None
    assert ground.warnings == []


def test_an_input_that_is_no_json_is_an_error(ground: Ground) -> None:
    with pytest.raises(CanonicalJsonError):
        ground.cache.get(replace(INPUT, interpolated_action={"x": float("nan")}))
