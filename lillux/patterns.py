"""Regular expressions that are compiled when they are first used.

A file of its own since modules import it at a start: compiling the expressions of all modules that
one run imports takes 4 ms, and a run uses a third of them; those of a push take 22 ms. Libraries
that are packed get them too (`packing.compile_modules`).
"""

from typing import TYPE_CHECKING, Any, AnyStr

if TYPE_CHECKING:
    from re import Pattern


def pattern(text: AnyStr, flags: int = 0) -> "Pattern[AnyStr]":
    """An expression, compiled when it is used, as far as its methods and attributes go."""
    late: Any = _LatePattern(text, flags)
    return late  # type: ignore[no-any-return]


class _LatePattern:
    """Takes each method from the compiled pattern when it is first asked for."""

    def __init__(self, text: Any, flags: int) -> None:  # noqa: ANN401 - text or bytes
        self._arguments = text, flags

    def __getattr__(self, name: str) -> object:
        from re import compile as compiled

        found: object = getattr(compiled(*self._arguments), name)
        setattr(self, name, found)
        return found
