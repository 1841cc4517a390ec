/**
 * Starts a tool: `node start.cjs TOOL [--params JSON] --project-path DIR`, parameters on stdin.
 *
 * A tool that starts by itself runs as if Node.js had been given its file. One that only exports
 * execute(params, projectPath) is called, and what it gives is written to stdout as JSON.
 *
 * @version 1.0.0
 * @tool_type library
 * @category rye/core/runtimes/node/lib/node
 * @description Starts JavaScript and TypeScript tools
 */
"use strict";

const fs = require("node:fs");
const Module = require("node:module");
const { inspect } = require("node:util");
const { pathToFileURL } = require("node:url");
const guard = require("./guard.cjs");

const STRIP_TYPES = "--experimental-strip-types";
const EXPORTS_EXECUTE = new RegExp(
  [
    String.raw`\bexports\s*\.\s*execute\s*=`,
    String.raw`\bexports\s*=\s*(?:(?:async\s+)?(?:function\s+)?execute\b|\{[^}]*\bexecute\b)`,
    String.raw`\bexport\s+(?:default\s+)?(?:async\s+)?(?:(?:function|const|let|var)\s+)?execute\b`,
    String.raw`\bexport\s+(?:default\s+)?\{[^}]*\bexecute\b`,
  ].join("|"),
);
// A tool that does any of this reads its parameters itself.
const STARTS_ITSELF = new RegExp(
  [
    String.raw`\brequire\s*\.\s*main\b`,
    String.raw`\bimport\.meta\.main\b`,
    String.raw`\bimport\.meta\.url\s*===?|===?\s*import\.meta\.url\b`,
    String.raw`\bparseArgs\b|\breadFileSync\(\s*0\b|/dev/stdin\b`,
    String.raw`\bprocess\s*\.\s*(?:argv|stdin)\b`,
    String.raw`\{[^}]*\b(?:argv|stdin)\b[^}]*\}\s*(?:from|=\s*require\()\s*["'](?:node:)?process["']`,
  ].join("|"),
);
// Enough to look at code: what a comment says about argv starts nothing.
const COMMENT = /\/\*[^]*?\*\/|(?<![:"'`\\])\/\/[^\n]*/g;

function main() {
  const tool = process.argv[2];
  if (needsTypesStripped(tool)) return startedAgain();
  process.argv.splice(1, 1); // the tool stands where it would without us
  const anchor = process.env.RYE_NODE_ANCHOR || "";
  const packages = process.env.RYE_NODE_PACKAGES || "";
  delete process.env.RYE_NODE_ANCHOR;
  delete process.env.RYE_NODE_PACKAGES;
  const copies = process.env.RYE_NODE_COPIES || "";
  delete process.env.RYE_NODE_COPIES;
  guard.install(guard.makeRules(tool, anchor, packages, copies));
  const bytes = fs.readFileSync(tool);
  if (isAnother(bytes)) throw new Error(`${tool}: changed between its verification and its start`);
  const source = bytes.toString("utf8").replace(COMMENT, " ");
  if (EXPORTS_EXECUTE.test(source) && !STARTS_ITSELF.test(source)) return call(tool);
  return Module.runMain();
}

/** Whether these are not the bytes that were verified. */
function isAnother(bytes) {
  const expected = process.env.RYE_TOOL_SHA256 || "";
  delete process.env.RYE_TOOL_SHA256;
  const { createHash } = require("node:crypto");
  return expected !== "" && createHash("sha256").update(bytes).digest("hex") !== expected;
}

/** Whether neither tsx nor this Node.js itself reads TypeScript, and the tool is in it. */
function needsTypesStripped(tool) {
  return tool.endsWith(".ts") && !process.features.typescript && !Module._extensions[".ts"];
}

/** The same once more, with the option that some versions of Node.js want for TypeScript. */
function startedAgain() {
  const can = process.allowedNodeEnvironmentFlags.has(STRIP_TYPES);
  if (!can || process.execArgv.includes(STRIP_TYPES)) {
    const found = `found Node.js ${process.version} and no tsx`;
    const way = "npm install tsx beside the tool, or in the project";
    const error = `TypeScript needs tsx, or Node.js 22.6 or newer; ${found} (${way})`;
    process.stdout.write(`${JSON.stringify({ success: false, error, error_type: "TypeScript" })}\n`);
    process.exitCode = 1;
    return;
  }
  const options = [...process.execArgv, STRIP_TYPES, "--disable-warning=ExperimentalWarning"];
  const { spawnSync } = require("node:child_process");
  const ended = spawnSync(process.execPath, [...options, ...process.argv.slice(1)], {
    stdio: "inherit",
  });
  if (ended.error) throw ended.error;
  if (ended.signal) process.kill(process.pid, ended.signal);
  process.exitCode = ended.status ?? 1;
}

/** Call execute() of a module. What the tool itself prints goes to stderr. */
async function call(tool) {
  const answer = takeStdout();
  const fail = (error) => {
    process.stderr.write(`${error?.stack ?? inspect(error)}\n`);
    answer(described(error), 1);
  };
  process.on("uncaughtException", fail);
  process.on("unhandledRejection", fail);
  process.once("beforeExit", () => fail(new Error("execute() waits for something that never comes")));
  process.on("exit", (status) => answer.missing(status));
  try {
    const execute = exported(await import(pathToFileURL(tool).href));
    const given = await execute(parameters(), projectPath());
    answer(given ?? {}, 0);
  } catch (error) {
    fail(error);
  }
}

/** The function that writes the one answer and ends the process; stdout belongs to it alone. */
function takeStdout() {
  const write = process.stdout.write.bind(process.stdout);
  process.stdout.write = process.stderr.write.bind(process.stderr);
  let isAnswered = false;
  const answer = (value, status) => {
    if (isAnswered) return;
    const text = JSON.stringify(value, (_, held) => (typeof held === "bigint" ? `${held}` : held));
    isAnswered = true;
    write(`${text ?? "{}"}\n`, () => process.stderr.write("", () => process.exit(status)));
  };
  answer.missing = (status) => {
    if (isAnswered) return;
    const error = `process.exit(${status}) was called before there was a result`;
    fs.writeSync(1, `${JSON.stringify({ success: false, error, error_type: "Exit" })}\n`);
  };
  return answer;
}

function exported(module) {
  const places = [module.execute, module.default?.execute, module.default];
  const found = places.find((place) => typeof place === "function");
  if (!found) throw new TypeError("the tool exports no function execute(params, projectPath)");
  return found;
}

function parameters() {
  return JSON.parse(fs.readFileSync(0, "utf8") || "{}");
}

function projectPath() {
  return process.argv[process.argv.lastIndexOf("--project-path") + 1];
}

function described(error) {
  if (typeof error?.message !== "string") {
    return { success: false, error: inspect(error), error_type: typeof error };
  }
  const type = `${error.name || "Error"}`;
  return { success: false, error: `${type}: ${error.message}`, error_type: type };
}

main();
