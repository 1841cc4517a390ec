"""The refused accesses of a run as its receipt has them: what was heard, and what was not.

A file of its own: receipts are imported by what the hints of `ryeos.run.refusals` are made from.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lillux.attempts import MAX_REFUSED, UNHEARD

if TYPE_CHECKING:
    from lillux.attempts import Attempt, Attempts
    from lillux.sandbox import Confinement

_WATCHED = ("read", "write", "run")
_MAX_TARGET = 1000


def refusals_of_receipt(
    attempts: "Attempts", confinement: "Confinement | None", known: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """The fields of a receipt about refused accesses, of a run that succeeded or failed.

    ``known`` are those that its result shows. Page: ``docs/rights.md``.
    """
    heard, unheard = confinement.heard_refusals() if confinement else ((), ())
    if any(one.what == UNHEARD for one in attempts):
        heard, unheard = (), (*heard, *unheard)
    if not attempts.is_complete:  # of accesses that are only watched there were too many
        lost = [kind for kind in heard if kind in _WATCHED]
        heard, unheard = tuple(k for k in heard if k not in lost), (*lost, *unheard)
    shown = {(one["what"], one["target"]) for one in known}
    refused = [dict(one) for one in known]
    for attempt in _refused_attempts(attempts, confinement):
        if (attempt.what, attempt.target) in shown:
            continue
        shown.add((attempt.what, attempt.target))
        more = {"shared": True} if attempt.is_shared else {}
        refused.append({"what": attempt.what, "target": _cut(attempt.target), **more})
    said: dict[str, Any] = {"refused": refused[:MAX_REFUSED]} if refused else {}
    if attempts.refused_count > len(refused):
        said["refusedCount"] = attempts.refused_count
    return {**said, "refusalsObserved": list(heard), "refusalsNotObserved": list(unheard)}


def _refused_attempts(
    attempts: "Attempts", confinement: "Confinement | None"
) -> Iterator["Attempt"]:
    watching = confinement if confinement and confinement.watches else None
    for attempt in attempts:
        if attempt.was_refused:
            yield attempt
        elif watching is None or attempt.what not in _WATCHED:
            continue
        elif is_there(attempt) and not watching.allows(attempt.what, attempt.target):
            yield attempt


def _cut(target: str) -> str:
    return target if len(target) <= _MAX_TARGET else f"{target[:_MAX_TARGET]}..."


def is_there(attempt: "Attempt") -> bool:
    """True if the target exists: programs look for many files that do not."""
    target = Path(attempt.target)
    if attempt.target == "/dev/tty":  # shells and git look whether there is a terminal
        return False
    if attempt.what == "write":
        return target.parent.is_dir()
    return target.exists() and not target.is_dir()
