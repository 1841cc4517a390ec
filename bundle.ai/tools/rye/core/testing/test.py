"""Run the cases that stand beside tools in NAME.test.yaml. Page: ``docs/writing-tools.md``."""

from rye_command import flags, option, run_rye

__version__ = "1.0.0"
__tool_type__ = "python"
__executor_id__ = "rye/core/runtimes/python/function"
__category__ = "rye/core/testing"
__tool_description__ = "Run the test cases that are declared beside tools, or list them"
__tags__ = ["run", "tests", "test", "cases"]

ENV_CONFIG = {"env": {"PYTHONPATH": "{runtime_lib}"}}
# It starts Rye, which enforces its own rules: under an agent no key is readable.
SANDBOX = {"read": "any", "write": "any", "network": "any", "programs": "any", "env": "any"}
CONFIG_SCHEMA = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "items": {
            "type": "array",
            "items": {"type": "string", "minLength": 1},
            "maxItems": 100,
            "description": "Tools, or patterns like shop/**; all of the project without it",
        },
        "containing": {"type": "string", "description": "Only cases with this in id or name"},
        "list": {"type": "boolean", "description": "Say which cases there are, run none"},
    },
    "examples": [{"items": ["rye/core/lock/lock"]}],
}
CONFIG = {"timeout": 1800}
MAX_SHOWN = 100


def execute(params: dict, project_path: str) -> dict:
    """The cases that have not passed, all counts, and ``success``."""
    words = ["test", *flags(params, "list"), *option(params, "containing")]
    answer = run_rye(words, params.get("items", []), project=project_path)
    cases = answer.get("cases", [])
    shown = [case for case in cases if case.get("state") != "passed"]
    answer["cases"] = shown[:MAX_SHOWN]
    if len(shown) > MAX_SHOWN:
        answer |= {"truncated": True, "hint": "name fewer items, or say what containing is"}
    return answer
