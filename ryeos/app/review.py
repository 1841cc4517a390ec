"""An item as a person is shown it before it is signed, and its text, kept to compare the next with.

One value is made of one read: its bytes are shown, compared, signed and kept. Above the text stand
space, file, kind, id, rights, signer, and what it replaces; then each file that is signed with it.
"""

import json
import os
import re
from base64 import b64decode, b64encode
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from difflib import unified_diff
from pathlib import Path
from typing import Any

from lillux.digests import sha256_hex
from lillux.errors import LilluxError
from lillux.files import make_directory, read_bytes, write_atomic
from lillux.values import dataclass, field
from ryeos.app.output import utc_text
from ryeos.app.shown_text import ShownText, escape_warning, shown_text, shown_words
from ryeos.app.workspace import Rye
from ryeos.items.refs import Kind, Space
from ryeos.items.rights import LOOPBACK, Rights
from ryeos.items.specs import tool_spec
from ryeos.trust.item_rules import is_module, validate_item, version_in
from ryeos.trust.sign import SignReport
from ryeos.trust.sign_targets import ReadItem, SignTarget
from ryeos.trust.signature import MAX_ITEM_BYTES, split
from ryeos.trust.skill_files import FurtherFile, further_files

SIGNED_FOLDER = "state/signed"
MAX_KEPT_TEXT = 256 * 1024
_DIGITS = 16
"""Of a digest, as it is shown."""
_RETURN = re.compile(r"\r\n|[\r\n]")
_KEPT_MARK = '{"signed_last": '


@dataclass(frozen=True, slots=True, kw_only=True)
class SignedLast:
    """The text signed last at a path. ``data`` is None where it was too long to keep."""

    data: bytes | None = field(repr=False)
    files: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    version: str = ""
    signed_at: str = ""
    fingerprint: str = ""

    @property
    def words(self) -> str:
        """The signature that a new one replaces, for a person."""
        version = f"version {self.version}" if self.version else "a text without a version"
        by = f" by {self.fingerprint}" if self.fingerprint else ""
        at = f", signed {utc_text(self.signed_at)}{by}" if self.signed_at else ", signed before"
        long = "" if self.data is not None else "; that text was too long to keep: all is shown"
        return f"{version}{at}{long}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Review:
    """An item for a person to read: facts about it, its text, further files that it signs.

    ``before`` is what was signed last, None for a new item.
    """

    item: ReadItem
    facts: Sequence[tuple[str, str]]
    files: Sequence[FurtherFile]
    before: SignedLast | None

    @property
    def is_new(self) -> bool:
        """True if nothing was signed at this place that is known."""
        return self.before is None

    def summary(self, *, ascii_only: bool = False) -> list[str]:
        """The lines above the text: the facts, and warnings."""
        target = self.item.target
        head = f"{shown_words(target.label)}  sha256 {self.item.sha256[:_DIGITS]}"
        lines = [head, *(f"  {name:<9} {shown_words(text)}" for name, text in self.facts)]
        return [*lines, *(f"  warning: {line}" for line in self.warnings(ascii_only=ascii_only))]

    def warnings(self, *, ascii_only: bool = False) -> list[str]:
        """Warnings of what may mislead a reader of the text."""
        counts: Counter[str] = Counter()
        found: list[str] = []
        for one in self._now(ascii_only=ascii_only):
            counts.update(one.shown.escapes)
            found += [f"{shown_words(one.name)}: {one.note}"] if one.note else []
        said = escape_warning(dict(sorted(counts.items())))
        return [said, *found] if said else found

    @property
    def misleads(self) -> bool:
        """True if a person has to look twice: something is shown as an escape, or not at all."""
        return bool(self.warnings())

    def text(self, *, whole: bool = False, ascii_only: bool = False) -> list[str]:
        """The texts: all of a new item, else what changed since it was signed last; or all."""
        known = {} if whole else self._before()
        lines: list[str] = []
        for one in self._now(ascii_only=ascii_only):
            if one.name:
                lines.append(f"=== {shown_words(one.name)}{f': {one.note}' if one.note else ''}")
            if one.name not in known:
                lines += [f"{' ' if whole else '+'}{line}" for line in one.shown.lines]
            elif known[one.name] == one.data:
                lines.append("    as it was signed")
            elif not one.note:
                before = shown_text(known[one.name], one.suffix, ascii_only=ascii_only).lines
                lines += unified_diff(before, one.shown.lines, "signed", "now", lineterm="", n=3)
        gone = known.keys() - {"", *(one.path for one in self.files)}
        lines += [f"=== {shown_words(name)}: no longer part of it" for name in sorted(gone)]
        return lines

    def lines(self, *, ascii_only: bool = False) -> list[str]:
        """All that a person has to see before a question."""
        return [*self.summary(ascii_only=ascii_only), *self.text(ascii_only=ascii_only)]

    def _now(self, *, ascii_only: bool) -> Iterator["_NamedText"]:
        """The item's text, then the further files."""
        target = self.item.target
        own, suffix = own_text(target, self.item.data), target.verify_target.suffix
        yield _NamedText("", own, suffix, shown_text(own, suffix, ascii_only=ascii_only))
        for one in self.files:
            suffix = Path(one.path).suffix
            if one.problem or b"\0" in one.data:
                what = f"not text, not shown: {len(one.data)} bytes, sha256 {sha256_hex(one.data)}"
                yield _NamedText(one.path, one.data, suffix, ShownText(()), one.problem or what)
            else:
                shown = shown_text(one.data, suffix, ascii_only=ascii_only)
                yield _NamedText(one.path, one.data, suffix, shown)

    def _before(self) -> dict[str, bytes]:
        """The texts that were signed last, by their names."""
        if self.before is None or self.before.data is None:
            return {}
        return {"": own_text(self.item.target, self.before.data), **self.before.files}


