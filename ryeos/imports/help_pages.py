"""Arguments of a program, read from its ``--help``: argparse, click and typer. Pure.

A page is a text of a program that is not trusted. What of it is not understood is left out, and
`read_help` says so; no line of it becomes more than a name, a type and a description.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any

from lillux.foreign_text import one_line
from lillux.values import dataclass

MAX_PAGE, MAX_ARGUMENTS, MAX_DESCRIPTION = 128 * 1024, 60, 300
VALUE, SWITCH, PAIR, LIST, SPREAD = "value", "switch", "pair", "list", "spread"
"""The form of an argument: ``--a=x``, ``--a``, ``--a`` or ``--no-a``, ``--a=x --a=y``,
``--a x y``. The flag of a pair is both, with a space between."""
_FRAME = str.maketrans(dict.fromkeys("│╭╮╰╯─┃┏┓┗┛━", " "))
_ESCAPE = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")
_USAGE = re.compile(r"(?ims)^\s*usage:\s*(.*?)(?:\n\s*\n|\Z)")
_HEADING = re.compile(r"^\s{0,4}([A-Za-z][\w /-]*?):?\s*$")
_OPTION = re.compile(r"^\s*\*?\s*(-{1,2}[A-Za-z0-9?][\w.-]*.*)$")
_FLAG = re.compile(r"--?[A-Za-z0-9][\w.-]*")
_CHOICES = re.compile(r"\{([^{}\s]+)\}|\[([\w.-]+(?:\|[\w.-]+)+)\]")
_POSITIONAL = re.compile(r"^\s*(\*?)\s*([A-Za-z_][\w-]*)(?:\.\.\.)?(?:\s+(.*))?$")
_MARKS = re.compile(r"\s*\[(?:required|default: [^\]]{0,80})\]")
_TYPES = {
    **dict.fromkeys(("INTEGER", "INT", "N", "COUNT", "LIST[INT]"), "integer"),
    **dict.fromkeys(("FLOAT", "NUMBER", "LIST[FLOAT]"), "number"),
}
_OWN = frozenset({"--help", "--version", "--install-completion", "--show-completion"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Argument:
    """An argument of a program. ``flag`` is ``""`` for one that is known by its place.

    ``default`` is the text that stands for it where a later place is given, None for unknown.
    """

    name: str
    flag: str = ""
    kind: str = VALUE
    type: str = "string"
    choices: tuple[str, ...] = ()
    description: str = ""
    required: bool = False
    default: str | None = None

    def schema(self) -> dict[str, Any]:
        """Its JSON Schema."""
        if self.kind in (SWITCH, PAIR):
            said: dict[str, Any] = {"type": "boolean"}
        else:
            said = {"type": self.type}
            if self.choices:
                said["enum"] = list(self.choices)
            if self.kind in (LIST, SPREAD):
                said = {"type": "array", "items": said}
        return said | ({"description": self.description} if self.description else {})


@dataclass(frozen=True, slots=True)
class HelpPage:
    """The arguments of a program, and whether it has commands below it."""

    arguments: tuple[Argument, ...] = ()
    has_commands: bool = False


def read_help(text: str) -> HelpPage | None:
    """The content of a page; None where it is no page of argparse, click or typer.

    (1) the usage line says which places there are, which may be left out, which repeat
    (2) rows below headings say what each is
    """
    page = _ESCAPE.sub("", text[:MAX_PAGE]).translate(_FRAME)
    usage = _USAGE.search(page)
    if usage is None:
        return None
    places = " ".join(usage[1].split())
    is_click = "[OPTIONS]" in places
    options: dict[str, Argument] = {}
    positional: dict[str, Argument] = {}
    has_commands = bool(re.search(r"\bCOMMAND\b|\{[\w-]+(,[\w-]+)+\} \.\.\.", places))
    for heading, row, more in _rows(page[usage.end() :]):
        if _OPTION.match(row):
            found = _option(row.strip().lstrip("* "), more, places)
            if found and found.flag not in _OWN:
                options.setdefault(found.name, found)
        elif heading.startswith(("positional", "arguments")):
            one = _positional(row, more, places)
            if one:
                positional.setdefault(one.name, one)
    if is_click:
        for one in _click_places(places):
            positional.setdefault(one.name, one)
    found_all = (*positional.values(), *options.values())
    return HelpPage(found_all[:MAX_ARGUMENTS], has_commands)


def _rows(text: str) -> Iterator[tuple[str, str, str]]:
    """Heading, row and its further lines, of each row of a page."""
    heading, row, more, depth = "", "", list[str](), 0
    for line in text.splitlines():
        if not line.strip():
            continue
        indent = len(line) - len(line.lstrip())
        title = _HEADING.match(line)
        if title and (line.rstrip().endswith(":") or title[1].lower() in {"options", "arguments"}):
            if row:
                yield heading, row, " ".join(more)
            heading, row, more, depth = title[1].lower(), "", [], 0
        elif row and indent > depth + 2 and not _OPTION.match(line):
            more.append(line.strip())
        else:
            if row:
                yield heading, row, " ".join(more)
            row, more, depth = line, [], indent
    if row:
        yield heading, row, " ".join(more)


def _option(row: str, more: str, usage: str) -> Argument | None:
    written, _, said = row.partition("  ")
    flags = _FLAG.findall(re.split(r"\s(?=[^-\s,/|])", written)[0]) or _FLAG.findall(written)
    if re.search(r"[,/]\s*-", written):
        flags = [
            flag for part in re.split(r"[,/|]\s*", written) for flag in _FLAG.findall(part)[:1]
        ]
    if not flags:
        return None
    flag = next((one for one in flags if one.startswith("--")), flags[0])
    words = said.strip().split("  ")
    takes = _meta(written, words[0] if is_click_type(words[0]) else "")
    description = _plain(" ".join((said.removeprefix(takes or "\0"), more)))
    choices = _choices(takes)
    kind = SWITCH if not takes else SPREAD if "..." in takes else VALUE
    kind = LIST if "list[" in takes else kind
    no = _negative(flag, written) if kind == SWITCH else ""
    required = "[required]" in f"{said} {more}" or _is_needed(flag, flags, usage)
    return Argument(
        name=_name(flag),
        flag=f"{flag} {no}" if no else flag,
        kind=PAIR if no else kind,
        type=_type(takes, bool(choices)),
        choices=choices,
        description=description,
        required=required and kind != SWITCH,
    )


def _negative(flag: str, written: str) -> str:
    """The flag that says the opposite: ``--no-a`` of argparse, what stands behind a slash of click.

    ``""`` for none: such a switch is left out to say no.
    """
    yes, slash, no = written.partition("/")
    behind: list[str] = [one for one in _FLAG.findall(no) if one.startswith("--")]
    if slash and behind and flag in _FLAG.findall(yes):
        return behind[0]
    opposite = f"--no-{flag.removeprefix('--')}"
    return opposite if opposite in _FLAG.findall(written) else ""


def is_click_type(word: str) -> bool:
    """True if a word of a page is the type of a value, as typer writes it in a column."""
    return bool(re.fullmatch(r"[A-Z][A-Z_]*|\[[\w|.-]+\]|<[\w\[\]|. ]+>", word.strip()))


def _meta(written: str, column: str) -> str:
    """The value of an option, as the page names it; ``""`` for a switch."""
    if column:
        return column.strip()
    last = re.split(r"[,/]\s*(?=-)", written)[-1]
    return _FLAG.sub("", last, count=1).strip(" =,")


def _is_needed(flag: str, flags: Sequence[str], usage: str) -> bool:
    """True if argparse shows an option outside of brackets in its usage."""
    for one in (flag, *flags):
        at = re.search(rf"(?<![\w-]){re.escape(one)}(?![\w-])", usage)
        if at:
            before = usage[: at.start()]
            return before.count("[") == before.count("]")
    return False


def _positional(row: str, more: str, usage: str) -> Argument | None:
    match = _POSITIONAL.match(row)
    if match is None:
        choices = _choices(row.strip().split("  ")[0])
        return None if not choices else Argument(name="command", choices=choices, required=True)
    star, name, said = match[1], match[2], match[3] or ""
    if name in {"COMMAND", "ARGS"}:
        return None
    word = said.strip().split(" ")[0] if said else ""
    column = word if is_click_type(word) else ""
    at = re.search(
        rf"(\[)?\b{re.escape(name)}\b[\]\s]*(\.\.\.|\[{re.escape(name)} \.\.\.)?",
        usage,
        re.IGNORECASE,
    )
    repeats = bool(at and at[2]) or f"{name} ..." in usage or "list[" in column
    is_optional = bool(at and at[1]) and not star
    return Argument(
        name=_name(name),
        kind=LIST if repeats else VALUE,
        type=_type(column, is_choice=False),
        description=_plain(f"{said.strip().removeprefix(column)} {more}"),
        required=not is_optional or "[required]" in said,
    )


def _click_places(usage: str) -> Iterator[Argument]:
    """The places that click names in its usage alone."""
    rest = usage.partition("[OPTIONS]")[2]
    for bracket, name, dots in re.findall(r"(\[)?([A-Z][A-Z0-9_]*)\]?(\.\.\.)?", rest):
        if name not in {"COMMAND", "ARGS", "OPTIONS"}:
            yield Argument(name=_name(name), kind=LIST if dots else VALUE, required=not bracket)


def _choices(text: str) -> tuple[str, ...]:
    match = _CHOICES.search(text)
    if not match:
        return ()
    listed = match[1].split(",") if match[1] else match[2].split("|")
    return tuple(one for one in listed if one)[:50]


def _type(takes: str, is_choice: bool) -> str:  # noqa: FBT001 - said by the word beside it
    return "string" if is_choice else _TYPES.get(takes.strip(" .<>[]").upper(), "string")


def _name(flag: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", flag.lower()).strip("_") or "value"


def _plain(text: str) -> str:
    return one_line(_MARKS.sub("", text), MAX_DESCRIPTION)
