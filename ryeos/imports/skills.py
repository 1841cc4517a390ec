"""Folders with a ``SKILL.md``, read as directives that sign them. No byte of a skill changes.

A skill below the base of the space stays where it lies, so that other programs still read it;
any other is copied to ``.ai/skills``. Nothing of it is run.
"""

import re
from collections.abc import Iterator, Mapping
from html import escape
from pathlib import Path

from lillux.contained_paths import path_inside
from lillux.digests import sha256_hex
from lillux.errors import LilluxError, as_word
from lillux.files import read_bytes
from lillux.foreign_text import one_line
from ryeos.imports.plan import ImportPlan, ImportSource, ProposedItem, plain_name, shown_path
from ryeos.items.header_values import MetadataError
from ryeos.items.line_ends import lf_bytes
from ryeos.items.refs import AI_DIRECTORY, ItemRef, Kind
from ryeos.trust.skill_files import (
    FILE,
    MAX_BYTES,
    OF_OTHER_PROGRAMS,
    OWN_FOLDER,
    ListedFile,
    SkillManifest,
    front_matter,
    manifest_of,
)
from ryeos.trust.skill_folders import SkillFolderError, folder_contents

CATEGORY = "skills"
MAX_NAME, MAX_DESCRIPTION, MAX_CALLED = 64, 1024, 64
_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_CALLED = re.compile(r"[\w.~/-]{1,200}\.(?:py|sh|bash|js|mjs|cjs|ts|rb|pl|ps1)\b")
_VERSION = re.compile(r'<directive name="[a-z0-9_]+" version="(\d{1,6})\.(\d{1,6})\.(\d{1,6})">')


def read_skill_folder(source: ImportSource) -> ImportPlan:
    """The directive of one skill; what keeps it from being made is among its problems."""
    folder = source.path if source.path.is_dir() else source.path.parent
    origin = shown_path(folder / FILE, source.project)
    try:
        item = _skill(folder, origin, source)
    except (SkillFolderError, MetadataError, LilluxError) as error:
        name = plain_name(folder.absolute().name)
        item = ProposedItem(
            name=folder.absolute().name,
            ref=ItemRef(Kind.DIRECTIVE, f"{CATEGORY}/{_id_of(name)}"),
            suffix=".md",
            data=b"",
            origin=origin,
            problems=(str(error),),
        )
    return ImportPlan((item,))


def _skill(folder: Path, origin: str, source: ImportSource) -> ProposedItem:
    """Raises LilluxError for what cannot be a skill."""
    base = source.base or source.project or folder
    inside = path_inside(Path(folder.resolve()), Path(base.resolve()))
    is_own = not source.copies and inside not in (None, ".", "")
    is_own = is_own and (not f"{inside}/".startswith(f"{AI_DIRECTORY}/") or _is_in_own(inside))
    files, left_out = _contents(folder, is_own=is_own)
    said, text = front_matter(files.get(FILE, b""))
    name, description = _name(said), _description(said)
    place = inside if is_own and inside else f"{OWN_FOLDER}/{name}"
    called = dict(_called_scripts(text, files, folder, base)) if is_own else {}
    manifest = SkillManifest(
        name=name,
        folder=place,
        files=tuple(_listed_file(path, data) for path, data in files.items()),
        called=tuple(_listed_file(path, data) for path, data in called.items()),
    )
    item_id = f"{CATEGORY}/{_id_of(name)}"
    notes = [
        f"a script of this skill lies outside of it, and is signed too: {one}" for one in called
    ]
    notes += [f"left out: {one}" for one in left_out]
    if name != folder.absolute().name:
        notes.append(f"it is called {name}, its folder is not")
    if said.get("allowed-tools"):
        notes.append(f"its client lets it use: {str(said['allowed-tools'])[:200]}")
    version = _version(Path(base, AI_DIRECTORY, "directives", f"{item_id}.md"), manifest)
    return ProposedItem(
        name=name,
        ref=ItemRef(Kind.DIRECTIVE, item_id),
        suffix=".md",
        data=directive_text(manifest, description, version).encode(),
        origin=origin,
        shown=description,
        held=f"{len(files) + len(called)} files, in {place}",
        files={} if is_own else {f"skills/{name}/{path}": data for path, data in files.items()},
        notes=tuple(notes),
    )


def _is_in_own(inside: str | None) -> bool:
    return f"{inside}/".startswith(f"{OWN_FOLDER}/")


def _id_of(name: str) -> str:
    spelt = re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")
    return spelt if spelt[:1].isalpha() else f"skill_{spelt}"


