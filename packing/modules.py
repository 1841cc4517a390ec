"""Pure Python modules of a tree, and their code for each interpreter.

What many modules have in common, said once: a preset dictionary for deflating their code.

A module is a few kilobytes, too little for its own words to come back often. The dictionary holds
the names and texts that five modules or more use, those that save most at its end, where deflate
reaches them with the shortest references. Made from the sources, so that every builder's Python
makes the same one for every interpreter.
"""

import ast
import json
import marshal
import os
import subprocess
import zlib
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from packing import BuildError
from packing.compile_modules import nodes, statements
from zipboot.importer import DEFLATED, DICTIONARY, SOURCE, STORED
from zipboot.parts import checksum

SHOWN_ROOT = "rye.pyz"
FROM_SOURCE = frozenset(
    {"lillux.json_edits", "lillux.jsonc", "lillux.toml_edits", "shtab", "tomlkit"}
    | {
        "ryeos.agent",
        "ryeos.app.agent_setup",
        "ryeos.app.agent_threads",
        "ryeos.app.scripted_threads",
        "ryeos.app.thread_log",
        "ryeos.cli.agent_setup",
        "ryeos.cli.agent_threads",
        "ryeos.graph.graphviz",
        "ryeos.graph.layout",
        "ryeos.graph.mermaid",
        "ryeos.graph.pictures",
        "ryeos.graph.svg",
        "ryeos.imports",
    }
    | {"ryeos.sync.garbage"}
    | {f"ryeos.app.{name}" for name in ("bundles", "imports", "published")}
    | {f"ryeos.app.{name}" for name in ("script_help", "server_pins", "server_tools", "servers")}
    | {f"ryeos.app.thread_{name}" for name in ("answers", "calls", "models")}
    | {"ryeos.app.server_trials"}
    | {f"ryeos.cli.{name}" for name in ("bundle", "client_settings", "completion", "dev", "doctor")}
    | {f"ryeos.cli.{name}" for name in ("doctor_probes", "import_items", "init", "keys")}
    | {f"ryeos.cli.{name}" for name in ("mcp_clients", "mcp_servers", "program", "receipts")}
    | {"ryeos.cli.agent", "ryeos.cli.self_update"}
    | {f"ryeos.cli.{name}" for name in ("registry", "registry_items", "remote_secrets")}
    | {f"ryeos.cli.{name}" for name in ("remote_setup", "remote_teams", "sandbox", "store")}
    | {f"ryeos.remote.{name}" for name in ("registry", "registry_bundles", "registry_items")}
    | {f"ryeos.remote.{name}" for name in ("bundle_installs", "bundle_publishing", "placed_items")}
    | {f"ryeos.remote.{name}" for name in ("attestations", "registry_lock", "webhooks")}
    | {"ryeos.cli.trust", "ryeos.remote.account", "ryeos.trust.bundles_publish"}
)
"""Modules, and packages with all in them, that only rare commands use: packed as sources alone.

Such a command takes 20 to 50 ms more, by what it imports of them.
"""

# Module -> what `zipboot.importer` reads of it.
Entries = dict[str, tuple[bool, int, int, int, bytes]]
# Where each begins and ends: pieces that a start reads together.
Blocks = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Module:
    """A module of the tree. ``shown`` is its file name in tracebacks."""

    name: str
    path: Path
    is_package: bool
    shown: str


def modules(tree: Path) -> list[Module]:
    """Every module below the tree, by name."""
    return sorted(_modules(tree), key=lambda module: module.name)


def _modules(tree: Path) -> Iterator[Module]:
    for path in tree.rglob("*.py"):
        parts = path.relative_to(tree).with_suffix("").parts
        if not all(part.isidentifier() for part in parts):
            continue  # a file of some library's metadata
        is_package = parts[-1] == "__init__"
        name = ".".join(parts[:-1] if is_package else parts)
        yield Module(name, path, is_package, f"{SHOWN_ROOT}/{path.relative_to(tree).as_posix()}")


def compiled(
    interpreter: Path,
    found: Sequence[Module],
    checkout: Path,
    kept: Mapping[str, Collection[str]],
) -> tuple[bytes, list[bytes]]:
    """The beginning of an interpreter's code, and the marshalled code of each module.

    Made by a fresh process of that interpreter, which sees nothing of this one's environment.
    ``kept`` are names that stay though they are types alone, by module: `wanted_by_sources`.

    Raises BuildError for a module that it cannot compile.
    """
    wanted = json.dumps(
        [[str(module.path), module.shown, sorted(kept.get(module.name, ()))] for module in found]
    )
    script = checkout / "packing" / "compile_modules.py"
    # Not -I: it would ignore the hash seed. Without the columns of every instruction, which only
    # underline parts of lines in tracebacks, a module takes a quarter less.
    command = [str(interpreter), "-s", "-S", "-P", "-X", "no_debug_ranges", str(script)]
    environ = {name: os.environ[name] for name in ("PATH", "SYSTEMROOT") if name in os.environ}
    ended = subprocess.run(
        command,
        input=wanted.encode(),
        env=environ | {"PYTHONHASHSEED": "0"},
        capture_output=True,
        check=False,
    )
    if ended.returncode:
        raise BuildError(str(interpreter), ended.stderr.decode("utf-8", "replace").strip())
    magic, *codes = marshal.loads(ended.stdout)  # noqa: S302 - written by our own process
    return magic, codes


def wanted_by_sources(found: Sequence[Module]) -> Mapping[str, set[str]]:
    """By module, the names that modules which are packed as sources import from it.

    They are compiled as they are written: with names that are types alone, and gone from code.
    """
    wanted = defaultdict[str, set[str]](set)
    for module in filter(is_from_source, found):
        for node in statements(ast.parse(module.path.read_bytes())):
            if isinstance(node, ast.ImportFrom) and node.module:
                wanted[node.module].update(alias.name for alias in node.names)
    return wanted


