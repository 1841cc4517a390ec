"""Verdicts on values, by a schema, by a part of it or by one keyword of a part."""

from collections.abc import Callable
from typing import Any, TypeAlias

from lillux.schema.definition import Definition
from lillux.schema.keywords import Schema
from lillux.schema.library_form import library_form

Verdict: TypeAlias = Callable[[object], bool]
Compile: TypeAlias = Callable[[dict[str, Any]], Verdict]


class Judge:
    """Asks the library, compiling the root at once and each part when first asked for it.

    Safe to share between threads: at worst two of them compile the same part.
    """

    def __init__(self, definition: Definition, compile_form: Compile) -> None:
        self.definition = definition
        self._compile = compile_form
        self._parts: dict[tuple[int, str], Verdict] = {}
        self._root = self._compiled(definition.root)

    def accepts(self, value: object) -> bool:
        """Whether the value fits the whole schema."""
        return self._root(value)

    def part_accepts(self, schema: Schema, value: object, keyword: str = "") -> bool:
        """Whether the value fits ``schema``, a part of the definition; of it, only ``keyword``."""
        if isinstance(schema, bool):
            return schema
        place = (id(schema), keyword)  # parts live as long as the definition
        verdict = self._parts.get(place)
        if verdict is None:
            part = {keyword: schema[keyword]} if keyword else schema
            verdict = self._parts[place] = self._compiled(part)
        return verdict(value)

    def _compiled(self, schema: Schema) -> Verdict:
        return self._compile(library_form(schema, self.definition.targets))
