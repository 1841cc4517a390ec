"""``rye self where|verify|extract|clean``: this program itself."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lillux.digests import sha256_hex
from lillux.files import FileTooLargeError, file_system_error, make_directory, read_bytes
from lillux.pem import MAX_PEM_BYTES
from lillux.signing import compute_key_fingerprint, verify_signature
from lillux.values import dataclass, replace
from ryeos.app.command_line import Arguments, CommandSpec, no_arguments
from ryeos.app.output import utc_text
from ryeos.cli.session import Session, packed_program, program_path
from ryeos.items.errors import (
    IntegrityError,
    RyeError,
    SignatureFormatError,
    UntrustedKeyError,
    target_exists_error,
)
from ryeos.trust.signature import Signature, detached_path, parse_core

if TYPE_CHECKING:
    from zipboot.launch import Program


# --- self commands --------------------------------------------------------------------------------


def _configure_extract(parser: Arguments) -> None:
    parser.add_argument("folder", metavar="DIR", help="a folder that is new or empty")


def _configure_clean(parser: Arguments) -> None:
    parser.add_argument(
        "--dry-run", action="store_true", help="show what would be removed, and remove nothing"
    )


# --- where ----------------------------------------------------------------------------------------


def _where(session: Session) -> int:
    spaces = session.context.spaces
    embedded = next((bundle.base for bundle in spaces.bundles if bundle.pinned_pem), None)
    program = packed_program()
    found: dict[str, Path | str | None] = {
        "program": program_path(),
        "python": sys.executable or None,
        "modules": modules_path(),
        "cache": program.cache() if program else None,
        "bundle": embedded,
        "user_space": spaces.user.ai,
        "project": session.context.project_path,
        "key_directory": session.context.key_directory,
    }
    paths = {name: str(path) if path else None for name, path in found.items()}
    others = [str(bundle.base) for bundle in spaces.bundles if bundle.base != embedded]
    packed = _packed(program) if program else {}
    reason = project_reason(session)
    envelope = {"status": "success", **paths, "project_reason": reason, "other_bundles": others}
    lines = [
        *(f"{name.replace('_', ' '):<14} {path or '-'}" for name, path in paths.items()),
        *(f"bundle         {path}" for path in others),
        *_packed_lines(packed),
    ]
    session.output.answer(envelope | packed, "\n".join(lines))
    return 0


def _packed(program: "Program") -> dict[str, Any]:
    """What only `rye.pyz` can tell."""
    return {
        "start": program.way,
        "natives": _natives(program),
        "cache_folders": program.cache_folders(),
    }


def _natives(program: "Program") -> dict[str, dict[str, str]]:
    """Of each compiled module, which file it was loaded from, or why it could not be."""
    from importlib import import_module

    for name in program.natives.entries:
        try:
            import_module(name)
        except ImportError:
            continue  # listed among the problems
    loaded, problems = program.natives.loaded, program.natives.problems
    return {
        **{name: {"loaded": path} for name, path in loaded.items()},
        **{name: {"problem": problem} for name, problem in problems.items()},
    }


def _packed_lines(packed: dict[str, Any]) -> Iterator[str]:
    if packed:
        ways = {"code": "packed code", "shiv": "unpacked sources"}
        yield f"start          {ways[packed['start']]}"
        for name, native in sorted(packed["natives"].items()):
            yield f"native         {name}: {native.get('loaded') or native['problem']}"
        for folder in packed["cache_folders"].values():
            yield f"cache folder   {folder}"


# --- extract --------------------------------------------------------------------------------------


def _extract(session: Session) -> int:
    program = require_packed_program(hint="the sources are there already")
    folder = Path(session.arguments.folder)
    if folder.is_file() or (folder.is_dir() and any(folder.iterdir())):
        raise target_exists_error(str(folder), "something", "name a folder that is new or empty")
    try:
        count = _write_sources(program, folder / "sources")
        count += _write_bundle(program, folder / "bundle")
        programs = _write_programs(program, folder / "programs")
    except OSError as error:
        raise file_system_error(folder, error) from error
    count += programs
    envelope = {"status": "success", "folder": str(folder.absolute()), "files": count}
    parts = "sources, bundle, programs" if programs else "sources, bundle"
    session.output.answer(envelope, f"{count} files below {folder}: {parts}")
    return 0


def _write_sources(program: "Program", folder: Path) -> int:
    from io import BytesIO
    from zipfile import ZipFile

    with ZipFile(BytesIO(program.sources())) as archive:
        archive.extractall(folder)
        return len(archive.namelist())


def _write_bundle(program: "Program", folder: Path) -> int:
    for name in program.bundle.files:
        make_directory((folder / name).parent)
        (folder / name).write_bytes(program.bundle.content(name))
    return len(program.bundle.files)


def _write_programs(program: "Program", folder: Path) -> int:
    """The compiled helper programs for this machine; how many are packed for it."""
    count = 0
    for name, data in program.program_files():
        make_directory(folder)
        (folder / name).write_bytes(data)
        (folder / name).chmod(0o755)
        count += 1
    return count


# --- clean ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Kept:
    """An entry of the cache, and why it could not be removed."""

    path: str
    size: int
    problem: str = ""


def _clean(session: Session) -> int:
    program = require_packed_program(hint="only rye.pyz keeps anything in a cache")
    is_dry = session.arguments.dry_run
    found = [_Kept(path, _bytes_in(Path(path))) for path in program.kept()]
    if not is_dry:
        found = [_remove(program, kept) for kept in found]
    gone = [kept for kept in found if not kept.problem]
    left = [kept for kept in found if kept.problem]
    total = sum(kept.size for kept in gone)
    envelope: dict[str, Any] = {
        "status": "error" if left else "success",
        "cache": program.cache(),
        "dry_run": is_dry,
        "removed": [{"path": kept.path, "bytes": kept.size} for kept in gone],
        "left": [{"path": kept.path, "problem": kept.problem} for kept in left],
        "bytes": total,
    }
    if left:
        words = f"{left[0].path}: {left[0].problem}"
        envelope |= {"error": f"not everything was removed: {words}", "code": "FILE_SYSTEM_ERROR"}
    done = "would remove" if is_dry else "removed"
    lines = [
        *(f"{done}  {kept.size:>12,} bytes  {kept.path}" for kept in gone),
        *(f"left     {kept.path}: {kept.problem}" for kept in left),
        f"{done} {total:,} bytes of the cache {program.cache() or '-'}",
    ]
    session.output.answer(envelope, "\n".join(lines))
    return 1 if left else 0


def _bytes_in(path: Path) -> int:
    try:
        files = path.rglob("*") if path.is_dir() and not path.is_symlink() else (path,)
        return sum(file.lstat().st_size for file in files if not file.is_dir())
    except OSError:
        return 0  # another process removes it


def _remove(program: "Program", kept: _Kept) -> _Kept:
    try:
        program.remove(kept.path)
    except FileNotFoundError:
        return kept  # another process was quicker
    except OSError as error:  # on Windows a compiled module that is loaded cannot be removed
        return replace(kept, problem=(error.strerror or str(error)).lower())
    return kept


# --- self verify ----------------------------------------------------------------------------------
# ``rye self verify``: tells whether a ``rye.pyz`` is what its publisher made.
#
# Beside it lie ``rye.pyz.sha256``, for `sha256sum -c` and mirrors, and ``rye.pyz.sig``, a
# ``rye:signed`` line over the same digest, and ``rye.pyz.cdx.json``, the list of what is inside
# (``docs/building.md``).

MAX_PROGRAM_BYTES = 256 * 1024 * 1024
MAX_BESIDE_BYTES = 1024
MAX_CONTENTS_BYTES = 4 * 1024 * 1024


class UnsignedProgramError(IntegrityError):
    """No detached signature lies beside a program file."""

    code = "UNSIGNED"
    state = "unsigned"

    def __init__(self, path: str, beside: str) -> None:
        super().__init__(
            path,
            f"no {beside} beside the file, so it cannot be verified",
            hint="get that file too, from where the program came",
        )


def _configure_verify(parser: Arguments) -> None:
    add = parser.add_argument
    add("file", metavar="FILE", nargs="?", help="default: the file that runs")
    add("--key", metavar="FILE.pem", help="default: the key of this program's bundle")


def _run(session: Session) -> int:
    """Check what lies beside a file.

    1. The file has the digest of its ``.sha256`` and of its list of contents, if they are there.
    2. Its ``.sig`` is there, and is a signature line over that digest.
    3. The line names the wanted key, and its signature holds.
    """
    path = _file(session)
    digest = sha256_hex(_read(path, MAX_PROGRAM_BYTES))
    compared = _compare_digest(path, digest)
    listed = _compare_contents(path, digest)
    signature = _signature(path)
    public_pem = wanted_key(session)
    _check(path, digest, signature, public_pem)
    envelope = {
        "status": "success",
        "path": str(path),
        "sha256": digest,
        "sha256_file": str(compared) if compared else None,
        "contents_file": str(listed) if listed else None,
        "signed_by": signature.fingerprint,
        "timestamp": signature.timestamp,
    }
    lines = [
        f"valid    {path}",
        f"sha256   {digest}" + (f", as in {compared.name}" if compared else ""),
        f"signed   {utc_text(signature.timestamp)} by {signature.fingerprint}",
    ]
    if session.arguments.file is None and session.arguments.key is None:
        session.output.note(
            "this file was checked with the key that it carries itself;"
            " name the key of its publisher with --key FILE.pem"
        )
    session.output.answer(envelope, "\n".join(lines))
    return 0


def _file(session: Session) -> Path:
    named: str | None = session.arguments.file
    if named is not None:
        path = Path(named)
    else:
        program = require_packed_program(hint="name a file: rye self verify FILE")
        path = Path(program.archive)
    # What belongs to a program lies beside the file, not beside a link to it.
    return path.resolve() if path.is_symlink() else path


def wanted_key(session: Session) -> bytes:
    """The public key of ``--key``, else that of this program's publisher."""
    named: str | None = session.arguments.key
    if named is not None:
        return _read(Path(named), MAX_PEM_BYTES)
    return next(b.pinned_pem for b in session.context.spaces.bundles if b.pinned_pem)


