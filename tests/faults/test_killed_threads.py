"""Threads are killed at random moments: no limit breaks, nothing is done or paid twice.

``RYE_TEST_KILLS`` is how often, ``RYE_TEST_SEED`` repeats when. With more than in CI:

    RYE_TEST_KILLS=1000 build/venv/bin/python -m pytest -s -m heavy \
        -o faulthandler_timeout=3600 tests/faults/test_killed_threads.py
"""

import json
import os
import random
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Mapping
from contextlib import suppress
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from threading import Lock
from typing import Any

import pytest

from lillux.patterns import pattern
from tests.support.killed_threads import INPUT_PRICE, OUTPUT_PRICE
from tests.support.model_server import ModelServer, Reply, events, refused, streamed
from tests.support.workspace import ROOT

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="forks, and watches processes by pidfd"),
    pytest.mark.heavy,
]
KILLS = int(os.environ.get("RYE_TEST_KILLS", "30"))
SEED = int(os.environ.get("RYE_TEST_SEED", "37"))
PROCESSES = 2
_RUN = pattern(r"Do (r[0-9]+-[0-9]+|warm)\.")


class RandomModel:
    """Says anything that a model may say. ``bills`` are what its provider charges, by thread."""

    def __init__(self, seed: int) -> None:
        self.bills: dict[str, int] = defaultdict(int)
        self.requests = 0
        self._chance, self._lock = random.Random(seed), Lock()  # noqa: S311 - what it says

    def reply(self, handler: BaseHTTPRequestHandler, body: Mapping[str, Any]) -> None:
        """Answer one request: a token is two bytes."""
        size = int(handler.headers["content-length"])
        with self._lock:
            self.requests += 1
            number, chance = self.requests, random.Random(self._chance.random())  # noqa: S311
        sent, answered = size // 2, chance.randint(40, min(int(body["max_tokens"]), 300))
        run = _RUN.findall(json.dumps(body["messages"]))[0]
        kind = chance.choices(
            ["calls", "words", "return", "busy", "cut", "silent"], [10, 3, 2, 1, 1, 1]
        )[0]
        if kind == "busy":
            refused(429, {"error": {"message": "busy"}}, retry_after="0")(handler, body)
            return
        with self._lock:
            self.bills[run] += sent * INPUT_PRICE + answered * OUTPUT_PRICE
        reply = self._answer(kind, chance, body, f"{run}.{number}", (sent, answered))
        with suppress(OSError):  # who asked was killed
            reply(handler, body)

    def _answer(
        self,
        kind: str,
        chance: random.Random,
        body: Mapping[str, Any],
        name: str,
        usage: tuple[int, int],
    ) -> Reply:
        sent, answered = usage
        delta: Mapping[str, Any] = {"content": f"words {name}"}
        if kind == "words":
            return streamed([delta], "stop", sent=sent, answered=answered)
        if kind == "cut":
            chunk = {"id": "c", "choices": [{"index": 0, "delta": delta}]}
            return events([json.dumps(chunk)])
        if kind == "silent":  # it says nothing of its usage
            whole = {"index": 0, "delta": delta, "finish_reason": "stop"}
            return events([json.dumps({"id": "c", "choices": [whole]}), "[DONE]"])
        run = name.partition(".")[0]
        offers = [one["function"]["name"] for one in body.get("tools", ())]
        wanted = [("directive_return", json.dumps({"sum": 3}))]
        if kind == "calls" or "directive_return" not in offers:
            names = ["once", "again", "echo", "inner", "innermost", "nothing"]
            chosen = chance.choices(names, [5, 3, 2, 2, 2, 1], k=chance.randint(1, 3))
            wanted = [
                (one, json.dumps({"what": run} if "inner" in one else {"text": f"{name}.{place}"}))
                for place, one in enumerate(chosen)
            ]
        calls = [
            {
                "index": place,
                "id": f"{name}-{place}",
                "type": "function",
                "function": {"name": one, "arguments": arguments},
            }
            for place, (one, arguments) in enumerate(wanted)
        ]
        deltas = [{"tool_calls": [one]} for one in calls]
        return streamed(deltas, "tool_calls", sent=sent, answered=answered)


def test_no_kill_breaks_a_limit_or_repeats_what_had_an_effect(tmp_path: Path) -> None:
    model = RandomModel(SEED)
    with ModelServer(always=model.reply) as server:
        drivers = [
            subprocess.Popen(
                [
                    *(sys.executable, "-m", "tests.support.killed_threads"),
                    *(str(tmp_path / str(number)), server.url, str(SEED + number)),
                    str(KILLS // PROCESSES),
                ],
                cwd=ROOT,
                stdout=subprocess.PIPE,
                encoding="utf-8",
            )
            for number in range(PROCESSES)
        ]
        printed = [one.communicate()[0] for one in drivers]
    lines = [json.loads(line) for text in printed for line in text.splitlines()]
    runs = [one for one in lines if "run" in one]
    kills = sum(one["kills"] for one in lines if "kills" in one)
    states = Counter(one["code"] or one["state"] for one in runs)
    print(f"{kills} kills of {len(runs)} threads, {model.requests} requests: {dict(states)}")  # noqa: T201 - for a person

    assert [one.returncode for one in drivers] == [0] * PROCESSES
    assert kills >= KILLS // PROCESSES * PROCESSES
    assert [one["problems"] for one in runs if one["problems"]] == []
    assert [one["run"] for one in runs if not one["state"]] == [], "each thread ends"
    for one in runs:
        assert model.bills[one["run"]] <= one["used"]["spend"], one
    done = [
        text
        for number in range(PROCESSES)
        for text in (tmp_path / str(number) / "project" / "effects").read_text("utf-8").split()
    ]
    called = {text for one in runs for text in one["called"]}
    once = Counter(text for text in done if text in called)
    assert [text for text, count in once.items() if count > 1] == []
    assert sum(once.values()) > 0
