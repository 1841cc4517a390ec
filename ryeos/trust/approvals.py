"""What a project brings besides signed items, and what of it the user approved (``rye trust``).

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
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lillux.digests import canonical_json, sha256_hex
from lillux.errors import LilluxError
from lillux.files import file_state, make_directory, read_bytes, write_atomic
from lillux.signing import compute_key_digest, verify_signature
from lillux.values import dataclass
from ryeos.items.refs import AI_DIRECTORY, PROJECT, USER, Space

if TYPE_CHECKING:
    from ryeos.trust.keys import SigningKey
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
_ENVIRONMENT_MARK = "pyvenv.cfg"
# What Python runs at its start, whatever the tool is.
_AT_START = ("*.pth", "sitecustomize.py", "usercustomize.py")
_SITE_PACKAGES = ("lib/python*/site-packages", "Lib/site-packages")


@dataclass(frozen=True, slots=True)
class Part:
    """One thing that a project brings. ``digest`` is ``""`` where its path alone is approved."""

    kind: str
    path: str
    digest: str

    def describe(self) -> dict[str, str]:
        """It as the document holds it."""
        described = {"kind": self.kind, "path": self.path}
        return {**described, "digest": self.digest} if self.digest else described


def parts_of(project: Path, more: tuple[str, ...] = ()) -> Iterator[Part]:
    """What a project brings: each part that is there, with the digest of what is in it now.

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
        digest = part_digest(project, path)
        if digest:
            yield Part(kind, path, digest)


def part_digest(project: Path, relative: str) -> str:
    """The digest of a file or of a folder with programs; ``""`` where there is none."""
    path = project / relative
    try:
        if path.is_file():
            return sha256_hex(read_bytes(path, MAX_PART_BYTES))
        if not path.is_dir():
            return ""
        return sha256_hex("\n".join(_in_folder(path, project)).encode("utf-8", "surrogateescape"))
    except (OSError, LilluxError):
        return ""


def _in_folder(folder: Path, project: Path) -> Iterator[str]:
    """What decides which code a folder with programs starts."""
    mark = folder / _ENVIRONMENT_MARK
    if not mark.is_file():
        yield from (_program(path, project) for path in sorted(folder.iterdir()))
        return
    yield f"{_ENVIRONMENT_MARK} {sha256_hex(read_bytes(mark, MAX_PART_BYTES))}"
    for below in ("bin", "Scripts"):
        yield from (_program(path, project) for path in sorted((folder / below).glob("python*")))
    for pattern in (f"{place}/{name}" for place in _SITE_PACKAGES for name in _AT_START):
        for path in sorted(folder.glob(pattern)):
            yield _program(path, project)


def _program(path: Path, project: Path) -> str:
    """A program by its name and bytes; one outside of the project by where it is."""
    real = Path(os.path.realpath(path))
    is_own = real.is_relative_to(os.path.realpath(project)) and real.is_file()
    return f"{path.name} {sha256_hex(read_bytes(real, MAX_PART_BYTES)) if is_own else real}"


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
    """What the user approved of one project. Thread-safe; notices a changed document."""

    def __init__(self, user: Space, project: Path | None, trust: "TrustStore") -> None:
        self._user, self._trust = user, trust
        self._project = Path(os.path.realpath(project)) if project else None
        name = sha256_hex(os.fsencode(self._project))[:40] if self._project else ""
        self.path = user.ai / APPROVALS_FOLDER / f"{name}.json"
        self._state: tuple[int, ...] | None = None
        self._parts: Mapping[str, Part] = {}

    def parts(self) -> Mapping[str, Part]:
        """The approved parts by path; none where there is no document that holds."""
        state = file_state(self.path)
        if state != self._state:
            self._parts = self._read() if state else {}
            self._state = state
        return self._parts

    def allows(self, relative: str) -> bool:
        """Whether a file counts: it, or the folder of programs it is in, is as it was approved."""
        folder = relative.rpartition("/")[0]
        places = (relative, folder, folder.rpartition("/")[0])  # .venv/bin/python: .venv
        return any(self._holds(path) for path in places if path)

    def allows_bytes(self, relative: str, data: bytes) -> bool:
        """Whether a file counts that was read already."""
        part = self.parts().get(relative) if self._project else None
        return part is not None and part.digest == sha256_hex(data)

    def _holds(self, path: str) -> bool:
        part = self.parts().get(path) if self._project else None
        if part is None or self._project is None:
            return False
        return not part.digest or part.digest == part_digest(self._project, path)

    def approve(self, parts: tuple[Part, ...], key: "SigningKey", now: str) -> Path:
        """Write the document: these parts, and no others. Raises FileSystemError."""
        approval = {
            "project": str(self._project),
            "approved_at": now,
            "parts": [part.describe() for part in parts],
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
            found = (Part(p["kind"], p["path"], p.get("digest", "")) for p in approval["parts"])
            return {part.path: part for part in found}
        except (OSError, ValueError, LookupError, TypeError, AttributeError, LilluxError):
            return {}


def _digest(approval: Mapping[str, Any]) -> str:
    return sha256_hex(PURPOSE.encode() + canonical_json(approval))
