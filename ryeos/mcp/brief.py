"""Answers as a model reads them: what was asked for, once. Pure.

An envelope of Rye also names the chain of a run, its hashes, times and paths. A model pays for each
of these bytes and seldom needs them, so they are sent only on request: ``verbose`` (or ``trace``).
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from lillux.foreign_text import escaped, without_control_characters
from ryeos.items.refs import AI_DIRECTORY
from ryeos.mcp.wire import compact
from ryeos.run.outcomes import TRACEBACK
from ryeos.run.threads.ids import is_short_thread_id, short_thread_id

BLOCKS_KEY = "mcp_content"
"""Of a tool's result: blocks of content, pictures and sound among them."""
MAX_PREVIEW_CHARACTERS = 120
_FACTS = frozenset({"chain", "metadata", "type", "execution_mode", "project_path", "mode"})
"""Facts about a run and its environment that no caller asked for."""
_LEFT_OUT: Mapping[str, frozenset[str]] = {
    "execute": _FACTS | {"async", "pid", "details"},
    "search": _FACTS
    | {"query", "item_type", "scope", "source", "limit", "offset", "returned"}
    | {"search_type", "skipped"},
    "fetch": _FACTS | {"text_sha256"},
    "load": _FACTS | {"item_id", "path", "source", "text_sha256"},
    "sign": _FACTS | {"item_id", "signature", "location", "path", "message"},
    "help": frozenset({"see_also", "topic"}),
}
_MAIN = ("data", "content", "your_directions", "results")
_ALWAYS = frozenset({"data", "results"})
_STREAMS = {"stdout", "stderr", "return_code"}
_WORD = re.compile(r"\w+")
_SIGNATURE = re.compile(
    r"\A(#![^\n]*\n)?(?:<!--|#|//) rye:signed:[^\n]*\n(?:(?:<!--|#|//) rye:covers:[^\n]*\n)?"
    r"(?:(?:<!--|#|//) rye:item:[^\n]*\n)?"
)


