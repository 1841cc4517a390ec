"""Requests of a thread, from what was said in it."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ryeos.agent.messages import (
    Answer,
    End,
    Entry,
    Question,
    Request,
    Results,
    ToolCall,
    ToolResult,
    Usage,
)
from ryeos.agent.thread_state import AgentThread
from ryeos.agent.worst_case import NextCall

_BYTES_OF_ENTRY = 512  # what a dialect writes around one text


def request_of(
    thread: AgentThread, history: tuple[Entry, ...], frozen: Mapping[str, Any], *, has_tools: bool
) -> Request:
    """A request with a history, to the model that ``frozen`` is of."""
    start = thread.start
    return Request(
        model=str(frozen["model"]),
        system=start.system,
        history=history,
        max_tokens=frozen["max_output"] or start.settings["max_output"],
        tools=start.offers if has_tools else (),
        features=frozenset(frozen["features"]),
    )


def window_of(frozen: Mapping[str, Any]) -> int:
    """The most tokens of a request and its answer together; 0 where that is not known."""
    return int(frozen.get("context") or 0)


def next_call(request: Request, body: bytes, new_entries: int, last: Usage | None) -> NextCall:
    """The facts of a call, ``new_entries`` of its history being new since the last one."""
    history = request.history
    new, pictures = history[len(history) - new_entries :], _pictures(history)
    return NextCall(
        last=last,
        new_bytes=sum(map(_size, new)),
        request_bytes=len(body) - pictures[1],
        new_pictures=_pictures(new)[0],
        pictures=pictures[0],
        max_output=request.max_tokens,
    )


def as_text(history: Sequence[Entry]) -> str:
    """The history as a text, for a model that did not say it."""
    parts = []
    for entry in history:
        match entry:
            case Question(text):
                parts.append(f"The user said:\n{text}")
            case Answer(text=text, calls=calls):
                parts += [f"You said:\n{text}"] if text else []
                parts += [f"You called {one.name} {one.arguments}" for one in calls]
            case Results(results):
                parts += [f"{one.name} gave:\n{one.text}" for one in results]
    return "\n\n".join(parts)


def _size(entry: Entry) -> int:
    """At least the bytes of an entry in a request, without those of pictures."""
    match entry:
        case Question(text):
            texts = [text]
        case Results(results):
            texts = [one.text for one in results]
        case Answer(blocks=blocks):
            texts = [str(dict(one)) for one in blocks]
    return sum(_escaped_size(text) + _BYTES_OF_ENTRY for text in texts)


def _escaped_size(text: str) -> int:
    import json

    return len(json.dumps(text, ensure_ascii=False).encode("utf-8", "backslashreplace"))


def _pictures(entries: Sequence[Entry]) -> tuple[int, int]:
    """The number of pictures in them, and the bytes of their base64."""
    found = [
        len(picture.data)
        for entry in entries
        if isinstance(entry, Results)
        for result in entry.results
        for picture in result.pictures
    ]
    return len(found), sum(4 * ((size + 2) // 3) for size in found)


def times_before(history: Sequence[Entry], call: ToolCall, result: ToolResult) -> int:
    """The number of times that the same call gave the same result right before, in a row."""
    times = 0
    same = (call.name, call.arguments, _bare(result.text))
    for answer, results in _turns_backwards(history):
        before = [
            (one.name, one.arguments, _bare(given.text))
            for one, given in zip(answer.calls, results.results, strict=False)
        ]
        if same not in before:
            return times
        times += before.count(same)
    return times


def _turns_backwards(history: Sequence[Entry]) -> Iterator[tuple[Answer, Results]]:
    for place in range(len(history) - 1, 0, -1):
        answer, results = history[place - 1], history[place]
        if isinstance(answer, Answer) and isinstance(results, Results):
            yield answer, results


def _bare(text: str) -> str:
    """A result without the lines that this loop put behind it."""
    lines = text.split("\n")
    while lines and lines[-1].startswith(("[left: ", "The same call gave the same result ")):
        lines.pop()
    return "\n".join(lines)


def pauses_at_end(history: Sequence[Entry]) -> int:
    """The number of answers at the end that paused, one after another."""
    count = 0
    for entry in reversed(history):
        if not (isinstance(entry, Answer) and entry.end is End.PAUSED):
            break
        count += 1
    return count
