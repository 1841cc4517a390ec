"""Build ``rye.pyz``: one file with the program, its libraries and its signed bundle.

Or ``rye-node.pyz``, the same for the node.

Run by the Python of ``scripts/install``. Page: ``docs/building.md``.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory

from lillux.errors import LilluxError
from lillux.files import make_directory, write_atomic
from packing.archive import pack
from packing.build_time import BuildTime, build_time
from packing.contents import contents_document
from packing.crates import linked_crates
from packing.interpreters import MINORS, interpreters, own_interpreter
from packing.natives import Strip, strip_any_processor, strip_if_possible
from packing.node_file import CLUSTER_LOCKS, LOCKS, build_node
from packing.node_file import NAME as NODE_NAME
from packing.node_start import python_platform
from packing.platforms import PLATFORMS, Platform, this_platform
from packing.programs import built_programs
from packing.signed_bundle import Edition, publisher_key
from packing.stage import Recipe, stage
from ryeos import __version__
from ryeos.trust.signing_key import SigningKey

CHECKOUT = Path(__file__).resolve().parent
NAME = "rye.pyz"
CLUSTER = "cluster"
"""The edition of the node for many machines: its bundle is the full one."""

Files = dict[str, bytes]


def main() -> int:
    """Build what the command line asks for, and say what was built; the exit status."""
    parser = _parser()
    arguments = parser.parse_args()
    arguments.locks = LOCKS
    if arguments.edition == CLUSTER:
        if not arguments.node:
            parser.error("--edition cluster is an edition of the node: add --node")
        arguments.locks, arguments.edition = CLUSTER_LOCKS, Edition.FULL
    try:
        built_at = build_time(os.environ)
        key = publisher_key(arguments.sign_key, built_at)
        if arguments.node:
            return _build_node(arguments, key, built_at)
        recipe = recipe_for(
            host_only=arguments.host, own_python=own_python(arguments), edition=arguments.edition
        )
        files = build(key, built_at, recipe)
        _write(arguments.out, NAME, files)
    except LilluxError as error:
        print(f"error: {error}", file=sys.stderr)
        if error.hint:
            print(f"  hint: {error.hint}", file=sys.stderr)
        return error.exit_status
    print(_report(arguments.out / NAME, files[NAME], key, arguments.sign_key, recipe))
    return 0


def build(key: SigningKey, built_at: BuildTime, recipe: Recipe) -> Files:
    """The file, and those beside it that speak about it: the same bytes for the same arguments.

    Raises BuildError, and ItemValidationError for an item of the bundle that breaks a rule.
    """
    scratch = CHECKOUT / "build" / "zipapp"
    make_directory(scratch)
    with TemporaryDirectory(prefix="stage-", dir=scratch) as folder:
        staged = stage(CHECKOUT, Path(folder), key, recipe)
        data = pack(staged, CHECKOUT, Path(folder), built_at, recipe)
        contents = contents_document(NAME, data, staged, recipe, built_at)
    return _with_companions(NAME, data, contents, key)


def _build_node(arguments: argparse.Namespace, key: SigningKey, built_at: BuildTime) -> int:
    """Build the file of the node, and say what was built; the exit status."""
    scratch = CHECKOUT / "build" / "zipapp"
    make_directory(scratch)
    with TemporaryDirectory(prefix="node-", dir=scratch) as folder:
        data, staged = build_node(
            CHECKOUT,
            Path(folder),
            key,
            built_at,
            edition=arguments.edition,
            locks=arguments.locks,
        )
        recipe = Recipe(
            interpreters={}, platforms=(), strip=strip_if_possible, edition=arguments.edition
        )
        contents = contents_document(NODE_NAME, data, staged, recipe, built_at)
    _write(arguments.out, NODE_NAME, _with_companions(NODE_NAME, data, contents, key))
    print(f"built     {os.path.relpath(arguments.out / NODE_NAME)}")
    print(f"version   {__version__}")
    print(f"size      {len(data):,} bytes")
    print(f"sha256    {sha256(data).hexdigest()}")
    print(f"for       {python_platform()}")
    return 0


def _with_companions(name: str, data: bytes, contents: bytes, key: SigningKey) -> Files:
    """A built file, and those beside it that speak about it."""
    return {
        name: data,
        f"{name}.sha256": f"{sha256(data).hexdigest()}  {name}\n".encode("ascii"),
        f"{name}.sig": key.detached_line(data).encode("ascii"),
        f"{name}.cdx.json": contents,
    }


def own_python(arguments: argparse.Namespace) -> bool:
    """Whether code is packed for one CPython of this machine alone: a rule of ``--host``."""
    wish: str = arguments.pythons or ("own" if arguments.host else "all")
    return wish == "own"


def recipe_for(*, host_only: bool, own_python: bool, edition: Edition = Edition.FULL) -> Recipe:
    """What a build packs for: this machine, or every platform; its CPython, or all it has."""
    own = this_platform()
    programs = built_programs(CHECKOUT) if own else ()
    if host_only:
        platforms: Sequence[Platform] = (own,) if own else ()
        strip: Strip = strip_if_possible
    else:
        platforms, strip = PLATFORMS, strip_any_processor
    return Recipe(
        interpreters=own_interpreter() if own_python else interpreters(),
        platforms=platforms,
        strip=strip,
        programs=programs,
        crates=linked_crates(CHECKOUT) if programs else (),
        edition=edition,
    )


def _write(folder: Path, program: str, files: Files) -> None:
    make_directory(folder)
    for name, data in files.items():
        write_atomic(folder / name, data)
    (folder / program).chmod(0o755)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="build_zipapp.py", description=f"Build {NAME} or {NODE_NAME}."
    )
    add = parser.add_argument
    add("--out", metavar="DIR", type=Path, default=CHECKOUT / "dist", help="default: dist")
    add("--sign-key", metavar="FILE.pem", type=Path, help="default: a fresh key, thrown away")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--fat", action="store_true", help="for every platform (the default)")
    which.add_argument(
        "--node", action="store_true", help=f"{NODE_NAME} instead, for this machine and CPython"
    )
    which.add_argument("--host", action="store_true", help="for this machine only, quickly")
    add(
        "--pythons",
        choices=("own", "all"),
        help="pack code for the CPython that python3 starts, or for all of this machine"
        " (default: all, with --host own)",
    )
    add(
        "--edition",
        type=_edition,
        choices=(*Edition, CLUSTER),
        default=Edition.FULL,
        help="core packs rye/core of the bundle alone, as the bundle ryeos-core; cluster, with"
        " --node, what many machines need besides (default: full)",
    )
    return parser


def _edition(text: str) -> str:
    return text if text == CLUSTER else Edition(text)


def _report(
    target: Path, data: bytes, key: SigningKey, pem_file: Path | None, recipe: Recipe
) -> str:
    packed = ", ".join(f"3.{minor}" for minor in recipe.interpreters) or "no version"
    missing = ", ".join(f"3.{minor}" for minor in MINORS if minor not in recipe.interpreters)
    slower = f"; without code, and so slower to start: {missing}" if missing else ""
    signer = "a key made for this build, its private half is gone" if pem_file is None else pem_file
    programs = ", ".join(program.file_name for program in recipe.programs)
    return "\n".join(
        (
            f"built     {os.path.relpath(target)}",
            f"version   {__version__}",
            f"size      {len(data):,} bytes",
            f"sha256    {sha256(data).hexdigest()}",
            f"edition   {recipe.edition.value}, the bundle {recipe.edition.bundle_id}",
            f"signed    by {key.fingerprint}, {signer}",
            f"code      for CPython {packed}{slower}",
            f"programs  {programs or 'none, as no cargo works here; Python does the same'}",
            f"compiled  for {', '.join(p.name for p in recipe.platforms) or 'no platform'}",
        )
    )


if __name__ == "__main__":
    sys.exit(main())