@dataclass(frozen=True, slots=True)
class _NamedText:
    """A text of a review; the item's own has no name. ``note`` is why it is not shown."""

    name: str
    data: bytes
    suffix: str
    shown: ShownText
    note: str = ""


def review_of(rye: Rye, item: ReadItem, *, wanted_by: str = "") -> Review:
    """The review of an item in a project, made of the bytes that were read from it."""
    target = item.target
    before = signed_last(rye.context.spaces.user, target)
    if before is None:
        before = _as_it_is_signed(rye, item)
    return Review(
        item=item,
        facts=tuple(_facts(rye, item, before, wanted_by)),
        files=tuple(_further_files(item)),
        before=before,
    )


def own_text(target: SignTarget, data: bytes) -> bytes:
    """The bytes of a file without the lines that Rye writes."""
    form, where = target.verify_target.form, str(target.path)
    try:
        text = data.decode()
        lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
        raw = _split_at_returns(text)
        signed = split("\n".join(lines), form, where) if form else None
    except (UnicodeDecodeError, LilluxError):
        return data
    if signed is None:
        return data
    kept = f"{signed.shebang}{signed.body}"
    start, left_out = signed.shebang.count("\n"), len(lines) - len(kept.split("\n"))
    chosen = [*range(start), *range(start + left_out, len(lines))]
    if "\n".join(lines[at] for at in chosen) != kept:
        return data
    return "".join(raw[at] for at in chosen).encode()


def _split_at_returns(text: str) -> list[str]:
    """The lines with what ends them, as signing counts them: the last one has no end."""
    lines, start = [], 0
    for end in _RETURN.finditer(text):
        lines.append(text[start : end.end()])
        start = end.end()
    return [*lines, text[start:]]