def is_from_source(module: Module) -> bool:
    """True if a module is packed as its source alone."""
    parts = module.name.split(".")
    beginnings = (".".join(parts[: end + 1]) for end in range(len(parts)))
    return not FROM_SOURCE.isdisjoint(beginnings)


def texts(tree: Path) -> dict[str, Path]:
    """The texts that our modules read when asked, by the path below ``tree``."""
    found = sorted((tree / "ryeos").rglob("*.md"))
    return {path.relative_to(tree).as_posix(): path for path in found}


def text_entries(found: Mapping[str, Path], sources: Mapping[str, int]) -> Entries:
    """Offset of each text in the file of sources, as modules that are packed as sources."""
    entries: Entries = {}
    for name, path in found.items():
        data = path.read_bytes()
        entries[name] = (False, sources[name], len(data), SOURCE, checksum(data))
    return entries


def code_part(
    code_of: Mapping[Module, bytes],
    stored: Sequence[Collection[str]],
    common: bytes,
    sources: Mapping[str, int],
) -> tuple[bytes, Entries, Blocks]:
    """The part that holds the code, where in it each module is, and where the blocks are.

    ``stored`` are names of modules that are not deflated, since starts would inflate them: each
    collection is one block. Behind them comes ``common``: it is the end of the dictionary that the
    others are deflated with, and as much of the code before it as deflate reaches is its beginning.
    ``sources`` is where the source of each module begins, by name, that is packed as source alone.
    """
    pieces: list[bytes] = []
    entries: Entries = {}
    rest = dict(code_of)
    for module in filter(is_from_source, code_of):
        del rest[module]
        source = module.path.read_bytes()
        where = sources[module.name], len(source), SOURCE, checksum(source)
        entries[module.name] = (module.is_package, *where)
    blocks: list[tuple[int, int]] = []
    end = 0
    for group in stored:
        start = end
        for module in [module for module in rest if module.name in group]:
            code = rest.pop(module)
            entries[module.name] = (module.is_package, end, len(code), STORED, checksum(code))
            pieces.append(code)
            end += len(code)
        blocks.append((start, end))
    words = b"".join((*pieces, common))[-MAX_BYTES:]
    end += len(common)
    entries[DICTIONARY] = (False, end - len(words), len(words), STORED, checksum(words))
    pieces.append(common)
    for module, code in rest.items():
        piece = _deflated(code, words)
        entries[module.name] = (module.is_package, end, len(piece), DEFLATED, checksum(piece))
        pieces.append(piece)
        end += len(piece)
    return b"".join(pieces), entries, tuple(blocks)


def library_files(interpreter: Path, names: Iterable[str]) -> dict[str, str]:
    """Of those modules that are of an interpreter's standard library: the path of each below it.

    "" for a compiled module; those that are built in are left out. Raises BuildError.
    """
    command = [str(interpreter), "-I", "-S", "-c", _SAYS_FILES_OF_LIBRARY]
    wanted = json.dumps(sorted(names)).encode()
    ended = subprocess.run(command, input=wanted, capture_output=True, check=False)
    if ended.returncode:
        raise BuildError(str(interpreter), ended.stderr.decode("utf-8", "replace").strip())
    files: dict[str, str] = json.loads(ended.stdout)
    return files


_SAYS_FILES_OF_LIBRARY = """
import json, os, sys
from importlib.util import find_spec
folder, files = os.path.dirname(os.__file__), {}
for name in json.load(sys.stdin):
    try:
        spec = find_spec(name)
    except (ImportError, ValueError):
        continue
    if spec and spec.has_location and spec.origin.startswith(folder + os.sep):
        is_source = spec.origin.endswith(".py")
        files[name] = os.path.relpath(spec.origin, folder).replace(os.sep, "/") if is_source else ""
json.dump(files, sys.stdout)
"""


def _deflated(code: bytes, common: bytes) -> bytes:
    deflate = zlib.compressobj(9, memLevel=9, zdict=common)
    return deflate.compress(code) + deflate.flush()


MAX_BYTES = 32 * 1024 - 262  # what deflate can reach back to
MIN_MODULES = 5
MAX_WORD = 100
_SHORT_ASCII_INTERNED = 0xDA  # how `marshal` begins most of them, with the length behind it


def dictionary(sources: Iterable[Path]) -> bytes:
    """The dictionary for the modules of these files. Raises SyntaxError for another file."""
    modules = Counter[str]()
    for source in sources:
        modules.update(set(_words(ast.parse(source.read_bytes()))))
    saving = sorted(
        (count * len(word), word)
        for word, count in modules.items()
        if count >= MIN_MODULES and len(word) < MAX_WORD
    )
    return b"".join(_as_marshalled(word) for _, word in saving)[-MAX_BYTES:]


def _as_marshalled(word: str) -> bytes:
    data = word.encode("utf-8", "surrogatepass")
    return bytes((_SHORT_ASCII_INTERNED, len(data) & 0xFF)) + data


_WORDS: Mapping[type[ast.AST], str] = {
    ast.Name: "id",
    ast.Attribute: "attr",
    ast.Constant: "value",
    ast.ImportFrom: "module",
    ast.FunctionDef: "name",
    ast.ClassDef: "name",
    ast.alias: "name",
    ast.arg: "arg",
    ast.keyword: "arg",
}
"""Attribute of each node of the syntax tree that is a word of its code too."""


def _words(tree: ast.Module) -> Iterator[str]:
    for node in nodes(tree):
        field = _WORDS.get(type(node))
        if field and isinstance(word := getattr(node, field), str):
            yield word
