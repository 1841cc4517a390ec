"""One background run: its state, its result or what it has written so far.

Page: ``docs/running.md``.
"""

from rye_command import run_rye, seconds_of

__version__ = "1.1.0"
__tool_type__ = "python"
__executor_id__ = "rye/core/runtimes/python/function"
__category__ = "rye/core/processes"
__tool_description__ = "What became of a background run: state, result, the end of its log"
__tags__ = ["status", "wait", "result", "output", "run", "job"]

ENV_CONFIG = {"env": {"PYTHONPATH": "{runtime_lib}"}}
# It starts Rye, which enforces its own rules: under an agent no key is readable.
SANDBOX = {"read": "any", "write": "any", "network": "none", "programs": "any", "env": "any"}
CONFIG_SCHEMA = {
    "type": "object",
    "required": ["thread_id"],
    "additionalProperties": False,
    "properties": {
        "thread_id": {
            "type": "string",
            "minLength": 1,
            "description": "Its id, like run-d150, or as much of the beginning or end as is needed",
        },
        "wait_s": {
            "type": "number",
            "minimum": 0,
            "maximum": 600,
            "default": 0,
            "description": "Wait so many seconds for its end",
        },
        "log_chars": {
            "type": "integer",
            "minimum": 0,
            "maximum": 100000,
            "default": 2000,
            "description": "So much of the end of its log, while it runs or where it failed",
        },
    },
    "examples": [{"thread_id": "run-d150", "wait_s": 30}],
}
STREAMS = {"stdout", "stderr", "return_code"}


def execute(params: dict, project_path: str) -> dict:
    """`state`, `seconds`, `return_code` with `stdout` or `data`; `error`, or `log`."""
    wanted = [params["thread_id"]]
    if params["wait_s"]:  # how that ends is what `show` says
        run_rye(["threads", "wait", f"--timeout={params['wait_s']}"], wanted, project=project_path)
    shown = run_rye(["threads", "show"], wanted, project=project_path)
    if not shown["success"]:
        return shown
    thread, result = shown["thread"], shown.get("result") or {}
    told = {
        "thread_id": wanted[0],
        "item_id": thread.get("item_id"),
        "state": thread.get("state") or thread["status"],
        "seconds": seconds_of(thread),
        **outcome(result.get("data")),
        **words_of_model(result),
    }
    if thread.get("error"):
        told["error"] = thread["error"]
    if params["log_chars"] and not result.get("data") and not result.get("text"):
        written = run_rye(["threads", "logs"], wanted, project=project_path)
        text = written.get("log", "")
        told["log"] = text[-params["log_chars"] :]
        if len(text) > params["log_chars"] or written.get("truncated"):
            told["truncated"] = True
    # A failed run is no failure of this tool.
    return {"success": True, **{name: value for name, value in told.items() if value is not None}}


def words_of_model(result: dict) -> dict:
    """What a directive answered that a model carried out; nothing of any other run."""
    if result.get("type") != "thread":
        return {}
    return {name: result[name] for name in ("text", "outputs", "code", "usage") if result.get(name)}


def outcome(data: object) -> dict:
    """The data of a run: the streams of a program side by side."""
    if isinstance(data, dict) and data.keys() == STREAMS:
        streams = {name: data[name] for name in ("stdout", "stderr") if data[name]}
        return {"return_code": data["return_code"], **streams}
    return {} if data is None else {"data": data}
