"""Steps of a container file, read as the builders of images read them. Pure.

Taken is what ``deploy/Containerfile`` needs; any other instruction or flag is an error, so that a
step is never left out unseen.
"""

import json
import re
import shlex
from collections.abc import Iterator, Mapping

from lillux.values import dataclass, field
from packing import BuildError

_KNOWN_FLAGS = {"COPY": {"from"}, "HEALTHCHECK": {"interval", "timeout", "start-period"}}
_WORDS = frozenset({"ENV", "LABEL"})
_TEXTS = frozenset({"FROM", "WORKDIR", "USER", "VOLUME", "EXPOSE", "STOPSIGNAL", "RUN", "COPY"})
_COMMANDS = frozenset({"CMD", "ENTRYPOINT"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One instruction. ``line`` is where it begins; ``text`` is all behind its flags."""

    line: int
    name: str
    flags: Mapping[str, str]
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """The steps after a FROM. ``name`` is "" where it has none."""

    image: str
    name: str
    steps: tuple[Step, ...] = field(default_factory=tuple)

    def last(self, name: str) -> Step | None:
        """The step of this name that counts, if there is one."""
        return next((step for step in reversed(self.steps) if step.name == name), None)


def read_container_file(text: str) -> tuple[Stage, ...]:
    """The stages of a container file. Raises BuildError with the number of the line."""
    stages: list[tuple[Step, list[Step]]] = []
    for line, instruction in _instructions(text):
        step = _step(line, instruction)
        if step.name == "FROM":
            stages.append((step, []))
        elif not stages:
            raise _error(line, f"expected FROM first, found {step.name}")
        else:
            stages[-1][1].append(step)
    return tuple(_stage(first, steps) for first, steps in stages)


def pairs(step: Step) -> dict[str, str]:
    """The names and values of an ENV or LABEL step. Raises BuildError."""
    words = shlex.split(step.text)
    if not all(word.partition("=")[0] and "=" in word for word in words):
        raise _error(step.line, "expected NAME=VALUE")
    return dict(word.split("=", 1) for word in words)


def command(step: Step) -> list[str]:
    """The words of a CMD, ENTRYPOINT or of the command in a HEALTHCHECK. Raises BuildError."""
    text = step.text
    if step.name == "HEALTHCHECK":
        if not text.startswith("CMD "):
            raise _error(step.line, "expected HEALTHCHECK CMD")
        text = text.removeprefix("CMD ").strip()
    if not text.startswith("["):
        return ["sh", "-c", text]
    words = json.loads(text)
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise _error(step.line, "expected a list of texts")
    return words


def _instructions(text: str) -> Iterator[tuple[int, str]]:
    """The instructions with the numbers of their first lines; lines that continue are joined."""
    held, begun = "", 0
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        begun = begun if held else number
        if line.rstrip().endswith("\\"):
            held += line.rstrip()[:-1]
        else:
            yield begun, (held + line).strip()
            held = ""
    if held:
        raise _error(begun, "expected another line behind the backslash")


def _step(line: int, instruction: str) -> Step:
    name, _, rest = instruction.partition(" ")
    flags, rest = _flags(rest.strip())
    unknown = flags.keys() - _KNOWN_FLAGS.get(name, set())
    if name not in _WORDS | _TEXTS | _COMMANDS | {"HEALTHCHECK"}:
        raise _error(line, f"expected a known instruction, found {name}")
    if unknown:
        raise _error(line, f"{name}: expected a known flag, found --{min(unknown)}")
    return Step(line=line, name=name, flags=flags, text=rest)


def _flags(rest: str) -> tuple[dict[str, str], str]:
    flags = {}
    while found := re.match(r"--([a-z-]+)=(\S+)\s+", rest):
        flags[found[1]] = found[2]
        rest = rest[found.end() :]
    return flags, rest


def _stage(first: Step, steps: list[Step]) -> Stage:
    words = first.text.split()
    match words:
        case [image]:
            return Stage(image=image, name="", steps=tuple(steps))
        case [image, as_, name] if as_.upper() == "AS":
            return Stage(image=image, name=name, steps=tuple(steps))
        case _:
            raise _error(first.line, "expected FROM IMAGE [AS NAME]")


def _error(line: int, problem: str) -> BuildError:
    return BuildError(f"container file, line {line}", problem)
