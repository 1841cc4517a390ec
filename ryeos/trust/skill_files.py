"""Skills: what a signed directive says of the files of a folder, and whether that still holds.

The directive is the detached signature of the folder: no byte of a skill is changed by signing it.

    <skill name="pdf-forms" folder=".claude/skills/pdf-forms">
      <file path="SKILL.md" size="812" sha256="..."/>        below the folder
      <called path="scripts/fill.sh" size="90" sha256="..."/>  elsewhere, below the space's base
    </skill>

The folder and what it calls are below the folder that holds ``.ai``. Format: ``docs/moving-in.md``.
What the XML parser reads decides; what only looks like a manifest to a person is refused.
"""

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

from lillux.contained_paths import require_plain_path, safe_join
from lillux.errors import LilluxError, as_word
from lillux.files import FileTooLargeError, read_bytes
from lillux.patterns import pattern
from lillux.values import dataclass, field
from ryeos.items.directive_xml import directive_error, read_directive_element
from ryeos.items.errors import IntegrityError
from ryeos.items.header_names import skeleton, squashed
from ryeos.items.header_values import MetadataError, line_of
from ryeos.items.line_ends import pinned_bytes
from ryeos.items.markdown import Fence
from ryeos.items.refs import AI_DIRECTORY, Kind, Space
from ryeos.items.unread_markdown import shown_lines
from ryeos.items.xml_documents import Element
from ryeos.items.yaml import parse_yaml
from ryeos.trust.skill_folders import MAX_FILES, FolderContents, SkillFolderError, folder_contents
from ryeos.trust.verify import VerifiedItem

FILE = "SKILL.md"
MAX_BYTES = 16 * 1024 * 1024
OWN_FOLDER = f"{AI_DIRECTORY}/skills"
"""The folder for copies of skills that lie outside of a space."""
OF_OTHER_PROGRAMS = frozenset({".git", ".DS_Store", "Thumbs.db", "desktop.ini"})
"""Names in a skill's folder that other programs write: no skill is signed with one of them."""
_SEEMS_MANIFEST = pattern(r"(?i)<\s*(?:[^\s<>/:\"'=]{1,60}:)?skill(?![\w.:-])")
_SEEMS_LISTED = pattern(r"(?i)\bsha256\s*=\s*[\"']")
_ATTRIBUTES: Mapping[str, Collection[str]] = {
    "skill": {"name", "folder"},
    "file": {"path", "size", "sha256"},
    "called": {"path", "size", "sha256"},
}
_FENCE = "---"