def brief(
    verb: str, envelope: Mapping[str, Any], arguments: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """The envelope of a verb without what only ``verbose`` asks for."""
    is_error = envelope.get("status") == "error"
    left_out = _LEFT_OUT.get(verb, _FACTS)
    kept: dict[str, Any] = {
        name: value
        for name, value in envelope.items()
        if name not in left_out and (value not in ("", None, [], {}) or name in _ALWAYS)
    }
    data = kept.get("data")
    if is_error and "details" in envelope and "hint" not in envelope:
        kept["details"] = envelope["details"]
    metadata = envelope.get("metadata")
    warnings = metadata.get("warnings") if isinstance(metadata, Mapping) else None
    if warnings and "warnings" not in kept:
        kept["warnings"] = warnings
    if isinstance(data, Mapping) and (data.get("success"), data.get("status")) == (True, "success"):
        kept["data"] = {name: value for name, value in data.items() if name != "status"}
    if isinstance(data, Mapping) and data.keys() >= {"tool", "content", "isError"}:
        kept["data"] = _of_server(data)
    if isinstance(data, Mapping) and "graph_run_id" in data:
        return _graph_run(data, kept)
    if is_error:
        return _failure_answer(kept) | _place_of(metadata)
    if kept.get("unchanged") is False:
        kept.pop("unchanged")
    if verb not in _OF_VERBS:
        return kept
    changed = _OF_VERBS[verb](envelope, kept, arguments or {})
    return {**kept, **changed}


# What some verbs say in another form.


def _of_server(data: Mapping[str, Any]) -> Any:  # noqa: ANN401 - JSON
    """The answer of another MCP server, once: its structure, its JSON, or its text and media."""
    blocks = data["content"] if isinstance(data["content"], list) else []
    media = [one for one in blocks if one.get("type") in _MEDIA]
    shown = {BLOCKS_KEY: media} if media else {}
    for name in ("structuredContent", "parsed"):
        if name in data:
            return {"result": data[name], **shown} if shown else data[name]
    others = [one for one in blocks if one not in media]
    texts = [str(one.get("text", "")) for one in others if one.get("type") == "text"]
    said = "\n".join(texts) if len(texts) == len(others) else others
    return {**({"content": said} if said else {}), **shown} if shown or said is others else said


_MEDIA = frozenset({"image", "audio", "resource_link"})


_SAID_IN_WORDS = ("argument", "closest", "expected", "valid", "error_type", "item_id")
_LISTS = ("details", "issues", "searched_in")
_SAID_ABOVE = frozenset({"success", "status", "error", "errors", "code", "hint", "node"})
"""Of the data of a failure what the envelope says too."""


def _failure_answer(kept: dict[str, Any]) -> dict[str, Any]:
    """A failure: its hint is at the top, and its data say nothing a second time."""
    data = kept.get("data")
    error = str(kept.get("error"))
    if isinstance(kept.get("thread_id"), str):
        kept["thread_id"] = short_thread_id(kept["thread_id"])
    for name in _SAID_IN_WORDS:  # by the error and its hint
        kept.pop(name, None)
    for name in _LISTS:
        listed = kept.get(name)
        if isinstance(listed, list) and all(isinstance(x, str) and x in error for x in listed):
            kept.pop(name)
    if isinstance(kept.get("path"), str) and kept["path"] in error:
        kept.pop("path")
    if isinstance(data, Mapping) and isinstance(data.get("hint"), str):
        kept.setdefault("hint", data["hint"])
    said = _SAID_ABOVE
    if str(kept.get("hint")).startswith("did you mean "):
        said |= {"suggestions", "searched_in"}
        kept.pop("suggestions", None)
        kept.pop("searched_in", None)
    if not isinstance(data, Mapping):
        return {name: value for name, value in kept.items() if name != "data" or value is not None}
    rest = {name: value for name, value in data.items() if name not in said}
    kept.pop("data")
    return {**kept, "data": rest} if rest else kept


_FRAME = re.compile(
    r'^  File "([^"\n]+)", line (\d+), in ([^\n]+)$(?:\n {4}([^\n]+))?', re.MULTILINE
)


def _place_of(metadata: object) -> dict[str, str]:
    """The last place in an item in the traceback of a failed program, before what that called."""
    stderr = metadata.get("stderr") if isinstance(metadata, Mapping) else None
    frames = _FRAME.findall(stderr[stderr.rfind(TRACEBACK) :]) if isinstance(stderr, str) else []
    own = [one for one in frames if f"/{AI_DIRECTORY}/" in one[0]]
    if not frames:
        return {}
    path, line, function, source = (own or frames)[-1]
    at = f"{path.rpartition('/')[2]}, line {line}, in {function}"
    return {"at": f"{at}: {source[:MAX_PREVIEW_CHARACTERS]}" if source else at}


def _graph_run(data: Mapping[str, Any], kept: dict[str, Any]) -> dict[str, Any]:
    """The run of a graph: its output, or where it failed and the call that resumes it."""
    run_id = short_thread_id(str(data["graph_run_id"]))
    state = data.get("state")
    seen = {
        name: value
        for name, value in (state if isinstance(state, Mapping) else {}).items()
        if name != "inputs" and not name.startswith("_")
    }
    seen = {name: _failures_in_short(value) for name, value in seen.items()}
    kept.pop("thread_id", None)
    if data.get("warnings"):
        kept["warnings"] = [*kept.get("warnings", ()), *data["warnings"]]
    if kept.get("status") != "error":
        is_whole = data.get("status") == "completed"
        noted = {} if is_whole else {"state": data.get("status"), "errors": data.get("errors")}
        return {**kept, "data": data.get("output", seen), **noted}
    kept.pop("data")
    node = data.get("node")
    if isinstance(node, str) and not str(kept.get("error")).startswith((node, f"node {node}")):
        kept["error"] = f"node {node}: {kept.get('error')}"
    graph = {"item_id": kept["item_id"]} if "item_id" in kept else {}
    resumed = {**graph, "resume_thread_id": run_id, "parameters": {"force": True}}
    call = {"name": "execute", "arguments": resumed}
    hint = {"hint": kept.pop("hint", _BEFORE_RESUMING)}
    return {**kept, **hint, **({"state": seen} if seen else {}), "next": [call]}


_BEFORE_RESUMING = "repair what failed, sign it, then resume: the run keeps its inputs"
"""With ``force``, which goes on although the graph itself was what was repaired."""


def _failures_in_short(value: object) -> object:
    """The value, each failed call in it as its error alone: what to do is said once, at the top."""
    if isinstance(value, list):
        return [_failures_in_short(one) for one in value]
    if isinstance(value, dict) and value.get("status") == "error" and "code" in value:
        return {"error": value.get("error")}
    return value


_Arguments = Mapping[str, Any]
_WAIT_S = 60
"""So long a call that asks for a run's answer may wait, instead of many that ask."""


def _execute_answer(_: Mapping[str, Any], kept: dict[str, Any], __: _Arguments) -> dict[str, Any]:
    if "content" in kept or "your_directions" in kept:  # the same text once more
        kept.pop("data", None)
        kept.pop("body", None)
    thread_id = kept.get("thread_id")
    if not isinstance(thread_id, str):
        return {}
    short = short_thread_id(thread_id)
    if kept.get("state") != "running":
        return {"thread_id": short}
    for name in ("item_id", "state"):  # the caller named the item in this call
        kept.pop(name, None)
    wanted: dict[str, Any] = {"item_id": short}
    if not is_short_thread_id(short):
        wanted = {"item_id": "rye/core/processes/status", "parameters": {"thread_id": short}}
    else:
        wanted["options"] = {"wait_s": _WAIT_S}
    cancel = {"item_id": "rye/core/processes/cancel", "parameters": {"thread_id": short}}
    next_calls = [{"name": "execute", "arguments": one} for one in (wanted, cancel)]
    return {"status": "running", "thread_id": short, "next": next_calls}


def _load_answer(
    envelope: Mapping[str, Any], kept: dict[str, Any], arguments: _Arguments, verb: str = "load"
) -> dict[str, Any]:
    """A tool is described; its text is sent on request. The order is that of the answer."""
    metadata = envelope.get("metadata")
    described = metadata if isinstance(metadata, Mapping) else {}
    is_tool = str(envelope.get("ref")).startswith("tool:")
    asks_for_text = arguments.get("text") or arguments.get("offset") or not is_tool
    content = kept.pop("content", None) if "content" in kept else None
    next_offset = kept.pop("next_offset", None)
    first: dict[str, Any] = {name: kept.pop(name) for name in ("status", "ref") if name in kept}
    shown = {**first, "description": described.get("description") or described.get("title") or ""}
    schema: dict[str, Any] = {
        name: kept.pop(name) for name in ("input_schema", "sandbox") if name in kept
    }
    if isinstance(schema.get("sandbox"), Mapping):
        schema["sandbox"] = _short_rights(schema["sandbox"])
    if not (asks_for_text and is_tool):  # else the text has it
        shown |= schema
        kept.pop("total_chars", None)
    rest = dict(kept)
    kept.clear()
    if not asks_for_text:
        return {**shown, **rest}
    if next_offset is not None:
        call = {"item_id": envelope.get("ref"), "text": True, "offset": next_offset}
        rest["next"] = [{"name": verb, "arguments": call}]
    return {**shown, **rest, "content": _SIGNATURE.sub(r"\1", str(content), count=1)}


_MAX_WRITES = 3


def _short_rights(rights: Mapping[str, Any]) -> dict[str, Any]:
    """Rights with the first of many folders: those of package managers are many."""
    writes = rights.get("write")
    if not isinstance(writes, list) or len(writes) <= _MAX_WRITES:
        return dict(rights)
    left = len(writes) - _MAX_WRITES
    return {**rights, "write": [*writes[:_MAX_WRITES], f"... and {left} more: verbose"]}


def _help_answer(
    envelope: Mapping[str, Any], kept: dict[str, Any], _: _Arguments
) -> dict[str, Any]:
    if envelope.get("topic") != "overview":  # a list of what there is has them in its text
        kept.pop("topics", None)
    requested = kept.pop("asked", None)
    return {"content": f"No topic {requested!r}.\n\n{kept['content']}"} if requested else {}


def _search_answer(
    envelope: Mapping[str, Any], kept: dict[str, Any], arguments: _Arguments, verb: str = "search"
) -> dict[str, Any]:
    hits = kept.get("results")
    if not isinstance(hits, Sequence):
        return {}
    skipped = kept.get("skipped_items")
    if isinstance(skipped, list):
        kept["skipped_items"] = [one["ref"] for one in skipped]
        kept["hint"] = "sign with the ref of a skipped item says what is wrong with it"
    words = {word.casefold() for word in _WORD.findall(str(envelope.get("query", "")))}
    is_unsure = "relaxed" in envelope
    shown = {"results": [_hit(one, words, is_unsure=is_unsure) for one in hits]}
    if "next_offset" in envelope:
        going_on = {**arguments, "offset": kept.pop("next_offset")}
        return {**shown, "next": [{"name": verb, "arguments": going_on}]}
    return shown


def _hit(hit: Mapping[str, Any], words: set[str], *, is_unsure: bool) -> dict[str, Any]:
    """A hit. The preview is for a word that its name and description do not contain."""
    shown = {"id": hit.get("id"), "kind": hit.get("type"), "description": hit.get("description")}
    if not shown["description"] and hit.get("title") != hit.get("name"):
        shown["description"] = hit.get("title")
    if is_unsure:
        shown["score"] = hit.get("score")
    if hit.get("signed") is False:
        shown |= {"signed": False}
    for name in ("integrity", "verified", "shadows", "shadowed_by", "bundle_id", "version"):
        if name in hit:
            shown[name] = hit[name]
    shown_text = f"{shown['id']} {shown['description']}".casefold()
    preview = str(hit.get("preview", ""))
    if any(word not in shown_text and word in preview.casefold() for word in words):
        shown["preview"] = preview[:MAX_PREVIEW_CHARACTERS]
    return {name: value for name, value in shown.items() if value not in (None, "")}


_OF_VERBS: Mapping[str, Callable[..., dict[str, Any]]] = {
    "execute": _execute_answer,
    "search": _search_answer,
    "load": _load_answer,
    "fetch": lambda envelope, kept, arguments: (
        _search_answer if "results" in kept else _load_answer
    )(envelope, kept, arguments, "fetch"),
    "help": _help_answer,
}


def text_of(structure: Mapping[str, Any]) -> str:
    """The same for clients that show their model text: the cause of an error first, then data."""
    rest = dict(structure)
    status = rest.pop("status", "")
    data = rest.get("data")
    if isinstance(data, dict) and str(data.get("stderr")).strip() == rest.get("error"):
        rest["data"] = {**data, "stderr": ""}  # the first line says it
    lines = _first_lines(rest, status)
    main = next((name for name in _MAIN if name in rest), "")
    if main:
        value = rest.pop(main)
        if main == "your_directions":
            lines.append("your_directions:")
        is_list = main == "results" and all("kind" in one for one in value)
        lines.append(_hit_lines(value) if is_list else _text_of_value(value))
    for name, value in rest.items():
        if name != "item_id" or not main:
            # The structure beside it has the value as it is.
            text = value if isinstance(value, str) else compact(value)
            shown = without_control_characters if isinstance(value, str) else escaped
            lines.append(f"{name}: {shown(text)}")
    return "\n".join(line for line in lines if line) or status


def _first_lines(rest: dict[str, Any], status: str) -> list[str]:
    """The part that a reader needs before anything else; it is taken out of ``rest``."""
    lines: list[str] = []
    if "truncated" in rest:
        size = rest["truncated"].get("bytes") if isinstance(rest["truncated"], dict) else "?"
        call = compact(rest.pop("next", [])[:1])
        rest.pop("truncated")
        lines.append(f"[cut: {size} bytes in all; read on with {call[1:-1]}]")
    if "error" in rest:
        code, error = rest.pop("code", status), str(rest.pop("error"))
        lines.append(f"{code}: {without_control_characters(error)}")
        if "hint" in rest:
            lines.append(f"hint: {rest.pop('hint')}")
    elif status != "success":
        lines.append(f"status: {status}")
    tried = rest.pop("tried", None)
    if isinstance(tried, Mapping):
        lines.append(f"tried: {text_of(tried)}")
    if "results" in rest and "warnings" in rest:  # they say what was searched for instead
        lines.append(f"warnings: {compact(rest.pop('warnings'))}")
    return lines


def _text_of_value(value: object) -> str:
    """A value as a tool said it: text as it is, the streams of a program, else compact JSON.

    The text of a file stands below what is said of it: as JSON each of its lines costs more.
    """
    if isinstance(value, str):
        return value
    if isinstance(value, dict) and _is_text_of_file(value):
        told = {n: v for n, v in value.items() if n not in {"success", "content"}}
        return f"{escaped(compact(told))}\n{value['content']}" if told else str(value["content"])
    if isinstance(value, dict) and value.keys() == _STREAMS:
        code = value["return_code"]
        parts = [] if code == 0 else [f"return_code {code}"]
        parts += [str(value["stdout"])] if value["stdout"] else []
        parts += [f"stderr:\n{value['stderr']}"] if value["stderr"] else []
        return "\n".join(parts)
    return escaped(compact(value))


def _is_text_of_file(value: Mapping[str, Any]) -> bool:
    content = value.get("content")
    return value.get("success") is True and isinstance(content, str) and "\n" in content


def _hit_lines(hits: Sequence[Mapping[str, Any]]) -> str:
    """Hits, a line each."""
    return "\n".join(_line(hit) for hit in hits)


def _line(hit: Mapping[str, Any]) -> str:
    rest = {n: v for n, v in hit.items() if n not in {"id", "kind", "description", "preview"}}
    about = " ".join(str(hit[name]) for name in ("description", "preview") if name in hit)
    marks = f" {compact(rest)}" if rest else ""
    return f"{hit['kind']}:{hit['id']} - {about}{marks}"