def _further_files(item: ReadItem) -> Iterator[FurtherFile]:
    """The files that a skill, or an imported tool, signs by their digests."""
    target, data = item.target, item.data
    if target.kind is Kind.TOOL and target.verify_target.suffix == ".py":
        from ryeos.imports import tool_texts

        yield from tool_texts.further_files(data.decode("utf-8", "replace"), target.space.base)
    elif target.kind is Kind.TOOL:
        yield from _files_of_task(item)
    elif target.kind is Kind.DIRECTIVE:
        yield from further_files(data.decode("utf-8", "replace"), target.space)


def _files_of_task(item: ReadItem) -> Iterator[FurtherFile]:
    """The files of a tool on the runtime of tasks; of any other, and of no tool, none."""
    from ryeos.items.task_items import RUNTIME, TaskItem

    try:
        spec = tool_spec(validate_item(item.target, item.data).header, item.target.path.suffix)
        if spec.executor_id != RUNTIME:
            return
        said = TaskItem.from_config(spec.config)
    except LilluxError:
        return  # signing says why
    from ryeos.imports.tasks import further_files

    yield from further_files(said, item.target.space.base)


def _facts(
    rye: Rye, item: ReadItem, before: SignedLast | None, wanted_by: str
) -> Iterator[tuple[str, str]]:
    target = item.target
    try:
        header: Mapping[str, Any] = validate_item(target, item.data).header
        problem = ""
    except LilluxError as error:
        header, problem = {}, str(error)
    yield "space", f"{target.space.label}, {target.space.base}"
    yield "file", _below_base(target)
    version = version_in(header)
    what = target.ref.id if target.ref else "a file of data, which is no item"
    yield "kind", f"{target.kind.value}, id {what}{f', version {version}' if version else ''}"
    yield "rights", problem or rights_words(rye, target, header)
    signer = own_fingerprint(rye)
    yield "signer", f"{signer or 'your key'}{f'; wanted by {wanted_by}' if wanted_by else ''}"
    yield "replaces", before.words if before else _unsigned_words(item)


def _unsigned_words(item: ReadItem) -> str:
    """The text that the first one to be signed here replaces: none, or the file's own."""
    path, within = item.target.path, item.target.space.within
    try:
        there = read_bytes(path, MAX_ITEM_BYTES, within=within)
    except FileNotFoundError:
        there = item.data
    except LilluxError as error:
        return f"what cannot be read: {error}"
    if there == item.data:
        return "nothing: it is new"
    size = len(there)
    return f"the text that is in the file now, {size} bytes and not signed; a copy is kept"


def _below_base(target: SignTarget) -> str:
    try:
        return target.path.relative_to(target.space.base).as_posix()
    except ValueError:
        return str(target.path)


def own_fingerprint(rye: Rye) -> str:
    """The fingerprint of the own key, without its passphrase; ``""`` where there is none."""
    from lillux.signing import compute_key_fingerprint

    try:
        return compute_key_fingerprint(
            read_bytes(rye.context.key_directory / "public_key.pem", MAX_KEPT_TEXT)
        )
    except (OSError, LilluxError, ValueError):
        return ""


_TEXT_KINDS = {
    Kind.DIRECTIVE: "starts nothing itself: instructions for an agent, which follows them",
    Kind.KNOWLEDGE: "starts nothing itself: text that agents read",
    Kind.CONFIG: "starts nothing itself: settings that Rye follows",
}


def rights_words(rye: Rye, target: SignTarget, header: Mapping[str, Any]) -> str:
    """The rights of an item once it is signed, as one line in words."""
    if target.kind is not Kind.TOOL or (target.ref is not None and target.ref.is_test):
        return _TEXT_KINDS.get(target.kind, "starts nothing itself: cases for tests of a tool")
    if is_module(target, header):
        return "starts nothing itself: a part of other tools, with the rights of each"
    try:
        declared = tool_spec(header, target.verify_target.suffix).sandbox
    except LilluxError as error:
        return f"unknown: {error}"
    return _declared_words(declared) if declared is not None else _undeclared_words(rye)