@dataclass(frozen=True, slots=True)
class ListedFile:
    """A file that a manifest lists, by its POSIX path, its size in bytes and its SHA-256."""

    path: str
    size: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillManifest:
    """The ``<skill>`` of a directive: its folder below the space's base, and its files."""

    name: str
    folder: str
    files: tuple[ListedFile, ...]
    called: tuple[ListedFile, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Skill:
    """A skill whose bytes are those that were signed. ``files`` are by their paths below it.

    ``caches`` are the paths of bytecode that Python wrote beside its scripts: see `drop_caches`.
    """

    name: str
    folder: Path
    files: Mapping[str, bytes] = field(repr=False)
    caches: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """Its ``SKILL.md``."""
        return self.files[FILE].decode("utf-8-sig", "replace")


def manifest_of(text: str) -> SkillManifest | None:
    """The manifest in a directive's text; None for one of no skill. Raises MetadataError."""
    seen = skeleton(text).casefold()
    if "skill" not in seen and "sha256" not in seen:
        return None
    fence, root = read_directive_element(text)
    found = [child for child in root.children if child.tag == "skill"]
    if len(found) > 1:
        raise directive_error(found[1], "expected one <skill>, found two")
    listed = [child for one in found for child in one.children]
    for one in (*found, *listed):
        _require_known(one)
    _require_no_other_spelling(root, listed)
    _require_all_read(text, fence, found, listed)
    if not found:
        return None
    said = found[0]
    folder = _attribute(said, "folder")
    parts = folder.split("/")
    if parts[0] == AI_DIRECTORY and "/".join(parts[:2]) != OWN_FOLDER:
        raise directive_error(said, f"skill: {AI_DIRECTORY} holds skills in {OWN_FOLDER} alone")
    _require_plain(said, folder)
    files = tuple(_listed_file(child) for child in said.children if child.tag == "file")
    called = tuple(_listed_file(child) for child in said.children if child.tag == "called")
    if FILE not in {one.path for one in files}:
        raise directive_error(said, f"skill: expected {FILE} among its files, found none")
    if len(files) + len(called) > MAX_FILES:
        raise directive_error(said, f"skill: expected at most {MAX_FILES} files")
    if sum(one.size for one in (*files, *called)) > MAX_BYTES:
        raise directive_error(said, f"skill: expected at most {MAX_BYTES} bytes in all")
    name = _attribute(said, "name")
    return SkillManifest(name=name, folder=folder, files=files, called=called)


def _require_known(element: Element) -> None:
    """Refuse what a reader takes for a part of a manifest and nothing looks at."""
    tag = element.tag[:60]
    known = _ATTRIBUTES.get(element.tag)
    if known is None:
        raise directive_error(element, f"skill: expected <file> or <called>, found <{tag}>")
    if more := sorted(element.attributes.keys() - known):
        raise directive_error(element, f"{tag}: {more[0][:60]} is not read; remove it")
    texts = (part.strip() for part in element.content if isinstance(part, str))
    if any(texts) or (element.tag != "skill" and element.children):
        raise directive_error(element, f"{tag}: expected nothing but attributes, found content")


def _require_no_other_spelling(root: Element, listed: Sequence[Element]) -> None:
    """Refuse files with digests that stand elsewhere than in the manifest."""
    read = {id(one) for one in listed}
    for one in root.descendants():
        is_file = squashed(one.tag.rpartition(":")[2]) in {"file", "called"}
        if id(one) not in read and is_file and "sha256" in map(squashed, one.attributes):
            problem = f"<{one.tag[:60]}> with a sha256 is read inside of one <skill> alone"
            raise directive_error(one, f"{problem}, which stands directly in <directive>")


def _require_all_read(
    text: str, fence: Fence, found: Sequence[Element], listed: Sequence[Element]
) -> None:
    """Refuse what looks like a manifest to a person and is none to the parser.

    It may be a comment, CDATA, the inside of ``<raw>``, a tag in other letters or with a prefix,
    an element that stands elsewhere, or a line below the block.
    """
    inside = skeleton(fence.inside)
    places = [line_of(inside, one.start()) for one in _SEEMS_MANIFEST.finditer(inside)]
    if len(places) > len(found):
        read = [one.line - fence.lines_above for one in found]
        unread = next((one for one in places if one not in read), places[-1])
        raise _unread_error(fence.lines_above + unread)
    digests = [line_of(inside, one.start()) for one in _SEEMS_LISTED.finditer(inside)]
    if found and len(digests) > len(listed):
        read = [one.line for one in listed]
        lines = [fence.lines_above + one for one in digests]
        unread = next((one for one in lines if one not in read), lines[-1])
        raise MetadataError("directive", "a sha256 that is not read: remove it", unread)
    last = fence.lines_above + fence.inside.count("\n") + 1
    for number, line in shown_lines(text):
        is_inside = fence.lines_above < number <= last
        if not is_inside and _SEEMS_MANIFEST.match(skeleton(line).strip()):
            raise _unread_error(number)


def _unread_error(line: int) -> MetadataError:
    return MetadataError(
        "directive",
        "looks like a <skill> and is not read: no file would be compared",
        line,
        hint="write one <skill name=... folder=...> directly inside of <directive>, in small"
        " letters and in no comment; put an example into a fenced block of another language",
    )


def _attribute(element: Element, name: str) -> str:
    value = element.attributes.get(name, "")
    if not value:
        raise directive_error(element, f"{element.tag[:60]}: expected {name}, found none")
    return value


def _require_plain(element: Element, path: str) -> None:
    try:
        require_plain_path(path)
    except LilluxError as error:
        raise directive_error(element, f"{element.tag[:60]}: {error}") from None


def _listed_file(element: Element) -> ListedFile:
    path, size = _attribute(element, "path"), _attribute(element, "size")
    _require_plain(element, path)
    if not (size.isascii() and size.isdigit() and len(size) <= len(str(MAX_BYTES))):
        raise directive_error(element, f"size: expected a number of bytes, found {size[:40]!r}")
    return ListedFile(path, int(size), _attribute(element, "sha256"))


def read_skill(item: VerifiedItem) -> Skill | None:
    """The skill of a verified directive; None for a directive of no skill.

    (1) the manifest is part of what was signed
    (2) no link leads to the folder or to a file, and the folder holds nothing that is not listed,
        but bytecode of its scripts
    (3) each listed file is read once, and these bytes have the size and the digest that were
        signed, or have them as soon as each CR LF of the text is LF: as git may write it

    Raises IntegrityError that names the file, MetadataError.
    """
    if item.target.kind is not Kind.DIRECTIVE:
        return None
    manifest = manifest_of(item.text)  # (1)
    if manifest is None:
        return None
    base = item.target.space.base
    folder = _join_path(base, manifest.folder, manifest, item)
    listed = {one.path for one in manifest.files}
    there = _contents_of(folder, manifest, item)
    for relative in there.files:  # (2)
        if relative not in listed:
            raise _changed_error(
                folder / relative, "not there when the skill was signed", manifest, item
            )
    files = {one.path: _bytes_of(folder, one, manifest, item) for one in manifest.files}  # (3)
    for one in manifest.called:
        _bytes_of(base, one, manifest, item)
    caches = tuple(one for one in there.caches if one not in listed)
    return Skill(name=manifest.name, folder=folder, files=files, caches=caches)


def drop_caches(skill: Skill, path: str) -> None:
    """Remove the bytecode beside the scripts of a skill that is about to be given to a reader.

    Python would run it in place of the scripts that were verified, and makes it anew from these.
    Raises IntegrityError for what cannot be removed; ``path`` is that of the directive.
    """
    for relative in skill.caches:
        try:
            _remove_below(skill.folder, relative)
        except FileNotFoundError:
            continue
        except OSError as error:
            raise IntegrityError(
                path,
                f"skill {skill.name}: {relative} is bytecode that no one has signed ({error})",
                hint=f"delete it: rm {as_word(skill.folder / relative)}",
            ) from None


def _remove_below(folder: Path, relative: str) -> None:
    """Remove a file below a folder; no link on the way is followed where the system allows it."""
    *parents, name = relative.split("/")
    if os.unlink not in os.supports_dir_fd:
        Path(folder, relative).unlink()
        return
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
    opened = os.open(folder, flags)
    try:
        for part in parents:
            below = os.open(part, flags, dir_fd=opened)
            os.close(opened)
            opened = below
        os.unlink(name, dir_fd=opened)
    finally:
        os.close(opened)


def _join_path(root: Path, relative: str, manifest: SkillManifest, item: VerifiedItem) -> Path:
    try:
        return safe_join(root, relative)
    except LilluxError as error:
        raise _changed_error(root / relative, str(error), manifest, item) from None


def _contents_of(folder: Path, manifest: SkillManifest, item: VerifiedItem) -> "FolderContents":
    try:
        return folder_contents(folder)
    except SkillFolderError as error:
        raise _changed_error(folder / error.path, error.problem, manifest, item) from None


def _bytes_of(root: Path, one: ListedFile, manifest: SkillManifest, item: VerifiedItem) -> bytes:
    path = _join_path(root, one.path, manifest, item)
    try:
        data = _pinned(read_bytes(path, _size_with_returns(one)), one)
    except (FileNotFoundError, NotADirectoryError):
        raise _changed_error(path, "the file is no longer there", manifest, item) from None
    except FileTooLargeError:
        raise _changed_error(path, "content modified since signing", manifest, item) from None
    if data is None:
        raise _changed_error(path, "content modified since signing", manifest, item)
    return data


def _size_with_returns(one: ListedFile) -> int:
    """The most bytes that a file has where git writes a return before each end of a line."""
    return one.size * 2


def _pinned(data: bytes, one: ListedFile) -> bytes | None:
    """The bytes that were signed, where the file has them or is the same text with CR LF."""
    same = pinned_bytes(data, one.sha256)
    return same if same is not None and len(same) == one.size else None


def _changed_error(
    path: Path, problem: str, manifest: SkillManifest, item: VerifiedItem
) -> IntegrityError:
    space = item.target.space
    where = " --space user" if space.tier == "user" else ""
    command = f"rye skill add {as_word(space.base / manifest.folder)}{where}"
    hint = f"read what changed; if it is right: {command}"
    foreign = next((one for one in path.parts if one in OF_OTHER_PROGRAMS), "")
    if foreign:
        hint = f"it belongs to another program, and to no skill: move {foreign} elsewhere"
    return IntegrityError(str(path), f"skill {manifest.name}: {problem}", hint=hint)


def front_matter(data: bytes) -> tuple[dict[str, object], str]:
    """The front matter of a ``SKILL.md``, and the text below it. Raises MetadataError."""
    try:
        text = data.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError:
        raise MetadataError(FILE, "expected UTF-8 text") from None
    lines = text.split("\n")
    if lines[0].rstrip() != _FENCE:
        raise MetadataError(FILE, "expected --- and a front matter in the first line")
    end = next((n for n, line in enumerate(lines) if n and line.rstrip() == _FENCE), None)
    if end is None:
        raise MetadataError(FILE, "expected a line --- to close the front matter")
    return parse_yaml("\n".join(["", *lines[1:end]]), FILE), "\n".join(lines[end + 1 :]).strip()


@dataclass(frozen=True, slots=True)
class FurtherFile:
    """A file that an item signs by its digest. ``problem`` is why its bytes are not known."""

    path: str
    data: bytes = field(default=b"", repr=False)
    problem: str = ""


def further_files(text: str, space: Space) -> Iterator[FurtherFile]:
    """The files that a directive's manifest lists, for a person who is about to sign it.

    The bytes have the digest that is signed; a file that is another is named as that.
    """
    try:
        manifest = manifest_of(text)
    except LilluxError as error:
        yield FurtherFile("the files of a skill", problem=f"are not known: {error}")
        return
    if manifest is None:
        return
    rows = [(manifest.folder, one) for one in manifest.files] + [("", o) for o in manifest.called]
    for folder, one in rows:
        relative = f"{folder}/{one.path}" if folder else one.path
        try:
            data = read_bytes(safe_join(space.base, relative), _size_with_returns(one))
        except FileTooLargeError:
            data = b""
        except (OSError, LilluxError) as error:
            yield FurtherFile(relative, problem=f"cannot be read: {error}")
            continue
        same = _pinned(data, one)
        if same is None:
            problem = "is not what this manifest says; run rye skill add again"
            yield FurtherFile(relative, problem=problem)
        else:
            yield FurtherFile(relative, same)
