/**
 * The guard for `import` where Node.js has no hooks in the thread of the tool itself.
 *
 * @version 1.0.0
 * @tool_type library
 * @category rye/core/runtimes/node/lib/node
 * @description Applies the guard to import statements of older versions of Node.js
 */
import guard from "./guard.cjs";

let rules;

export function initialize(data) {
  rules = data;
}

export async function resolve(specifier, context, nextResolve) {
  const found = await nextResolve(specifier, context);
  guard.demand(rules, specifier, context.parentURL, found.url);
  return found;
}
