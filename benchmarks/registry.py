"""Searching a registry of 100,000 items: over HTTP, as clients do."""

from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from random import Random
from time import perf_counter
from urllib.parse import quote

from sqlalchemy import insert

from benchmarks.timing import Figure
from rye_services.registry.search_index import PUBLIC, IndexedItem, index_for
from rye_services.registry.services import open_registry_alone
from rye_services.storage.database import stamp
from rye_services.storage.registry_tables import items
from ryeos.items.context import utc_now
from tests.support.registry import Registry, running_registry

COUNT = 100_000
_CHUNK = 5000
_WORDS, _COMMON = 20_000, 20
_ROUNDS = 400
_KINDS = ("tool", "directive", "knowledge")
_FLOOR = "GET /v1/public-key, median"


def figures(scratch: Path) -> Iterator[Figure]:
    """Searches of every sort, mixed; half of them have a word that a fifth of all items has."""
    with running_registry(scratch / "registry") as registry:
        fill(registry, COUNT)
        connection = HTTPConnection("127.0.0.1", registry.node.port)
        targets = _targets()
        for target in targets[:20]:
            _request_ms(connection, target)
        times = [_request_ms(connection, target) for target in targets]
        floor = sorted(_request_ms(connection, "/v1/public-key") for _ in range(100))[50]
        connection.close()
    label = f"registry, a search of {COUNT} items, p95"
    yield Figure(label, _at(times, 0.95), _FLOOR, floor, "at most 50 ms")
    yield Figure(label.replace("p95", "median"), _at(times, 0.5), _FLOOR, floor, "")


def fill(registry: Registry, count: int) -> None:
    """Write items of many words directly into the database of a registry."""
    services = open_registry_alone(registry.node.settings)
    index, random, now = index_for("sqlite"), Random(1), stamp(utc_now())  # noqa: S311 - the same ones
    for start in range(0, count, _CHUNK):
        made = [_document(number + 1, random) for number in range(start, start + _CHUNK)]
        with services.database.writing() as connection:
            connection.execute(insert(items), [_row(one, now) for one in made])
            index.put(connection, made)
    services.database.close()


def _document(number: int, random: Random) -> IndexedItem:
    words = [f"word{random.randrange(_WORDS)}" for _ in range(30)]
    common = [f"common{random.randrange(_COMMON)}" for _ in range(4)]
    namespace, category = f"n{number % 500}", f"c{number % 40}"
    return IndexedItem(
        item=number,
        item_type=_KINDS[number % 3],
        item_id=f"{namespace}/{category}/{words[0]}_{number}",
        namespace=namespace,
        category=category,
        title=" ".join(words[1:4]),
        description=" ".join([*words[4:12], *common]),
        body=" ".join(words[12:]),
        visibility=PUBLIC,
    )


def _row(document: IndexedItem, now: str) -> dict[str, object]:
    return {
        "id": document.item,
        "item_type": document.item_type,
        "item_id": document.item_id,
        "folded_id": document.item_id,
        "namespace": document.namespace,
        "category": document.category,
        "name": document.item_id.rpartition("/")[2],
        "title": document.title,
        "description": document.description,
        "visibility": document.visibility,
        "latest_version": "1.0.0",
        "author": document.namespace,
        "created_at": now,
        "updated_at": now,
    }


def _targets() -> list[str]:
    random, found = Random(2), []  # noqa: S311 - the same ones each time
    for _ in range(_ROUNDS // 8):
        word, other = (f"word{random.randrange(_WORDS)}" for _ in range(2))
        common = f"common{random.randrange(_COMMON)}"
        found += [
            f"query={word}",
            f"query={word[:6]}",
            f"query={quote(f'{word} {other}')}",
            f"query={common}",
            f"query={quote(f'{common} {word}')}",
            f"query={common}&item_type=tool&namespace=n{random.randrange(500)}",
            f"query={quote(f'{common} common{random.randrange(_COMMON)}')}&offset=40",
            f"item_type=knowledge&category=c{random.randrange(40)}",
        ]
    random.shuffle(found)
    return [f"/v1/search?{target}" for target in found]


def _request_ms(connection: HTTPConnection, target: str) -> float:
    started = perf_counter()
    connection.request("GET", target)
    answer = connection.getresponse()
    answer.read()
    if answer.status != 200:  # noqa: PLR2004 - HTTP's
        raise ValueError(f"{target}: {answer.status}")
    return (perf_counter() - started) * 1000


def _at(times: list[float], share: float) -> float:
    return sorted(times)[int(len(times) * share)]
