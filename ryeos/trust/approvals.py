"""Parts of a project besides signed items, and which of them the user approved (``rye trust``).

Interpreters, ``.env`` files, files that name versions, settings of remotes and registries: a clone
brings them along, unsigned. Each counts only while its part is approved: by its path
and the digest of what is there, in a document of user space that the user's own key signed for this
purpose. What changes is no longer approved.

A file for each project, ``.ai/config/approvals/<digest of its real path>.json``::

    {"approval": {"project": PATH, "approved_at": TIME,
                  "parts": [{"kind": "env", "path": ".env", "digest": HEX}, ...]},
     "signed_by": FINGERPRINT of 64 digits, "signature": VALUE}

The signature is over ``rye/approval/v1`` and the canonical JSON below it. A part without a digest
is approved by its path. Page: ``docs/trust.md``.
"""

import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lillux.canonical_json import canonical_json
from lillux.digests import sha256_hex
from lillux.errors import LilluxError
from lillux.files import FileTooLargeError, file_state, make_directory, read_bytes, write_atomic
from lillux.signing import compute_key_digest, verify_signature
from lillux.values import dataclass, field
from ryeos.items.errors import IntegrityError
from ryeos.items.refs import AI_DIRECTORY, PROJECT, USER, Space

if TYPE_CHECKING:
    from ryeos.trust.signing_key import SigningKey
    from ryeos.trust.start_files import HeldEnvironment, StartFiles
    from ryeos.trust.store import TrustStore

APPROVALS_FOLDER = "config/approvals"
MAX_APPROVAL_BYTES = 1024 * 1024
MAX_PART_BYTES = 64 * 1024 * 1024
PURPOSE = "rye/approval/v1\n"
ENVIRONMENTS = (".venv", "venv", ".virtualenv")
PROGRAM_FOLDERS = ("node_modules/.bin", f"{AI_DIRECTORY}/bin")
# Where a package manager writes down what it has put into ``node_modules``.
PACKAGE_LISTS = tuple(
    f"node_modules/{name}" for name in (".package-lock.json", ".modules.yaml", ".yarn-state.yml")
)
VERSION_FILES = (".python-version", ".node-version", ".nvmrc", ".ruby-version", ".tool-versions")
DOTENV_FILES = (".env", ".env.local", f"{AI_DIRECTORY}/.env")
# Settings that say where things are sent, by the kind that their approval names.
NETWORK_SETTINGS = {
    "remotes": f"{AI_DIRECTORY}/config/remotes/remotes.yaml",
    "registries": f"{AI_DIRECTORY}/config/registry/registry.yaml",
}
# The label of a project's settings that count like the user's own.
APPROVED_PROJECT = f"{PROJECT}, approved"

_NOT_APPROVED = "as you have not approved it"
_IN_PROJECT = "left out of the PATH, as it lies in a project"
_NAMED_IN_PROJECT = "what it names in a project was left out"
_LINK_INTO_PROJECT = "left out, as it is a link to"
_LINKS_INTO_PROJECTS = "left out, as they are links into projects"


def not_approved(path: str, how: str) -> str:
    """The warning about something of the project that does not count. ``how`` says for what."""
    return f"{path}: not {how}, {_NOT_APPROVED}; to look at it: rye trust"


def left_out_of_path(folder: str) -> str:
    """The warning about a folder of the user's PATH in which agents may put programs."""
    return f"{folder}: {_IN_PROJECT}"


def left_out_of_variable(name: str) -> str:
    """The warning about a variable of the user that names code where agents may write."""
    return (
        f"{name}: {_NAMED_IN_PROJECT}; a signed tool may name it itself, in ENV_CONFIG (env_config)"
    )


def left_out_link(path: str, leads_to: str) -> str:
    """The warning about a link outside that leads into a project, where agents may write."""
    return f"{path}: {_LINK_INTO_PROJECT} {leads_to} in a project"


def left_out_links(folder: str, count: int) -> str:
    """The warning about further links of a folder of the PATH that lead into projects."""
    return f"{folder}: {count} further entries {_LINKS_INTO_PROJECTS}"


