"""The payload that a runner gets on standard input: which thread it is, and what to run."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lillux.values import dataclass
from ryeos.items.errors import UsageError
from ryeos.items.rights import rights_as_json, rights_of_json
from ryeos.run.model import ExecutionRequest, ThreadRequest
from ryeos.run.threads.place import ThreadsPlace

PARENT_VARIABLE = "RYE_PARENT_THREAD_ID"
LOCAL, INLINE, FORK = "local", "inline", "fork"


@dataclass(frozen=True, slots=True)
class Payload:
    """A run to be carried out. ``item_id`` is a canonical reference, like ``tool:mine/hello``."""

    thread_id: str
    item_id: str
    place: ThreadsPlace
    request: ExecutionRequest

    def dump(self) -> bytes:
        """The payload as JSON."""
        request = self.request
        document = {
            "thread_id": self.thread_id,
            "item_id": self.item_id,
            "parameters": request.parameters,
            "target": LOCAL,
            "thread": INLINE if request.thread is None else FORK,
            "model": request.thread.model if request.thread else "",
            "limits": dict(request.thread.limits) if request.thread else {},
            "space": str(self.place.ai),
            "within": str(self.place.within) if self.place.within else None,
            "timeout_s": request.timeout_s,
            "at_most_s": request.at_most_s,
            "env": dict(request.extra_env),
            "trace": request.trace,
            "use_lockfile": request.use_lockfile,
            "cwd": request.cwd,
            "caller": dict(request.caller),
            "known_texts": dict(request.known_texts),
            "callers": [rights_as_json(one) for one in request.callers],
        }
        return json.dumps(document).encode()


def parse_payload(data: bytes) -> Payload:
    """The payload that `Payload.dump` wrote. Raises UsageError for anything else."""
    try:
        document: dict[str, Any] = json.loads(data)
        thread_id, item_id = str(document["thread_id"]), str(document["item_id"])
        request = ExecutionRequest(
            item_id=item_id.partition(":")[2],
            parameters=document["parameters"],
            timeout_s=document["timeout_s"],
            at_most_s=document.get("at_most_s"),
            trace=document["trace"],
            use_lockfile=document["use_lockfile"],
            cwd=document.get("cwd"),
            caller=dict(document.get("caller") or {}),
            known_texts=dict(document.get("known_texts") or {}),
            callers=tuple(map(rights_of_json, document.get("callers") or ())),
            in_background=True,
            thread=_thread_request(document) if document.get("thread") == FORK else None,
            run_id=thread_id,
            extra_env={**document.get("env", {}), PARENT_VARIABLE: thread_id},
        )
        within = document.get("within")
        place = ThreadsPlace(Path(document["space"]), Path(within) if within else None)
        return Payload(thread_id, item_id, place, request)
    except (ValueError, KeyError, TypeError) as error:
        hint = "this command is for rye itself; start a background run with: rye run REF --async"
        raise UsageError("standard input: expected the payload of a thread", hint=hint) from error


def _thread_request(said: Mapping[str, Any]) -> ThreadRequest:
    """The thread that carries out a directive. Raises KeyError, TypeError."""
    return ThreadRequest(model=str(said.get("model", "")), limits=dict(said.get("limits") or {}))
