"""What is wrong with a request: an argument, or a query. No item is to blame."""

from collections.abc import Sequence

from ryeos.errors import RyeError


class ArgumentError(RyeError):
    """An argument that its tool does not take, or a value that does not fit.

    ``name`` is the argument's path, like ``filters.version``.
    """

    code, exit_status = "INVALID_PARAMS", 2

    def __init__(self, name: str, problem: str, *, hint: str = "", **facts: object) -> None:
        self.name, self.problem = name, problem
        self.facts = {"argument": name, **facts}
        super().__init__(f"{name}: {problem}", hint=hint)


class InvalidQueryError(RyeError):
    """A query that breaks the grammar. ``position`` counts its characters from 0."""

    code, exit_status = "INVALID_QUERY", 2

    def __init__(self, problem: str, position: int, *, details: Sequence[str] = ()) -> None:
        self.problem, self.position = problem, position
        self.details = tuple(details) or (f"at character {position}: {problem}",)
        self.facts = {"position": position}
        super().__init__(
            f"query: {problem}",
            hint="put text that shall be taken as it is into double quotes; the grammar is in:"
            " rye help search",
        )