def is_about_approval(warning: str) -> bool:
    """True if a warning is one of these: it holds for every run of a session."""
    kinds = (_NOT_APPROVED, _IN_PROJECT, _NAMED_IN_PROJECT, _LINK_INTO_PROJECT)
    return any(one in warning for one in (*kinds, _LINKS_INTO_PROJECTS))


@dataclass(frozen=True, slots=True)
class Part:
    """One thing that a project brings. ``digest`` is ``""`` where its path alone is approved.

    programs  the digest of an environment's programs beside its Python, ``""`` for none
    outside   files outside of the project that it starts: who may write there may change them
    sources   what a start of its Python reads, by path; empty for another part
    names     modules that such a start imports by statements
    is_held   whether such a start gets the bytes that were compared, and no other code
    problem   why it cannot be approved, ``""`` where it can
    """

    kind: str
    path: str
    digest: str
    programs: str = ""
    outside: tuple[str, ...] = field(default=(), compare=False)
    sources: Mapping[str, bytes] = field(default_factory=dict, compare=False, repr=False)
    names: frozenset[str] = field(default=frozenset(), compare=False, repr=False)
    is_held: bool = field(default=False, compare=False)
    problem: str = field(default="", compare=False)

    def describe(self) -> dict[str, str]:
        """It as the document holds it."""
        digests = {"digest": self.digest, "programs": self.programs}
        said = {name: digest for name, digest in digests.items() if digest}
        return {"kind": self.kind, "path": self.path, **said}


def parts_of(project: Path, more: tuple[str, ...] = ()) -> Iterator[Part]:
    """The parts of a project that are there, each with the digest of what is in it now.

    ``more`` are further folders with programs.
    """
    folders = (*PROGRAM_FOLDERS, *_tool_folders(project), *more)
    named = (
        *(("interpreter", path) for path in (*ENVIRONMENTS, *folders)),
        *(("packages", path) for path in PACKAGE_LISTS),
        *(("version", path) for path in VERSION_FILES),
        *(("env", path) for path in DOTENV_FILES),
        *NETWORK_SETTINGS.items(),
    )
    for kind, path in dict.fromkeys(named):
        part = read_part(project, kind, path)
        if part.digest or part.problem:
            yield part


def read_part(project: Path, kind: str, relative: str) -> Part:
    """A part as it is now, each file read once; without a digest where there is none."""
    path = project / relative
    try:
        if path.is_file():
            return Part(kind, relative, sha256_hex(read_bytes(path, MAX_PART_BYTES)))
        if path.is_dir():
            return _read_folder(project, kind, relative)
    except FileTooLargeError as error:
        problem = f"more than can be compared at each start: {error}"
        return Part(kind, relative, "", problem=problem)
    except (OSError, LilluxError) as error:
        return Part(kind, relative, "", problem=str(error))
    return Part(kind, relative, "")


def _read_folder(project: Path, kind: str, relative: str) -> Part:
    from ryeos.trust.start_files import StartFiles, is_environment

    folder, others = str(project / relative), ""
    is_one = relative in ENVIRONMENTS or is_environment(folder)
    files = StartFiles(str(project), keeps=is_one)
    if is_one:
        files.add_environment(folder)
        programs = StartFiles(str(project))
        programs.add_other_programs(folder)
        others = programs.digest()
    else:
        files.add_programs(folder)
    digest, outside = files.digest(), sorted(map(_place, filter(_is_outside, files.found.values())))
    return Part(
        kind,
        relative,
        digest,
        others,
        outside=tuple(dict.fromkeys(outside)),
        sources=files.kept,
        names=files.names(),
        is_held=is_one and _is_held(files, folder),
    )


def _is_held(files: "StartFiles", folder: str) -> bool:
    from ryeos.trust.start_files import held_environment

    python = f"{folder}/bin/python"

    def no_copy(real: str, home: str, made_with: str) -> str:  # noqa: ARG001 - it is not started
        return real

    return held_environment(files, folder, python, "", no_copy) is not None


