"""The transcript of a thread: its journal as people read it, a page of knowledge in Markdown.

It lies beside the journal, out of reach of what Rye confined, and is signed by the receipt key for
a purpose of its own. That is no signature of an item, and the page lies in no folder of items: a
model wrote most of it, so no agent may ever load it as approved knowledge. A person who wants it as
knowledge saves it in a project and signs it like any other text.

Text of models and tools stands in quotes and in indented blocks, which it cannot end; control
characters and secrets are taken out.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from lillux.digests import sha256_hex
from lillux.foreign_text import without_control_characters
from lillux.signing import compute_key_digest, verify_signature
from lillux.values import dataclass
from ryeos.agent.prices import dollars
from ryeos.agent.thread_state import AgentThread
from ryeos.graph.run_pages import plain_words, yaml_scalar
from ryeos.graph.transcript import LoggedEvent
from ryeos.items.errors import RyeError
from ryeos.trust.signing_key import SigningKey

FILE = "transcript.md"
MAX_BYTES = 8 * 1024 * 1024
_MAX_TEXT = 20_000
_PURPOSE = b"rye/transcript/v1\n"
_BEGIN, _END = "<!-- rye:transcript:", " -->\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class TranscriptOf:
    """A thread whose transcript is written. ``used`` is what it used, with its children."""

    thread_id: str
    thread: AgentThread
    events: Sequence[LoggedEvent]
    state: str
    used: Mapping[str, int]
    mask: Callable[[str], str] = lambda text: text


def render(said: TranscriptOf) -> str:
    """The page, unsigned."""
    blocks: list[str] = [*_header(said), *_directive(said)]
    blocks += _turns(said)
    blocks += _end(said)
    text = "\n\n".join(blocks) + "\n"
    return text if len(text) <= MAX_BYTES // 4 else f"{text[: MAX_BYTES // 4]}\n\n[cut]\n"


def sign(text: str, key: SigningKey) -> bytes:
    """The page with the signature of the receipt key as its last line."""
    data = text.encode("utf-8", "replace")
    signature = key.digest_signature(_digest(data))
    fingerprint = compute_key_digest(key.public_pem)
    return data + f"{_BEGIN}{fingerprint}:{signature}{_END}".encode()


def verified(data: bytes, where: str, public_pem: bytes) -> str:
    """The page without its last line. Raises RyeError `INTEGRITY`."""
    start = data.rfind(_BEGIN.encode())
    last = data[max(start, 0) :].decode("utf-8", "replace")
    words = last.removeprefix(_BEGIN).removesuffix(_END).split(":")
    is_whole = start >= 0 and last.endswith(_END) and len(words) == 2  # noqa: PLR2004 - key, signature
    if not (
        is_whole
        and words[0] == compute_key_digest(public_pem)
        and verify_signature(_digest(data[:start]), words[1], public_pem)
    ):
        raise RyeError(
            f"{where}: it is not as Rye wrote it, or another receipt key signed it",
            code="INTEGRITY",
            hint="remove the file: what the journal says is shown then",
            path=where,
        )
    return data[:start].decode("utf-8", "replace")


def _digest(data: bytes) -> str:
    return sha256_hex(_PURPOSE + data)


def _header(said: TranscriptOf) -> Iterator[str]:
    thread, item = said.thread, said.thread.start.item
    bare = item.partition(":")[2]
    facts = {
        "name": said.thread_id,
        "title": f"Thread {said.thread_id}",
        "entry_type": "thread",
        "category": f"state/threads/{bare}",
        "version": "1.0.0",
        "item": item,
        "item_sha256": thread.start.integrity,
        "model": f"{thread.frozen['provider']}/{thread.frozen['model']}",
        "state": said.state,
        "turns": said.used["turns"],
        "tokens": said.used["tokens"],
        "dollars": dollars(said.used["spend"]),
        "began": _time(said.events[0].timestamp),
        "ended": _time(said.events[-1].timestamp),
        **({"parent": thread.start.parent} if thread.start.parent else {}),
    }
    lines = [f"{name}: {yaml_scalar(value)}" for name, value in facts.items()]
    yield "\n".join(["```yaml", *lines, "```"])
    yield f"# {plain_words(bare)}"


def _directive(said: TranscriptOf) -> Iterator[str]:
    yield "## Directive"
    yield _quoted(said, said.thread.start.question)
    if said.thread.start.inputs:
        yield _indented(said, _as_json(said.thread.start.inputs))


def _turns(said: TranscriptOf) -> Iterator[str]:
    turn = 0
    for event in said.events:
        facts = event.payload
        match event.event_type:
            case "answered":
                turn += 1
                yield from _answer(said, turn, facts)
            case "unanswered":
                why = f"{facts.get('code', '')} {facts.get('error', '')}"
                charged = "charged in full" if facts.get("charged") else "not charged"
                yield f"No answer ({charged}): {plain_words(said.mask(why))}"
            case "returned":
                word = "Error of" if facts["is_error"] else "Result of"
                yield f"{word} {plain_words(facts['name'])}:"
                yield _indented(said, facts["text"])
            case "said":
                yield f"Said by {plain_words(facts['by'])}:"
                yield _quoted(said, facts["text"])
            case "lent":
                yield f"Child {plain_words(facts['thread_id'])} began."
            case "shortened":
                yield "The turns before the last ones were summed up:"
                yield _quoted(said, facts["text"])
            case "raised":
                yield "A person raised limits:"
                yield _indented(said, _as_json(facts["limits"]))


def _answer(said: TranscriptOf, turn: int, facts: Mapping[str, Any]) -> Iterator[str]:
    yield f"## Turn {turn}"
    if facts["text"]:
        yield _quoted(said, facts["text"])
    if facts["refusal"]:
        yield "The model refused:"
        yield _quoted(said, facts["refusal"])
    for call in facts["calls"]:
        yield f"Calls {plain_words(call['name'])}:"
        yield _indented(said, call["arguments"])
    counts = ", ".join(f"{count} {name}" for name, count in facts["usage"].items() if count)
    if counts:
        yield plain_words(counts.replace("_", " "))


def _end(said: TranscriptOf) -> Iterator[str]:
    ended = said.thread.ended
    yield "## End"
    why = f": {ended.code} {ended.error}".rstrip() if ended and ended.code else ""
    yield plain_words(said.mask(f"{said.state}{why}"))
    if ended and ended.outputs:
        yield _indented(said, _as_json(ended.outputs))


def _quoted(said: TranscriptOf, text: str) -> str:
    return "\n".join(f"> {line}".rstrip() for line in _lines(said, text))


def _indented(said: TranscriptOf, text: str) -> str:
    return "\n".join(f"    {line}".rstrip() for line in _lines(said, text)) or "    (nothing)"


def _lines(said: TranscriptOf, text: str) -> list[str]:
    """The lines of a foreign text: bounded, masked, and without what would steer a reader."""
    shown = said.mask(text)
    if len(shown) > _MAX_TEXT:
        shown = f"{shown[:_MAX_TEXT]}\n[{len(shown) - _MAX_TEXT} more characters]"
    return without_control_characters(shown).replace("<!--", "<!\u2011-").split("\n")


def _as_json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2)


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
