/**
 * What the code of a tool may load: builtin modules, files that were verified, packages.
 *
 * @version 1.0.0
 * @tool_type library
 * @category rye/core/runtimes/node/lib/node
 * @description Keeps unverified files from being loaded by a tool
 */
"use strict";

const fs = require("node:fs");
const Module = require("node:module");
const path = require("node:path");
const { fileURLToPath, pathToFileURL } = require("node:url");

// What verify_deps of node.yaml looks at, and the folders that it leaves out.
const VERIFIED_SUFFIXES = new Set([".js", ".ts", ".mjs", ".cjs", ".json"]);
const LEFT_OUT_FOLDERS = new Set(["__pycache__", ".git", "dist", "build"]);
const PACKAGES = "node_modules";
// Folders of packages that Node.js searches; of these the last two for require(), in the home folder.
const SEARCHED = new Set([PACKAGES, ".node_modules", ".node_libraries"]);
// Written by package managers and passed over by verify_deps, unless they are signed beside.
const MANAGED = new Set(["package.json", "package-lock.json", "tsconfig.json"]);

/**
 * The rules of one run. `anchor` is "" when nothing but the tool's own file was verified, `packages`
 * when the user has not approved the project's node_modules. `copies` is the folder of the run: what
 * is linked there lies elsewhere, at the path that is left when that of the folder is taken away.
 */
function makeRules(tool, anchor, packages = "", copies = "") {
  const real = (folder) => folder && fs.realpathSync(folder);
  return {
    tool: fs.realpathSync(tool),
    anchor: real(anchor),
    packages: real(packages),
    copies: real(copies),
  };
}

/**
 * Why a module may not be loaded, or "" if it may.
 *
 * specifier  as the importing code says it: "./x.js", "lodash", "node:fs"
 * importer   file or URL of that code, undefined for the start itself
 * target     file or URL that the specifier was resolved to
 *
 * What the interpreter and packages load among themselves is theirs, but for packages that lie in a
 * folder above them, where any program may have put what they only ask for if it is there.
 */
function refusal(rules, specifier, importer, target) {
  const file = fileOf(target);
  if (file === null || file === rules.tool) return "";
  const by = fileOf(importer);
  if (!isGoverned(rules, by)) return by && isPackage(specifier) ? refusalAmong(rules, by, file) : "";
  if (isPackage(specifier) && isApproved(rules, file)) return "";
  if (!rules.anchor) return "only the tool's own file is verified; package.json beside it makes an anchor";
  const parts = partsBelow(rules.anchor, file) ?? partsOfOrigin(rules, file);
  if (parts === null && !isPackage(specifier)) return `it is outside of the anchor ${rules.anchor}`;
  if (parts === null) return isOwnPackage(rules, specifier, file) ? "" : notApproved(rules);
  if (parts.includes(PACKAGES)) return "";
  const left = parts.findIndex((part, index) => isLeftOut(rules, parts, index));
  if (left >= 0) return `nothing below a folder ${parts[left]} is verified`;
  const name = parts[parts.length - 1];
  if (!VERIFIED_SUFFIXES.has(path.extname(name))) return "files with its suffix are not verified";
  if (MANAGED.has(name) && !fs.existsSync(`${file}.sig`)) return `${name} is not signed`;
  return rules.copies && partsBelow(rules.copies, file) === null ? "it was not verified" : "";
}

/** As partsBelow, for what was linked from the folder that the anchor is a copy of. */
function partsOfOrigin(rules, file) {
  return rules.copies ? partsBelow(originOf(rules, rules.anchor), file) : null;
}

/** Where a file or folder of the run's folder comes from; the same place if there is none. */
function originOf(rules, place) {
  return rules.copies ? path.sep + path.relative(rules.copies, place) : place;
}