def _compare_digest(path: Path, digest: str) -> Path | None:
    """The file beside that has the digest; None without one. Raises IntegrityError."""
    beside = path.with_name(f"{path.name}.sha256")
    try:
        words = read_bytes(beside, MAX_BESIDE_BYTES).decode("ascii", "replace").split()
    except FileNotFoundError:
        return None
    if words[:1] != [digest]:
        raise IntegrityError(
            str(path),
            f"SHA-256 {digest} is not the one in {beside.name}",
            hint="get the file again from where it came",
        )
    return beside


def _compare_contents(path: Path, digest: str) -> Path | None:
    """The list of contents beside, if it is of this very file; None without one.

    Raises IntegrityError when it is of another file, or is no such list.
    """
    beside = path.with_name(f"{path.name}.cdx.json")
    try:
        found = _listed_digests(read_bytes(beside, MAX_CONTENTS_BYTES))
    except FileNotFoundError:
        return None
    if digest not in found:
        raise IntegrityError(
            str(path),
            f"{beside.name} is not the list of contents of this file",
            hint="get both files again from where they came",
        )
    return beside


def _listed_digests(data: bytes) -> list[object]:
    """Of a CycloneDX document (``docs/building.md``): the digests of what it describes."""
    try:
        hashes = json.loads(data)["metadata"]["component"]["hashes"]
        return [entry["content"] for entry in hashes if entry["alg"] == "SHA-256"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return []


def _signature(path: Path) -> Signature:
    beside = detached_path(path)
    try:
        text = read_bytes(beside, MAX_BESIDE_BYTES).decode("ascii", "replace")
    except FileNotFoundError:
        raise UnsignedProgramError(str(path), beside.name) from None
    except FileTooLargeError:
        text = ""
    signature = parse_core(text.strip())
    if signature is None:
        raise SignatureFormatError(
            str(beside),
            "expected one rye:signed line",
            hint=f"get {beside.name} again, from where the program came",
        )
    return signature


def _check(path: Path, digest: str, signature: Signature, public_pem: bytes) -> None:
    wanted = compute_key_fingerprint(public_pem)
    if signature.fingerprint != wanted:
        hint = f"expected the key {wanted}; name another with --key FILE.pem"
        raise UntrustedKeyError(str(path), signature.fingerprint, hint)
    if signature.content_hash != digest or not verify_signature(
        digest, signature.value, public_pem
    ):
        raise IntegrityError(
            str(path),
            f"the signature of {wanted} does not hold",
            hint="get the file again from where it came",
        )


def _read(path: Path, max_bytes: int) -> bytes:
    try:
        return read_bytes(path, max_bytes)
    except FileNotFoundError as error:
        raise file_system_error(path, error) from error


# --- places ---------------------------------------------------------------------------------------
# Where this program and its files are, in words for a person.


def modules_path() -> Path:
    """The file or folder that this program's modules are loaded from."""
    return Path(__file__).parents[2]


def require_packed_program(*, hint: str = "") -> "Program":
    """What `rye.pyz` knows about itself. Raises RyeError `UNSUPPORTED` when something else runs."""
    program = packed_program()
    if program is None:
        raise RyeError(
            f"not run from rye.pyz: the modules of this program are in {modules_path()}",
            code="UNSUPPORTED",
            hint=hint,
        )
    return program


def project_reason(session: Session) -> str:
    """Why this folder is the project, or why none is."""
    path = session.context.project_path
    if session.arguments.project:
        return "named with --project"
    for variable in ("RYE_PROJECT", "CLAUDE_PROJECT_DIR"):
        if session.environ.get(variable):
            return f"named by {variable}"
    if path is None:
        return "none: the home folder and a file system root are no projects"
    if not (path / ".ai").is_dir():
        return "the current folder, without .ai yet"
    return "the current folder" if path == Path.cwd() else "the nearest folder with .ai"


WHERE = CommandSpec(no_arguments, _where, ["rye self where", "rye self where --json"])
EXTRACT = CommandSpec(_configure_extract, _extract, ["rye self extract rye-inside"])
CLEAN = CommandSpec(_configure_clean, _clean, ["rye self clean --dry-run", "rye self clean"])
VERIFY = CommandSpec(
    _configure_verify,
    _run,
    ["rye self verify", "rye self verify downloads/rye.pyz --key publisher.pem"],
)
