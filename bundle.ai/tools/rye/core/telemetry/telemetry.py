"""What runs were like: how many, how long, how they ended. Reads, and changes nothing.

Page: ``docs/running.md``.
"""

from collections import Counter
from datetime import datetime, timedelta, timezone

from rye_command import run_rye

__version__ = "1.0.0"
__tool_type__ = "python"
__executor_id__ = "rye/core/runtimes/python/function"
__category__ = "rye/core/telemetry"
__tool_description__ = "Count background runs and runs of graphs: ends, durations, failures"

ENV_CONFIG = {"env": {"PYTHONPATH": "{runtime_lib}"}}
# It starts Rye, which enforces its own rules: under an agent no key is readable.
SANDBOX = {"read": "any", "write": "any", "network": "none", "programs": "any", "env": "any"}
CONFIG_SCHEMA = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "days": {
            "type": "number",
            "exclusiveMinimum": 0,
            "maximum": 3650,
            "default": 7,
            "description": "Runs that began in so many days before now",
        },
        "item": {
            "type": "string",
            "description": "Runs of this item, or of those whose id begins so",
        },
        "failures": {
            "type": "integer",
            "minimum": 0,
            "maximum": 100,
            "default": 5,
            "description": "So many of the latest failures, with their errors",
        },
    },
    "examples": [{"days": 30}],
}
FAILED = ("error", "killed", "cancelled", "completed_with_errors")
MAX_ITEMS, SHOWN_ERROR, MEDIAN, SLOW = 100, 300, 0.5, 0.95


def execute(params: dict, project_path: str) -> dict:
    """``total``, ``by_status``, ``by_day``, ``items`` (the most runs first) and ``failures``."""
    answer = run_rye(["threads", "list", "--all"], project=project_path)
    if not answer["success"]:
        return answer
    since = datetime.now(timezone.utc) - timedelta(days=params["days"])  # noqa: UP017 - Python 3.8
    runs = [run for run in map(read, answer["threads"]) if run["began"] and run["began"] >= since]
    if params.get("item"):
        wanted = params["item"].rpartition(":")[2]
        runs = [run for run in runs if run["item"].startswith(wanted)]
    items = [described(name, runs) for name, _ in Counter(r["item"] for r in runs).most_common()]
    failed = [run for run in runs if run["status"] in FAILED][: params["failures"]]
    return {
        "success": True,
        "since": since.isoformat(timespec="seconds"),
        "total": len(runs),
        "by_status": dict(Counter(run["status"] for run in runs)),
        "by_day": dict(sorted(Counter(run["began"].date().isoformat() for run in runs).items())),
        "items": items[:MAX_ITEMS],
        "failures": [
            {name: run[name] for name in ("thread_id", "item", "status", "error")} for run in failed
        ],
        **({"truncated": True} if len(items) > MAX_ITEMS else {}),
    }


def read(row: dict) -> dict:
    """A row of the registry, with times as such; None where nothing was written."""
    began, ended = moment(row.get("created_at")), moment(row.get("completed_at"))
    return {
        "thread_id": row.get("thread_id", ""),
        "item": row.get("tool_id") or row.get("directive") or "",
        "status": row.get("status", ""),
        "error": str(row.get("error") or "")[:SHOWN_ERROR],
        "began": began,
        "seconds": (ended - began).total_seconds() if began and ended else None,
    }


def moment(text: object) -> "datetime | None":
    """A time with its zone; None for anything else."""
    try:
        found = datetime.fromisoformat(str(text))
    except ValueError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=timezone.utc)  # noqa: UP017


def described(item: str, runs: list) -> dict:
    """The runs of one item in numbers."""
    own = [run for run in runs if run["item"] == item]
    taken = sorted(run["seconds"] for run in own if run["seconds"] is not None)
    numbers = {"item": item, "runs": len(own)}
    numbers["failed"] = sum(run["status"] in FAILED for run in own)
    if taken:
        numbers["seconds"] = {
            "median": share(taken, MEDIAN),
            "p95": share(taken, SLOW),
            "longest": round(taken[-1], 3),
        }
    return numbers


def share(taken: list, part: float) -> float:
    """The value that this part of the sorted values does not exceed."""
    return round(taken[min(int(part * len(taken)), len(taken) - 1)], 3)