def _undeclared_words(rye: Rye) -> str:
    """The rights of an item that declares none, by the level of this user."""
    from ryeos.run.sandbox_policy import Level, policy_of

    try:
        level = policy_of(rye.config, rye.context).level
    except LilluxError as error:
        return f"declares none, and what it has then is unknown: {error}"
    return {
        Level.DECLARED: "declares none: reads and writes what you may; any network; starts any"
        " program; sees your variables; under an agent no key, and writes the project",
        Level.PROJECT: "declares none: reads the system and {project}; writes {project} and {tmp};"
        " no network; starts any program",
        Level.STRICT: "declares none: is refused until it declares them",
        Level.OFF: "declares none, and your policy enforces nothing: all that you may do",
    }[level]


def _declared_words(rights: Rights) -> str:
    words = [
        _words(rights.read, "reads", "reads every file that you can", "reads no file of yours"),
        _words(rights.write, "writes", "writes every file that you can", "writes nothing"),
        "network of this machine alone"
        if rights.network == (LOOPBACK,)
        else _words(rights.network, "connects to", "any network", "no network"),
        _words(rights.programs, "starts", "starts any program", "starts no program"),
        _words(rights.env, "sees the variables", "sees all variables", "sees no variable of yours"),
    ]
    return "; ".join(words)


def _words(entries: Sequence[str] | None, verb: str, anything: str, nothing: str) -> str:
    if entries is None:
        return anything
    return f"{verb} {', '.join(entries)}" if entries else nothing


def keep_signed(user: Space, reports: Sequence[SignReport]) -> None:
    """Keep the bytes that were just signed, to compare the next with. A failure is no error."""
    for report in reports:
        target, signature = report.target, report.signature
        data: bytes | None = report.data
        files = {
            one.path: one.data
            for one in _further_files(ReadItem(target, report.data))
            if not one.problem
        }
        if len(report.data) + sum(map(len, files.values())) > MAX_KEPT_TEXT:
            data, files = None, {}
        said = {
            "data": None if data is None else b64encode(data).decode(),
            "files": {name: b64encode(text).decode() for name, text in files.items()},
            "version": report.identity.version if report.identity else "",
            "signed_at": signature.timestamp if signature else "",
            "fingerprint": signature.fingerprint if signature else "",
        }
        try:
            make_directory(user.ai / SIGNED_FOLDER, mode=0o700)
            text = f"{_KEPT_MARK}{json.dumps(said)}}}\n"
            write_atomic(_kept(user, target), text.encode(), mode=0o600)
        except (OSError, LilluxError):
            continue


def signed_last(user: Space, target: SignTarget) -> SignedLast | None:
    """The text signed last at this path; None where none is known."""
    try:
        data = read_bytes(_kept(user, target), MAX_ITEM_BYTES)
    except (OSError, LilluxError):
        return None
    if not data.startswith(_KEPT_MARK.encode()):  # of a release before, which kept the text alone
        return SignedLast(data=data)
    try:
        said = json.loads(data)["signed_last"]
        return SignedLast(
            data=None if said["data"] is None else b64decode(said["data"]),
            files={str(name): b64decode(text) for name, text in said["files"].items()},
            version=str(said["version"]),
            signed_at=str(said["signed_at"]),
            fingerprint=str(said["fingerprint"]),
        )
    except (ValueError, LookupError, TypeError, AttributeError):
        return None


def _as_it_is_signed(rye: Rye, item: ReadItem) -> SignedLast | None:
    """The text itself, where it has a valid signature already and nothing else is known of it."""
    try:
        found = rye.verifier.verify(item.target.verify_target, item.data)
    except LilluxError:
        return None
    if not found.verified or found.signature is None:
        return None
    return SignedLast(
        data=None,
        version=found.identity.version if found.identity else "",
        signed_at=found.signature.timestamp,
        fingerprint=found.signature.fingerprint,
    )


def _kept(user: Space, target: SignTarget) -> Path:
    name = sha256_hex(os.fsencode(os.path.realpath(target.path)))[:40]
    return user.ai / SIGNED_FOLDER / name