def _contents(folder: Path, *, is_own: bool) -> tuple[dict[str, bytes], list[str]]:
    """The files by their paths, and what is no part of the skill, each with the reason.

    Where the folder stays in its place, what other programs write there is refused: it would lie
    beside the skill unsigned. Raises SkillFolderError, also before a large file is read.
    """
    there = folder_contents(folder, OF_OTHER_PROGRAMS)
    if is_own and there.left_out:
        problem = (
            f"belongs to another program; move it out of {as_word(folder)}, delete it, or copy"
        )
        problem += f" the skill without it: rye skill add --copy {as_word(folder)}"
        raise SkillFolderError(there.left_out[0], problem)
    left_out = [f"{one}, of another program" for one in there.left_out]
    left_out += [f"{one}, bytecode of Python" for one in there.caches]
    files: dict[str, bytes] = {}
    left = MAX_BYTES
    for relative in there.files:
        path = folder / relative
        size = path.lstat().st_size
        if size > left:
            problem = f"expected at most {MAX_BYTES} bytes in the whole skill, found more"
            raise SkillFolderError(relative, problem)
        files[relative] = read_bytes(path, left)
        left -= len(files[relative])
    return files, left_out


def _name(said: Mapping[str, object]) -> str:
    name = said.get("name")
    if not isinstance(name, str) or not _NAME.fullmatch(name) or len(name) > MAX_NAME:
        found = "none" if name is None else repr(name)[:80]
        raise MetadataError(
            FILE, f"name: expected small letters, digits and single hyphens, found {found}"
        )
    return name


def _description(said: Mapping[str, object]) -> str:
    description = said.get("description")
    if not isinstance(description, str) or not description.strip():
        raise MetadataError(FILE, "description: expected a text, found none")
    return one_line(description, MAX_DESCRIPTION)


def _called_scripts(
    text: str, files: Mapping[str, bytes], folder: Path, base: Path
) -> Iterator[tuple[str, bytes]]:
    """The scripts outside of the folder that its text names, by their paths below the base."""
    root, seen = base.resolve(), set[str]()
    for word in dict.fromkeys(_CALLED.findall(_texts(text, files))):
        for start in (folder, base):
            path = Path(os_path(start, word))
            relative = path_inside(path, root)
            if relative is None or relative in seen or path_inside(path, folder.resolve()):
                continue
            if f"{relative}/".startswith(f"{AI_DIRECTORY}/") or not path.is_file():
                continue
            seen.add(relative)
            if len(seen) > MAX_CALLED:
                raise SkillFolderError(FILE, f"expected at most {MAX_CALLED} scripts outside of it")
            yield relative, read_bytes(path, MAX_BYTES)


def os_path(start: Path, word: str) -> Path:
    """The real path that a word of a text names, from a folder; ``~`` is no folder here."""
    try:
        return Path(start, word).resolve()
    except (OSError, RuntimeError):
        return start.resolve()


def _texts(text: str, files: Mapping[str, bytes]) -> str:
    others = (data for path, data in files.items() if path.endswith(".md") and path != FILE)
    return "\n".join([text, *(data.decode("utf-8", "replace") for data in others)])


def _listed_file(path: str, data: bytes) -> ListedFile:
    plain = lf_bytes(data)
    return ListedFile(path, len(plain), sha256_hex(plain))


def _version(path: Path, manifest: SkillManifest) -> str:
    """The version of the directive that is there, or the one after it where the files changed."""
    try:
        text = read_bytes(path, MAX_BYTES).decode()
        found = _VERSION.search(text)
        if not found:
            return "1.0.0"
        major, minor, patch = map(int, found.groups())
        is_same = manifest_of(text) == manifest
    except (OSError, LilluxError, UnicodeError):
        return "1.0.0"
    return f"{major}.{minor}.{patch + (not is_same)}"


def directive_text(manifest: SkillManifest, description: str, version: str) -> str:
    """The directive that signs a skill."""
    rows = [("file", one) for one in manifest.files] + [("called", o) for o in manifest.called]
    listed = "\n".join(
        f'    <{tag} path="{escape(one.path)}" size="{one.size}" sha256="{one.sha256}"/>'
        for tag, one in rows
    )
    return f"""# The skill {manifest.name}

```xml
<directive name="{_id_of(manifest.name)}" version="{version}">
  <metadata>
    <description>{escape(description)}</description>
    <category>{CATEGORY}</category>
    <author>rye import</author>
  </metadata>
  <skill name="{manifest.name}" folder="{escape(manifest.folder)}">
{listed}
  </skill>
</directive>
```
"""
