// A server over standard input and output, without a library; `hours.py` is the same in Python.
import { createInterface } from "node:readline";

const TOOLS = [
  {
    name: "after_noon",
    description: "Whether an hour is after noon",
    inputSchema: { type: "object", properties: { hour: { type: "integer" } } },
    annotations: { readOnlyHint: true },
  },
];
for await (const line of createInterface({ input: process.stdin })) {
  const message = JSON.parse(line);
  if (message.id === undefined) continue;
  const answer = { jsonrpc: "2.0", id: message.id };
  if (message.method === "initialize") {
    const serverInfo = { name: "hours", version: "1" };
    const { protocolVersion } = message.params;
    answer.result = { protocolVersion, capabilities: { tools: {} }, serverInfo };
  } else if (message.method === "tools/list") {
    answer.result = { tools: TOOLS };
  } else if (message.method === "tools/call") {
    const text = JSON.stringify(message.params.arguments.hour >= 12);
    answer.result = { content: [{ type: "text", text }] };
  } else {
    answer.error = { code: -32601, message: "unknown method" };
  }
  console.log(JSON.stringify(answer));
}
