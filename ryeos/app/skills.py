"""Skills of the spaces: which are there, whether each holds, and a directive written as one."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from lillux.digests import sha256_hex
from lillux.errors import LilluxError
from lillux.files import create_file, make_directory
from lillux.foreign_text import one_line
from lillux.values import dataclass
from ryeos.app.workspace import Rye
from ryeos.items.directives import parse_directive
from ryeos.items.errors import UsageError, target_exists_error
from ryeos.items.refs import Kind, Location, Reference
from ryeos.trust.resolver import locations
from ryeos.trust.signature import MAX_ITEM_BYTES
from ryeos.trust.skill_files import FILE, SkillManifest, manifest_of

MAX_NAME, MAX_DESCRIPTION = 64, 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillState:
    """A skill of a space. ``problem`` is ``""`` where its directive and all its files hold."""

    location: Location
    manifest: SkillManifest
    problem: str = ""
    code: str = ""
    hint: str = ""

    def describe(self) -> dict[str, Any]:
        """The same as JSON."""
        said: dict[str, Any] = {
            "ref": str(self.location.ref),
            "name": self.manifest.name,
            "space": self.location.space.label,
            "folder": str(self.location.space.base / self.manifest.folder),
            "files": len(self.manifest.files),
            "called": [one.path for one in self.manifest.called],
            "state": "valid" if not self.problem else "refused",
        }
        faults = {"problem": self.problem, "code": self.code, "hint": self.hint}
        return said | {name: text for name, text in faults.items() if text}


def skills(rye: Rye) -> Iterator[SkillState]:
    """Every skill that a directive of project, user or bundle signs, verified file by file."""
    for space in rye.context.spaces:
        for location in locations(space, Kind.DIRECTIVE):
            manifest = _manifest(location)
            if manifest is None:
                continue
            try:
                rye.load(Reference(Kind.DIRECTIVE, location.ref.id), source=space.label)
            except LilluxError as error:
                yield SkillState(
                    location=location,
                    manifest=manifest,
                    problem=str(error),
                    code=error.code,
                    hint=error.hint,
                )
            else:
                yield SkillState(location=location, manifest=manifest)


def _manifest(location: Location) -> SkillManifest | None:
    """The words of a directive before it is verified: only to be listed with its state."""
    from lillux.files import read_bytes

    try:
        return manifest_of(read_bytes(location.path, MAX_ITEM_BYTES).decode())
    except (OSError, LilluxError, UnicodeError):
        return None


def export_skill(rye: Rye, reference: Reference, folder: Path) -> list[Path]:
    """Write a verified directive as a skill that other programs read; the files that were written.

    A directive that signs a folder gives the files of that folder. Raises IntegrityError,
    RyeError `CONFLICT` where the folder of the skill is there.
    """
    from ryeos.trust.skill_files import read_skill

    resolution, item = rye.load(reference)
    ref = resolution.location.ref
    if ref.kind is not Kind.DIRECTIVE:
        raise UsageError(f"{ref}: expected a directive", hint="rye list --type directive")
    skill = read_skill(item)
    if skill:
        name, files = skill.name, dict(skill.files)
    else:
        directive = parse_directive(item.text)
        name = "-".join(ref.name.replace("_", " ").split())[:MAX_NAME].strip("-")
        metadata = {"rye.ref": str(ref), "rye.sha256": sha256_hex(item.data)}
        said = {
            "name": name,
            "description": (one_line(directive.description) or ref.id)[:MAX_DESCRIPTION],
            "metadata": metadata,
        }
        inputs = "".join(
            f"- `{{input:{one.name}}}`: {one_line(one.description) or one.name}\n"
            for one in directive.inputs
        )
        text = f"Inputs, to be filled in first:\n\n{inputs}\n" if inputs else ""
        files = {FILE: skill_text(said, text + (directive.body or directive.xml)).encode()}
    target = folder / name
    if target.exists():
        raise target_exists_error(str(target), "a folder", "name another folder: --to FOLDER")
    for relative, data in files.items():
        path = target / relative
        make_directory(folder)
        make_directory(path.parent, within=folder)
        create_file(path, data, mode=0o755 if data.startswith(b"#!") else 0o644, within=folder)
    return [target / relative for relative in files]


def skill_text(front_matter: Mapping[str, Any], text: str) -> str:
    """A ``SKILL.md`` with this front matter and this text."""
    body = text.strip().encode("utf-8", "replace").decode()
    return f"---\n{_as_yaml(front_matter)}---\n\n{body}\n"


def _as_yaml(values: Mapping[str, Any], indent: str = "") -> str:
    """Plain mappings of text; the quotes of JSON are those of YAML for what can be printed."""
    lines = ""
    for name, value in values.items():
        if isinstance(value, Mapping):
            lines += f"{indent}{name}:\n{_as_yaml(value, f'{indent}  ')}"
        else:
            lines += f"{indent}{name}: {json.dumps(value, ensure_ascii=False)}\n"
    return lines
