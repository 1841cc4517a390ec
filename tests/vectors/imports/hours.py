"""A server over standard input and output, without a library; `hours.mjs` is the same in Node."""

import json
import sys

TOOLS = [
    {
        "name": "after_noon",
        "description": "Whether an hour is after noon",
        "inputSchema": {"type": "object", "properties": {"hour": {"type": "integer"}}},
        "annotations": {"readOnlyHint": True},
    }
]
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    answer = {"jsonrpc": "2.0", "id": message["id"]}
    if message["method"] == "initialize":
        version = message["params"]["protocolVersion"]
        info = {"name": "hours", "version": "1"}
        answer["result"] = {
            "protocolVersion": version,
            "capabilities": {"tools": {}},
            "serverInfo": info,
        }
    elif message["method"] == "tools/list":
        answer["result"] = {"tools": TOOLS}
    elif message["method"] == "tools/call":
        text = json.dumps(message["params"]["arguments"]["hour"] >= 12)
        answer["result"] = {"content": [{"type": "text", "text": text}]}
    else:
        answer["error"] = {"code": -32601, "message": "unknown method"}
    print(json.dumps(answer), flush=True)
