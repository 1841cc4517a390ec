"""Errors of graphs and of their runs.

What keeps a run from starting or resuming, and what can be wrong with its records. See
``docs/graphs.md``.
"""

from collections.abc import Sequence
from difflib import get_close_matches

from ryeos.graph.problems import GraphProblem
from ryeos.items.errors import RyeError


class GraphInvalidError(RyeError):
    """A graph file with problems; ``details`` lists all of them, each with its place."""

    code = "VALIDATION_FAILED"

    def __init__(self, graph_id: str, problems: Sequence[GraphProblem]) -> None:
        self.graph_id, self.problems = graph_id, tuple(problems)
        self.details = tuple(str(problem) for problem in problems)
        super().__init__(
            f"Graph validation failed: {'; '.join(self.details)}",
            hint=f"see all there is to it: rye graph validate {graph_id}",
        )


class GraphInputError(RyeError):
    """Inputs that do not fit the graph's ``config_schema``; no node was worked on."""

    code = "VALIDATION_FAILED"

    def __init__(self, graph_id: str, problems: Sequence[str]) -> None:
        self.graph_id = graph_id
        self.details = tuple(problems)
        super().__init__(
            f"Input validation failed: {'; '.join(problems)}",
            hint=f"see what the graph takes: rye run {graph_id} --help",
        )


class NodeNotFoundError(RyeError):
    """A node that the graph does not have."""

    code = "VALIDATION_FAILED"

    def __init__(self, node: str, known: Sequence[str]) -> None:
        self.node = node
        self.suggestions = tuple(get_close_matches(node, known, 3, 0.5))
        hint = f"did you mean {', '.join(self.suggestions)}?" if self.suggestions else ""
        super().__init__(
            f"Target node '{node}' not found in graph",
            hint=hint or f"its nodes are: {', '.join(known[:20])}",
        )


def not_resumable_error(run_id: str, problem: str, *, hint: str = "") -> RyeError:
    """The error of a run that cannot be resumed as it is."""
    return RyeError(f"Cannot resume {run_id}: {problem}", code="CONFLICT", hint=hint)


class RunIdError(RyeError):
    """A run id that could not be the name of a run's folder."""

    code = "INVALID_REF"

    def __init__(self, run_id: str, problem: str) -> None:
        self.run_id, self.problem = run_id, problem
        super().__init__(
            f"run id {run_id[:200]!r}: {problem}",
            hint="a run id is printed when the run starts, like mine-build-1763725437000-00ff",
        )


class RunPlaceError(RyeError):
    """The folder of runs, or a file in it, is not Rye's own: a link leads elsewhere."""

    code = "INTEGRITY"

    def __init__(self, path: str, problem: str) -> None:
        self.path, self.problem = path, problem
        super().__init__(f"{path}: {problem}", hint="remove the link; runs follow none")


class RecordError(RyeError):
    """An object of a run has another shape than its kind. ``key`` is where in it."""

    code = "INTEGRITY"

    def __init__(self, where: str, key: str, expected: str, found: str) -> None:
        self.where, self.key, self.expected, self.found = where, key, expected, found
        super().__init__(f"{where}: {key}: expected {expected}, found {found}")


class TranscriptError(RyeError):
    """A line of a transcript that no run has written. ``line`` counts from 1."""

    code = "INTEGRITY"

    def __init__(self, path: str, line: int, problem: str) -> None:
        self.path, self.line, self.problem = path, line, problem
        super().__init__(f"{path}, line {line}: {problem}")
