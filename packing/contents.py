"""The software bill of materials: CycloneDX 1.6 as JSON, the same bytes for the same build.

https://cyclonedx.org/docs/1.6/json/ - the program itself, each library with its licence, and the
digest of each compiled module as it is packed; each helper program, and the crates linked into it.
"""

import json
import sys
from collections.abc import Iterator, Sequence
from email.message import Message
from email.parser import Parser
from hashlib import sha256
from pathlib import Path
from typing import Any

from packing.build_time import BuildTime
from packing.crates import Crate
from packing.natives import NativeFile
from packing.programs import NativeProgram
from packing.stage import Recipe, Stage
from packing.wheels import COMPILED
from ryeos import __version__

Component = dict[str, Any]

LICENCE = "MIT"
_RUSTS = [("rust-std", "MIT OR Apache-2.0")]
if sys.platform == "linux":  # see `packing.programs`
    _RUSTS.append(("glibc", "LGPL-2.1-or-later"))
# Linked into the compiled modules of a library, which has chosen their versions, and into programs.
_LINKED = {
    "cffi": [("libffi", "MIT")],
    "pynacl": [("libsodium", "ISC")],
    "pyyaml": [("libyaml", "MIT")],
    "lillux-proc": _RUSTS,
    "lillux-watch": [*_RUSTS, ("sqlite", "blessing")],
}
# Where the metadata name no SPDX licence: read from the text of the licence.
_READ = {
    "jinja2": "BSD-3-Clause",
    "markdown-it-py": "MIT",
    "mdurl": "MIT",
    "shiv": "BSD-2-Clause",
}
# Kept in the tree, with its licence beside it: docs/adr/0002-dependencies.md.
_HTMX, HTMX_VERSION = "rye_services/web/page_files/htmx.min.js", "2.0.11"


def contents_document(
    name: str, data: bytes, stage: Stage, recipe: Recipe, build_time: BuildTime
) -> bytes:
    """The list for a file that was built, which is called ``name`` and holds ``data``."""
    program: Component = {
        "type": "application",
        "bom-ref": name,
        "name": name,
        "version": __version__,
        "licenses": [{"expression": LICENCE}],
        "hashes": _hashes(data),
        "properties": [{"name": "rye:edition", "value": recipe.edition.value}],
    }
    libraries = sorted(_libraries(stage), key=lambda component: component["bom-ref"])
    programs = [_program(one) for one in recipe.programs]
    crates = [_crate(one) for one in recipe.crates]
    direct = [component["bom-ref"] for component in (*libraries, *programs)]
    document = {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "timestamp": build_time.now().strftime("%Y-%m-%dT%H:%M:%SZ"),
            "component": program,
        },
        "components": [*libraries, *programs, *crates],
        "dependencies": [
            {"ref": name, "dependsOn": direct},
            *_links(recipe.programs, recipe.crates),
        ],
    }
    return (json.dumps(document, indent=2, ensure_ascii=False) + "\n").encode("utf-8")


def _libraries(stage: Stage) -> Iterator[Component]:
    for path in stage.tree.glob("*.dist-info/METADATA"):
        metadata = Parser().parsestr(path.read_text("utf-8"), headersonly=True)
        yield _library(metadata, stage)
    htmx = stage.tree / _HTMX
    if htmx.is_file():
        purl = f"pkg:npm/htmx.org@{HTMX_VERSION}"
        yield {
            "type": "library",
            "bom-ref": purl,
            "name": "htmx.org",
            "version": HTMX_VERSION,
            "licenses": [{"expression": "0BSD"}],
            "purl": purl,
            "hashes": _hashes(htmx.read_bytes()),
        }


def _library(metadata: Message, stage: Stage) -> Component:
    name, version = str(metadata["Name"]).lower(), str(metadata["Version"])
    purl = f"pkg:pypi/{name}@{version}"
    found: Component = {
        "type": "library",
        "bom-ref": purl,
        "name": name,
        "version": version,
        "licenses": [{"expression": _READ.get(name) or licence_of(metadata)}],
        "purl": purl,
    }
    wheel = _wheel_of(name, version, stage.wheels)
    if wheel:
        found["hashes"] = _hashes(wheel.read_bytes())
        found["properties"] = [{"name": "rye:wheel", "value": wheel.name}]
    parts = [*_linked_components(name), *_compiled_components(name, stage.natives.files)]
    return {**found, "components": parts} if parts else found


def licence_of(metadata: Message) -> str:
    """The SPDX expression that a library's metadata states."""
    stated = metadata["License-Expression"] or metadata["License"]
    return str(stated) if stated else "NOASSERTION"


def _wheel_of(name: str, version: str, wheels: Sequence[Path]) -> Path | None:
    start = f"{name.replace('-', '_')}-{version}-"
    return next((wheel for wheel in wheels if wheel.name.lower().startswith(start)), None)


def _linked_components(library: str) -> Iterator[Component]:
    for name, licence in _LINKED.get(library, ()):
        yield {"type": "library", "name": name, "licenses": [{"expression": licence}]}


def _compiled_components(library: str, files: Sequence[NativeFile]) -> Iterator[Component]:
    for native in files:
        if native.module == COMPILED.get(library):
            yield {"type": "file", "name": native.file_name, "hashes": _hashes(native.data)}


def _program(program: NativeProgram) -> Component:
    return {
        "type": "application",
        "bom-ref": program.file_name,
        "name": program.file_name,
        "version": __version__,
        "licenses": [{"expression": LICENCE}],
        "hashes": _hashes(program.data),
        "components": [*_linked_components(program.file_name.removesuffix(".exe"))],
    }


def _crate(crate: Crate) -> Component:
    purl = _purl(crate)
    return {
        "type": "library",
        "bom-ref": purl,
        "name": crate.name,
        "version": crate.version,
        "licenses": [{"expression": crate.licence}],
        "purl": purl,
        "hashes": [{"alg": "SHA-256", "content": crate.sha256}],
    }


def _links(programs: Sequence[NativeProgram], crates: Sequence[Crate]) -> Iterator[Component]:
    for program in programs:
        name = program.file_name.removesuffix(".exe")
        linked = [_purl(crate) for crate in crates if name in crate.users]
        yield {"ref": program.file_name, "dependsOn": linked}


def _purl(crate: Crate) -> str:
    return f"pkg:cargo/{crate.name}@{crate.version}"


def _hashes(data: bytes) -> list[dict[str, str]]:
    return [{"alg": "SHA-256", "content": sha256(data).hexdigest()}]
