import json
import os

import pytest

from ryeos.items.errors import UsageError
from ryeos.mcp.refusal import answer_first_request

ERROR = UsageError("--tools: expected five, found nine", hint="leave it out")


def answered(sent: bytes) -> bytes:
    """The output for these bytes, up to its end."""
    (reader, theirs), (ours, writer) = os.pipe(), os.pipe()
    os.write(theirs, sent)
    os.close(theirs)
    answer_first_request(ERROR, reader, writer)
    os.close(writer)
    with os.fdopen(reader, "rb"), os.fdopen(ours, "rb") as output:
        return output.read()


def test_the_first_request_is_answered_with_the_reason_why_there_is_no_server() -> None:
    reply = answered(
        b'{"jsonrpc":"2.0","method":"n"}\nnoise\n{"jsonrpc":"2.0","id":"a","method":"initialize"}\n'
    )

    assert json.loads(reply) == {
        "jsonrpc": "2.0",
        "id": "a",
        "error": {
            "code": -32603,
            "message": "--tools: expected five, found nine",
            "data": {"code": "INVALID_PARAMS", "hint": "leave it out"},
        },
    }


@pytest.mark.parametrize("sent", [b"", b"noise\n", b'{"jsonrpc":"2.0","method":"n"}\n'])
def test_without_a_request_no_answer_is_sent(sent: bytes) -> None:
    assert answered(sent) == b""


def test_a_client_that_is_gone_causes_no_error() -> None:
    (reader, theirs), (ours, writer) = os.pipe(), os.pipe()
    os.write(theirs, b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
    os.close(theirs)
    os.close(ours)

    answer_first_request(ERROR, reader, writer)

    os.close(reader)
    os.close(writer)
