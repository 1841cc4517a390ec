from pathlib import Path

import pytest
from sqlalchemy import select

from lillux.redaction import MASK, Redaction
from rye_services.node.queue.logs import MAX_LOG_BYTES, RunLogs
from rye_services.node.queue.rows import NewThread, ThreadRows
from rye_services.node.worker.jobs import STDERR, STDOUT, read_report, report
from rye_services.storage.database import Database, threads
from tests.support.databases import made_database


@pytest.fixture
def database(tmp_path: Path) -> Database:
    made = made_database(tmp_path)
    row = NewThread(
        thread_id="t",
        user_id="u",
        item_ref="tool:echo",
        remote_name="default",
        project_path="project",
        project_manifest_hash="1" * 64,
        user_manifest_hash=None,
        system_version="0.1.0",
    )
    ThreadRows(made, "one", lambda _: False).begin(row)
    return made


def ignore(_: str, __: str) -> None:
    """Ignore the log."""


def piece(stream: str, text: str) -> bytes:
    parts: list[bytes] = []
    report(parts.append, stream, text)
    return b"".join(parts)


def texts(logs: RunLogs) -> list[tuple[str, str]]:
    return [(one.stream, one.text) for one in logs.read("t", 0, 1000)]


def plain(text: str) -> str:
    return text


def test_whole_lines_are_written_during_the_run_and_the_rest_at_its_end(database: Database) -> None:
    logs = RunLogs(database)
    log = logs.open("t", 1, plain, ignore)
    log.hear(piece(STDOUT, "one\ntw"))
    log.hear(piece(STDERR, "oops\n"))
    logs.write()
    during = texts(logs)
    log.hear(piece(STDOUT, "o\nthree"))

    logs.close("t")

    assert during == [(STDOUT, "one\n"), (STDERR, "oops\n")]
    assert texts(logs)[2:] == [(STDOUT, "two\nthree")]
    assert [one.number for one in logs.read("t", 1, 2)] == [2, 3]


def test_a_secret_is_masked_however_it_was_cut(database: Database) -> None:
    logs = RunLogs(database)
    mask = Redaction({"KEY": "very-recognisable-value"}).text
    log = logs.open("t", 1, mask, ignore)
    for part in ("x very-recog", "nisable-", "value y"):
        log.hear(piece(STDOUT, part))
        logs.write()
    logs.close("t")

    assert texts(logs) == [(STDOUT, f"x {MASK} y")]


def test_pieces_that_come_in_any_cut_are_whole(database: Database) -> None:
    logs = RunLogs(database)
    log = logs.open("t", 1, plain, ignore)
    data = piece(STDOUT, "grüße\n") + b"Traceback of the worker itself\n" + piece(STDOUT, "two\n")
    for at in range(len(data)):
        log.hear(data[at : at + 1])
    logs.close("t")

    assert texts(logs) == [(STDOUT, "grüße\ntwo\n")]


def test_a_log_has_a_bound(database: Database) -> None:
    logs = RunLogs(database)
    log = logs.open("t", 1, plain, ignore)
    for _ in range(60):
        log.hear(b"".join(piece(STDOUT, "x" * 4000 + "\n") for _ in range(10)))
        logs.write()
    logs.close("t")

    found = logs.read("t", 0, 10_000)
    assert sum(len(one.text) for one in found) < MAX_LOG_BYTES + 100
    assert found[-1].text.endswith("[cut: an execution's log has at most 1 MiB]\n")
    with database.reading() as connection:
        assert 0 < (connection.scalar(select(threads.c.log_bytes)) or 0) <= MAX_LOG_BYTES + 100


def test_an_endless_line_uses_bounded_memory(database: Database) -> None:
    logs = RunLogs(database)
    log = logs.open("t", 1, plain, ignore)
    for _ in range(100):
        log.hear(piece(STDOUT, "x" * 4096))
    logs.close("t")

    ((_, text),) = texts(logs)
    assert "more than 64 KiB was left out" in text
    assert len(text) < 70_000


def test_characters_that_a_database_cannot_store_are_replaced(database: Database) -> None:
    logs = RunLogs(database)
    log = logs.open("t", 1, plain, ignore)
    log.hear(piece(STDOUT, "a\0b\udce4\n"))
    logs.close("t")

    assert texts(logs) == [(STDOUT, "a\N{REPLACEMENT CHARACTER}b\N{REPLACEMENT CHARACTER}\n")]


def test_a_fact_is_distinguished_from_a_text(database: Database) -> None:
    heard: list[str] = []
    log = RunLogs(database).open("t", 1, plain, lambda name, _: heard.append(name))
    log.hear(piece("retryable", "true") + b'["exec", "rm"]\n["stdout"]\n{}\n' + b"[" * 5000 + b"\n")

    assert heard == ["retryable"]
    assert read_report(b'["stdout", 1]') is None


def test_a_second_attempt_begins_a_new_log(database: Database) -> None:
    logs = RunLogs(database)
    for number, word in enumerate(("first", "second"), 1):
        logs.open("t", number, plain, ignore).hear(piece(STDOUT, f"{word}\n"))
        logs.close("t")

    assert texts(logs) == [(STDOUT, "second\n")]
