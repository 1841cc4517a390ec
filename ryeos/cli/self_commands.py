"""``rye self where``, ``extract`` and ``clean``: this program itself."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lillux.files import file_system_error, make_directory
from lillux.values import dataclass, replace
from ryeos.cli.places import (
    modules_path,
    project_reason,
    require_packed_program,
)
from ryeos.cli.plain_arguments import Arguments
from ryeos.cli.session import Command, Session, packed_program, program_path
from ryeos.errors import TargetExistsError

if TYPE_CHECKING:  # only in `rye.pyz`
    from zipboot.launch import Program


def _configure_where(_: Arguments) -> None:
    """No arguments of its own."""


def _configure_extract(parser: Arguments) -> None:
    parser.add_argument("folder", metavar="DIR", help="a folder that is new or empty")


def _configure_clean(parser: Arguments) -> None:
    parser.add_argument("--dry-run", action="store_true", help="tell, and remove nothing")


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
            continue  # told among the problems
    loaded, problems = program.natives.loaded, program.natives.problems
    return {
        **{name: {"loaded": path} for name, path in loaded.items()},
        **{name: {"problem": problem} for name, problem in problems.items()},
    }


def _packed_lines(packed: dict[str, Any]) -> Iterator[str]:
    if packed:
        ways = {"code": "packed code", "shiv": "unpacked sources"}
        yield f"start          {ways[packed['start']]}"
        for name, told in sorted(packed["natives"].items()):
            yield f"native         {name}: {told.get('loaded') or told['problem']}"
        for folder in packed["cache_folders"].values():
            yield f"cache folder   {folder}"


# --- extract --------------------------------------------------------------------------------------


def _extract(session: Session) -> int:
    program = require_packed_program(hint="the sources are there already")
    folder = Path(session.arguments.folder)
    if folder.is_file() or (folder.is_dir() and any(folder.iterdir())):
        raise TargetExistsError(str(folder), "something", "name a folder that is new or empty")
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
    """Something in the cache, and why it is still there after it was to be removed."""

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
        return 0  # another process removes it at this moment


def _remove(program: "Program", kept: _Kept) -> _Kept:
    try:
        program.remove(kept.path)
    except FileNotFoundError:
        return kept  # another process was quicker
    except OSError as error:  # on Windows a compiled module that is loaded cannot be removed
        return replace(kept, problem=(error.strerror or str(error)).lower())
    return kept


COMMANDS = {
    "self where": Command(_configure_where, _where, ["rye self where", "rye self where --json"]),
    "self extract": Command(_configure_extract, _extract, ["rye self extract rye-inside"]),
    "self clean": Command(_configure_clean, _clean, ["rye self clean --dry-run", "rye self clean"]),
}
