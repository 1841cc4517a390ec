// A client on the official TypeScript SDK, which tries out what a Rye server is for.
//
// node mcp_client.mjs PACKAGES EDITION MODE COMMAND...: PACKAGES is the folder of node_modules,
// EDITION v1 or v2, MODE one of v2 (v1 has none). Prints what mcp_python_client.py prints.
import { writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";
import { pathToFileURL } from "node:url";

const [packages, edition, mode, command, ...args] = process.argv.slice(2);
const BASH = "rye/bash/bash";
const HALF = `echo '::rye-progress {"progress": 1, "total": 2, "message": "half"}' >&2`;
const WHOLE = `echo '::rye-progress {"progress": 2, "total": 2}' >&2`;
const ANY_CALL_MS = 60000;

const require = createRequire(path.join(packages, "index.js"));
const load = async (name) => await import(pathToFileURL(require.resolve(name)));
const names =
  edition === "v1"
    ? ["@modelcontextprotocol/sdk/client/index.js", "@modelcontextprotocol/sdk/client/stdio.js"]
    : ["@modelcontextprotocol/client", "@modelcontextprotocol/client/stdio"];
const [{ Client }, { StdioClientTransport }] = await Promise.all(names.map(load));

const negotiation = mode === "legacy" || mode === "auto" ? mode : { pin: mode };
const options = edition === "v1" ? {} : { versionNegotiation: { mode: negotiation } };
const client = new Client({ name: "rye-tests", version: "1.0.0" }, options);
await client.connect(
  new StdioClientTransport({ command, args, env: process.env, stderr: "inherit" }),
);

function call(name, given, settings = {}) {
  const params = { name, arguments: given };
  const all = { timeout: ANY_CALL_MS, ...settings };
  return edition === "v1" ? client.callTool(params, undefined, all) : client.callTool(params, all);
}
const bash = (text, settings) =>
  call("execute", { item_id: BASH, parameters: { command: text } }, settings);
const output = (result) => result.structuredContent.data.stdout.trim();

// The first progress that is reported; the tool waits until it has been received.
async function firstProgress() {
  const heard = path.resolve("heard");
  const reported = [];
  const onprogress = ({ progress }) => {
    reported.push(progress);
    writeFileSync(heard, "");
  };
  await bash(`${HALF}; until [ -e "${heard}" ]; do sleep 0.05; done; ${WHOLE}`, { onprogress });
  return reported[0];
}

async function cancelled() {
  const file = path.resolve("pid");
  const controller = new AbortController();
  const settings = { signal: controller.signal, onprogress: () => controller.abort() };
  await bash(`echo "$$" > "${file}"; ${HALF}; exec sleep 600`, settings).catch(() => {});
  const untilGone = 'while kill -0 "$pid" 2> /dev/null; do sleep 0.05; done; echo gone';
  return output(await bash(`read -r pid < "${file}"; ${untilGone}`));
}

// In this order: the second edition checks results by schemas that it knows from the list.
const listed = (await client.listTools()).tools.map((tool) => tool.name);
const found = await call("search", { query: "bash", scope: "tool" });
const succeeded = await bash("echo hello");
const failed = await bash("exit 3");
const refused = await call("load", { item_type: "tool", item_id: "no/such" });
const report = {
  tools: listed,
  found: JSON.stringify(found.structuredContent).includes(BASH),
  succeeded: [succeeded.isError ?? false, output(succeeded)],
  failed: [failed.isError, failed.structuredContent.status],
  refused: [refused.isError, refused.structuredContent.code],
  unknown: await call("no_such_tool", {}).then(
    () => 0,
    (error) => error.code,
  ),
  progress: await firstProgress(),
  cancelled: await cancelled(),
};
await client.close();
console.log(JSON.stringify(report));
