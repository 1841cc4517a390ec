from pathlib import Path

import pytest

from ryeos.items.errors import UsageError
from ryeos.items.rights import Rights
from ryeos.run.model import ExecutionRequest
from ryeos.run.threads.payload import Payload, parse_payload
from ryeos.run.threads.place import ThreadsPlace


def test_a_runner_reads_the_payload_of_its_starter() -> None:
    parameters = {"text": "ä\udcff", "n": [1, None]}
    request = ExecutionRequest(
        item_id="mine/x",
        parameters=parameters,
        timeout_s=3.0,
        use_lockfile=False,
        caller={"kind": "mcp", "client": "x"},
        callers=(Rights(network=(), write=("/p/a*b",)), Rights()),
    )

    read = parse_payload(Payload("x-1", "tool:mine/x", ThreadsPlace(Path("/p")), request).dump())

    assert (read.thread_id, read.item_id, read.place.ai) == ("x-1", "tool:mine/x", Path("/p"))
    assert (read.request.item_id, read.request.parameters) == ("mine/x", parameters)
    assert (read.request.timeout_s, read.request.use_lockfile) == (3.0, False)
    assert (read.request.caller, read.request.callers) == (request.caller, request.callers)
    assert read.request.extra_env == {"RYE_PARENT_THREAD_ID": "x-1"}


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b"\xff"])
def test_any_other_data_is_refused(data: bytes) -> None:
    with pytest.raises(UsageError) as error:
        parse_payload(data)

    assert str(error.value) == "standard input: expected the payload of a thread"
