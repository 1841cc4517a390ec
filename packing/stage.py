"""Content of the archive: our sources, what is needed of the libraries, the signed bundle."""

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import distribution
from pathlib import Path, PurePosixPath
from zipfile import ZipFile

from packing.crates import NOTICES, Crate, notices_text
from packing.interpreters import MINORS
from packing.natives import NativePart, Strip, native_part
from packing.platforms import Platform, this_platform
from packing.programs import NativeProgram, ProgramsPart, programs_part
from packing.signed_bundle import Edition, stage_bundle
from packing.wheels import all_wheels
from ryeos.trust.signing_key import SigningKey

PACKAGES = ("lillux", "ryeos", "zipboot")

# Of cffi only the compiled module is wanted at run time, and its licence.
_BUILD_TIME_PACKAGES = frozenset({"cffi"})
_COMPILED = frozenset({".so", ".pyd", ".dylib"})
# Of packaging only the rules of versions are used; all of it would be half a megabyte more. The
# command line of dotenv wants libraries that are not packed, and so do parts of urllib3 that only
# they would call; shtab is used without its own. Of nacl the bindings are used, not its classes.
_USED_PARTS = {
    "packaging": frozenset({"__init__.py", "version.py"}),
    "dotenv": frozenset({"__init__.py", "main.py", "parser.py", "variables.py", "version.py"}),
    "urllib3": frozenset(
        {"__init__.py", "_base_connection.py", "_collections.py", "_request_methods.py"}
        | {"_version.py", "connection.py", "connectionpool.py", "exceptions.py", "fields.py"}
        | {"filepost.py", "poolmanager.py", "response.py", "http2/__init__.py", "http2/probe.py"}
        | {"util/__init__.py", "util/connection.py", "util/proxy.py", "util/request.py"}
        | {"util/response.py", "util/retry.py", "util/ssl_.py", "util/ssl_match_hostname.py"}
        | {"util/ssltransport.py", "util/timeout.py", "util/url.py", "util/util.py"}
        | {"util/wait.py"}
    ),
    "nacl": frozenset(
        {"__init__.py", "exceptions.py", "bindings/__init__.py", "bindings/crypto_aead.py"}
        | {"bindings/crypto_box.py", "bindings/crypto_core.py", "bindings/crypto_generichash.py"}
        | {"bindings/crypto_hash.py", "bindings/crypto_kx.py", "bindings/crypto_pwhash.py"}
        | {"bindings/crypto_scalarmult.py", "bindings/crypto_secretbox.py"}
        | {"bindings/crypto_secretstream.py", "bindings/crypto_shorthash.py"}
        | {"bindings/crypto_sign.py", "bindings/randombytes.py", "bindings/sodium_core.py"}
        | {"bindings/utils.py"}
    ),
    "shtab": frozenset({"__init__.py"}),
    "tomlkit": frozenset(
        {"__init__.py", "_compat.py", "_types.py", "_utils.py", "api.py", "container.py"}
        | {"exceptions.py", "items.py", "parser.py", "source.py", "toml_document.py"}
    ),
}
# How a library was packed and installed, not what it is.
_INSTALLATION_NOTES = frozenset({"RECORD", "WHEEL"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """Targets of a build: interpreters by their minor version, platforms.

    ``programs`` are the helper programs for the platform of the building machine, if any, and
    ``crates`` what is linked into them.
    """

    interpreters: Mapping[int, Path]
    platforms: Sequence[Platform]
    strip: Strip
    programs: Sequence[NativeProgram] = ()
    crates: Sequence[Crate] = ()
    edition: Edition = Edition.FULL


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """Content of a build: modules and metadata, the signed bundle, compiled modules and programs.

    ``wheels`` are where the libraries come from.
    """

    tree: Path
    bundle: Path
    natives: NativePart
    programs: ProgramsPart
    wheels: Sequence[Path]


def stage(checkout: Path, scratch: Path, key: SigningKey, recipe: Recipe) -> Stage:
    """Everything that a build packs, in folders below ``scratch``, an empty folder.

    Raises BuildError, and ItemValidationError for an item of the bundle that breaks a rule.
    """
    tree, bundle = scratch / "tree", scratch / "bundle"
    for package in PACKAGES:
        sources = shutil.ignore_patterns("__pycache__", "*.pyc", "bundle")
        shutil.copytree(checkout / package, tree / package, ignore=sources)
    wheels = all_wheels(checkout)
    for wheel in wheels:
        _unpack_library(wheel, tree)
    copy_notes_of_shiv(tree)
    shutil.copy(checkout / "LICENSE", tree / "LICENSE")
    if recipe.crates:
        (tree / NOTICES).write_text(notices_text(recipe.crates), "utf-8", newline="\n")
    stage_bundle(checkout, bundle, key, recipe.edition)
    natives = native_part(checkout, recipe.platforms, MINORS, recipe.strip)
    programs = programs_part(this_platform(), recipe.programs)
    return Stage(tree=tree, bundle=bundle, natives=natives, programs=programs, wheels=wheels)


def _unpack_library(wheel: Path, tree: Path) -> None:
    """Its Python files, its metadata and licences."""
    with ZipFile(wheel) as archive:
        for name in archive.namelist():
            if not name.endswith("/") and _is_wanted(PurePosixPath(name)):
                archive.extract(name, tree)


def copy_notes_of_shiv(tree: Path) -> None:
    """Text that shiv's licence asks for: it packs its own start into the file."""
    shiv = distribution("shiv")
    for file in shiv.files or ():
        if file.parent.suffix == ".dist-info" and file.name in {"METADATA", "LICENSE"}:
            target = tree / file
            target.parent.mkdir(exist_ok=True)
            shutil.copy(str(file.locate()), target)


def _is_wanted(path: PurePosixPath) -> bool:
    library, *inner = path.parts
    if library.endswith(".dist-info"):
        return path.name not in _INSTALLATION_NOTES
    if library in _USED_PARTS:
        return "/".join(inner) in _USED_PARTS[library]
    return path.suffix not in _COMPILED and library not in _BUILD_TIME_PACKAGES
