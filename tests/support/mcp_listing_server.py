"""An MCP server over standard input and output whose list of tools is a file of JSON.

Its first argument is that file: ``{"tools": [...]}``, read at each request.
"""

import json
import sys
from pathlib import Path
from typing import Any


def answer(message: dict[str, Any]) -> dict[str, Any]:
    method = message["method"]
    if method == "initialize":
        info = {"name": "listing", "version": "1"}
        version = message["params"]["protocolVersion"]
        return {
            "result": {
                "protocolVersion": version,
                "capabilities": {"tools": {}},
                "serverInfo": info,
            }
        }
    if method == "tools/list":
        return {"result": json.loads(Path(sys.argv[1]).read_text("utf-8"))}
    if method == "tools/call":
        text = json.dumps(message["params"]["name"])
        return {"result": {"content": [{"type": "text", "text": text}]}}
    return {"error": {"code": -32601, "message": "unknown method"}}


for line in sys.stdin:
    received = json.loads(line)
    if "id" in received:
        reply = {"jsonrpc": "2.0", "id": received["id"], **answer(received)}
        sys.stdout.write(json.dumps(reply) + "\n")
        sys.stdout.flush()