/** Why a package may not load another one, or "" if it may. */
function refusalAmong(rules, by, file) {
  const isOwn = (place) => (partsOfAnchor(rules, place) ?? []).includes(PACKAGES);
  if (isOwn(file) || isApproved(rules, file)) return "";
  if (isOwn(by)) return notApproved(rules);
  const parts = file.split(path.sep);
  const at = parts.findIndex((part) => SEARCHED.has(part));
  if (at < 0) return "";
  const above = parts.slice(0, at).join(path.sep) || path.sep;
  if (partsBelow(path.join(above, parts[at]), by) !== null) return "";
  const leadsToTool = partsBelow(above, originOf(rules, rules.tool)) !== null;
  return leadsToTool || parts[at] !== PACKAGES ? notApproved(rules) : "";
}

function partsOfAnchor(rules, file) {
  return rules.anchor ? (partsBelow(rules.anchor, file) ?? partsOfOrigin(rules, file)) : null;
}

/** Whether a file is of the project's packages, and the user has approved these. */
function isApproved(rules, file) {
  return rules.packages !== "" && partsBelow(rules.packages, file) !== null;
}

/** Whether a package is linked in the tool's own node_modules to where the file lies. */
function isOwnPackage(rules, specifier, file) {
  const length = specifier.startsWith("@") ? 2 : 1;
  const name = specifier.split("/").slice(0, length);
  try {
    const folder = path.join(originOf(rules, rules.anchor), PACKAGES, ...name);
    return !name.includes("..") && partsBelow(fs.realpathSync(folder), file) !== null;
  } catch {
    return false; // there is none
  }
}

function notApproved(rules) {
  const own = rules.anchor && path.join(originOf(rules, rules.anchor), PACKAGES);
  const way = own ? `install it in ${own}, or in the project and: rye trust` : "rye trust";
  return `nobody approved the packages of this folder (${way})`;
}

/** From now on refuse what the rules refuse, in require() and in import. */
function install(rules) {
  if (Module.registerHooks) {
    Module.registerHooks({
      resolve(specifier, context, nextResolve) {
        const found = nextResolve(specifier, context);
        demand(rules, specifier, context.parentURL, found.url);
        return found;
      },
    });
    return;
  }
  const resolve = Module._resolveFilename;
  Module._resolveFilename = function guarded(request, parent, ...rest) {
    const found = resolve.call(this, request, parent, ...rest);
    demand(rules, request, parent?.filename, found);
    return found;
  };
  if (!Module.register) {
    throw new Error(`Node.js 18.19 or newer is needed, found ${process.version}`);
  }
  Module.register("./guard_thread.mjs", { parentURL: pathToFileURL(__filename), data: rules });
}

/** Throw the refusal, if there is one. */
function demand(rules, specifier, importer, target) {
  const reason = refusal(rules, specifier, importer, target);
  if (!reason) return;
  const error = new Error(`${specifier} is not loaded: ${reason} (${fileOf(target)})`);
  error.code = "ERR_RYE_NOT_VERIFIED";
  throw error;
}

/** The path of a file or `file:` URL; null for what is no file: builtin modules, `data:`. */
function fileOf(place) {
  if (!place) return null;
  if (place.startsWith("file:")) return fileURLToPath(place);
  // Behind a question mark tsx tells itself something about the import.
  return path.isAbsolute(place) ? place.split("?")[0] : null;
}

function isGoverned(rules, importer) {
  if (importer === null) return false;
  if (importer === rules.tool) return true;
  const parts = rules.anchor ? partsBelow(rules.anchor, importer) : null;
  return parts !== null && !parts.includes(PACKAGES);
}

/** As verify_deps has it: no folder that leads to the tool is left out. */
function isLeftOut(rules, parts, index) {
  if (index === parts.length - 1 || !LEFT_OUT_FOLDERS.has(parts[index])) return false;
  return partsBelow(path.join(rules.anchor, ...parts.slice(0, index + 1)), rules.tool) === null;
}

function partsBelow(folder, file) {
  const relative = path.relative(folder, file);
  const parts = relative.split(path.sep);
  return parts[0] === ".." || path.isAbsolute(relative) ? null : parts;
}

function isPackage(specifier) {
  return !/^(?:\.{0,2}[\\/]|\.{1,2}$|[a-z]:[\\/]|file:)/i.test(specifier);
}

module.exports = { demand, install, makeRules };
