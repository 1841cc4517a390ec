"""Tools of the bundle, called like an agent does: by the built file, parameters in JSON."""

import json
from typing import Any

from tests.support.built import Machine


def rye(machine: Machine, *words: str, **environ: str) -> dict[str, Any]:
    """The answer of a command as one document; ``exit_status`` is added."""
    ended = machine.run(*words, "--json", environ=machine.environ(**environ))
    envelope: dict[str, Any] = json.loads(ended.stdout)
    return {**envelope, "exit_status": ended.returncode}


def call(machine: Machine, item_id: str, /, **params: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
    """The answer of a tool. Fails the test where its success and the run's are not the same."""
    envelope = rye(machine, "run", item_id, "--params", json.dumps(params))
    data: dict[str, Any] = envelope["data"]
    assert (envelope["status"] == "success") is data["success"], envelope
    return data


def refused(machine: Machine, item_id: str, /, **params: Any) -> str:  # noqa: ANN401 - JSON
    """The reason why parameters were refused before the tool started."""
    envelope = rye(machine, "run", item_id, "--params", json.dumps(params))
    assert (envelope["code"], envelope["exit_status"]) == ("VALIDATION_FAILED", 6), envelope
    return str(envelope["error"])


def example(machine: Machine, item_id: str) -> dict[str, Any]:
    """The parameters that the tool itself gives as an example."""
    given: dict[str, Any] = rye(machine, "load", item_id)["input_schema"]["examples"][0]
    return given