def _is_outside(what: str) -> bool:
    return what.startswith("outside ")


def _place(what: str) -> str:
    return what.partition(" ")[2]


def _tool_folders(project: Path) -> Iterator[str]:
    """Folders of programs beside tools, which an anchor puts on their PATH."""
    for folder, folders, _ in os.walk(project / AI_DIRECTORY / "tools"):
        if "node_modules" in folders:
            found = Path(folder, "node_modules", ".bin")
            if found.is_dir():
                yield found.relative_to(project).as_posix()
        folders[:] = sorted(name for name in folders if name != "node_modules")


def path_in_project(project: Path | None, path: str) -> str | None:
    """The path below the project, a link in its last part not followed; None for one outside."""
    if project is None:
        return None
    real_project = os.path.realpath(project)
    spelled = Path(path)
    with suppress(OSError, ValueError):
        spelled = Path(os.path.realpath(spelled.parent), spelled.name)
    roots = ((spelled, real_project), (Path(os.path.normpath(path)), str(project)))
    for candidate, root in roots:
        if candidate.is_relative_to(root):
            return candidate.relative_to(root).as_posix()
    return None


class ProjectApproval:
    """The approvals of one project by its user. Thread-safe; notices a changed document."""

    def __init__(
        self,
        user: Space,
        project: Path | None,
        trust: "TrustStore",
        cache: Callable[[], Path | None] = lambda: None,
    ) -> None:
        """``cache`` gives a private folder for copies of programs; None where there is none."""
        self._user, self._trust, self._cache = user, trust, cache
        self._project = Path(os.path.realpath(project)) if project else None
        name = sha256_hex(os.fsencode(self._project))[:40] if self._project else ""
        self.path = user.ai / APPROVALS_FOLDER / f"{name}.json"
        self._state: tuple[int, ...] | None = None
        self._parts: Mapping[str, Part] = {}
        self._compared: dict[str, StartFiles] = {}

    def parts(self) -> Mapping[str, Part]:
        """The approved parts by path; none where there is no document that holds."""
        state = file_state(self.path)
        if state != self._state:
            self._parts = self._read() if state else {}
            self._state = state
        return self._parts

    def allows(self, relative: str, data: bytes | None = None) -> bool:
        """True if a file counts: it, or the folder of programs it is in, is as it was approved.

        ``data`` is its text where that was read already, to be used: it is not read again.
        """
        part = self.parts().get(relative) if self._project else None
        if part is not None and not self._is_environment(part):
            return self._holds(part, data)
        if data is not None:
            return False
        from ryeos.trust.start_files import PROGRAM_FOLDERS as FOLDERS
        from ryeos.trust.start_files import is_python

        folder, _, name = relative.rpartition("/")
        part = self.parts().get(folder)
        if part is not None and not self._is_environment(part):
            return self._holds(part)
        # .venv/bin/python: a part of .venv; .venv/bin is all programs of it
        names = (folder, name) if name in FOLDERS else (folder.rpartition("/")[0], folder)
        part = self.parts().get(names[0])
        if part is None or names[1].rpartition("/")[2] not in FOLDERS:
            return False
        if is_python(name) and names[1] == folder:
            files = self._as_approved(part)
            if files is not None:
                self._compared[part.path] = files
            return files is not None
        return self._holds(part)

    def hold(self, program: str) -> "HeldEnvironment | None":
        """The environment of an approved Python, with the bytes that were compared.

        Those that `allows` has read for this start, else what is there now. None for another
        program, and where the environment cannot be held. Raises IntegrityError where it is not as
        it was approved.
        """
        relative = path_in_project(self._project, program)
        folder, _, below = (relative or "").rpartition("/")[0].rpartition("/")
        part = self.parts().get(folder) if folder and below == "bin" else None
        if self._project is None or part is None or not self._is_environment(part):
            return None
        from ryeos.trust.start_files import held_environment

        place = str(self._project / folder)
        files = self._compared.pop(folder, None) or self._as_approved(part)
        if files is None:
            raise IntegrityError(
                place,
                "expected the environment that you approved, found another",
                hint="to look at it, and approve it: rye trust",
            )

        def copy(real: str, home: str, made_with: str) -> str:
            from ryeos.trust.held_programs import HeldPython

            return HeldPython(self._copies_folder(), files, real, home, made_with).base()

        return held_environment(files, place, program, part.digest, copy)

    def place(self, relative: str) -> str:
        """The path of an approved program to start: a copy of what was compared, in Rye's cache.

        ``""`` for one that is started where it is: no file but its own was compared. Raises
        IntegrityError where it is not as it was approved, FileSystemError.
        """
        folder, _, name = relative.rpartition("/")
        part = self.parts().get(folder)
        if self._project is None or part is None or not part.digest or self._is_environment(part):
            return ""
        from ryeos.trust.start_files import StartFiles, is_runner

        if not is_runner(name):
            return ""
        from ryeos.trust.held_programs import HeldPrograms

        held = HeldPrograms(self._copies_folder(), str(self._project), folder, part.digest)
        if not held.is_there():
            files = StartFiles(str(self._project), copies=True)
            files.add_programs(str(self._project / folder))
            if files.digest() != part.digest:
                raise IntegrityError(
                    str(self._project / folder),
                    "expected the programs that you approved, found others",
                    hint="to look at them, and approve them: rye trust",
                )
            held.write(files)
        return str(held.path / relative)

    def _copies_folder(self) -> Path:
        return self._cache() or self._user.ai / "state" / "approved"

    def _as_approved(self, part: Part) -> "StartFiles | None":
        """Files that an environment runs at a start, each read once; None where one was changed."""
        from ryeos.trust.start_files import StartFiles

        files = StartFiles(str(self._project), keeps=True)
        try:
            files.add_environment(str(Path(str(self._project), part.path)))
            return files if files.digest() == part.digest else None
        except (OSError, LilluxError):
            return None

    def _is_environment(self, part: Part) -> bool:
        return bool(part.programs)

    def _holds(self, part: Part, data: bytes | None = None) -> bool:
        if self._project is None or not part.digest:
            return self._project is not None
        if data is not None:
            return part.digest == sha256_hex(data)
        return read_part(self._project, part.kind, part.path) == part

    def approve(self, parts: tuple[Part, ...], key: "SigningKey", now: str) -> Path:
        """Write the document: these parts, and no others. Raises FileSystemError."""
        approval = {
            "project": str(self._project),
            "approved_at": now,
            "parts": [part.describe() for part in parts if not part.problem],
        }
        document = {
            "approval": approval,
            "signed_by": compute_key_digest(key.public_pem),
            "signature": key.digest_signature(_digest(approval)),
        }
        make_directory(self.path.parent, mode=0o700)
        text = json.dumps(document, indent=2, ensure_ascii=True)
        write_atomic(self.path, text.encode() + b"\n", mode=0o600)
        return self.path

    def revoke(self) -> bool:
        """Remove the document; False if there was none."""
        try:
            self.path.unlink()
        except FileNotFoundError:
            return False
        return True

    def _read(self) -> Mapping[str, Part]:
        try:
            document = json.loads(read_bytes(self.path, MAX_APPROVAL_BYTES))
            approval, signed_by = document["approval"], document["signed_by"]
            key = self._trust.get_key(signed_by[:16], USER)
            is_ours = (
                key is not None
                and key.source == USER
                and compute_key_digest(key.public_pem) == signed_by
                and verify_signature(_digest(approval), document["signature"], key.public_pem)
            )
            if not is_ours or approval["project"] != str(self._project):
                return {}
            found = (
                Part(p["kind"], p["path"], p.get("digest", ""), p.get("programs", ""))
                for p in approval["parts"]
            )
            return {part.path: part for part in found}
        except (OSError, ValueError, LookupError, TypeError, AttributeError, LilluxError):
            return {}


def _digest(approval: Mapping[str, Any]) -> str:
    return sha256_hex(PURPOSE.encode() + canonical_json(approval))
