// node --import: gives `fs` the name globSync, which Node before 22 lacks and a package imports.
import * as fs from "node:fs";
import { register } from "node:module";
import { isMainThread } from "node:worker_threads";

const url = "rye:fs";
const source = `
  export * from "node:fs";
  export { default } from "node:fs";
  export const globSync = () => { throw new Error("this Node has no fs.globSync"); };
`;

if (isMainThread && !("globSync" in fs)) register(import.meta.url);

export async function resolve(specifier, context, next) {
  return specifier === "fs" ? { url, shortCircuit: true } : next(specifier, context);
}

export async function load(wanted, context, next) {
  return wanted === url ? { format: "module", source, shortCircuit: true } : next(wanted, context);
}
