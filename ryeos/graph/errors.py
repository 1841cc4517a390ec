"""What keeps a run of a graph from beginning, or from going on. See ``docs/graphs.md``."""

from collections.abc import Sequence

from ryeos.errors import RyeError
from ryeos.graph.problems import Problem


class GraphInvalidError(RyeError):
    """A graph file with problems; ``details`` lists all of them, each with its place."""

    code, exit_status = "VALIDATION_FAILED", 6

    def __init__(self, graph_id: str, problems: Sequence[Problem]) -> None:
        self.graph_id, self.problems = graph_id, tuple(problems)
        self.details = tuple(str(problem) for problem in problems)
        super().__init__(
            f"Graph validation failed: {'; '.join(self.details)}",
            hint=f"see all there is to it: rye graph validate {graph_id}",
        )


class GraphInputError(RyeError):
    """Inputs that do not fit the graph's ``config_schema``; no node was worked on."""

    code, exit_status = "VALIDATION_FAILED", 6

    def __init__(self, graph_id: str, problems: Sequence[str]) -> None:
        self.graph_id = graph_id
        self.details = tuple(problems)
        super().__init__(
            f"Input validation failed: {'; '.join(problems)}",
            hint=f"see what the graph takes: rye load {graph_id}",
        )


class MissingEnvironmentError(RyeError):
    """Environment variables that the graph requires and nobody has set."""

    code, exit_status = "CONFIG_ERROR", 6

    def __init__(self, names: Sequence[str]) -> None:
        self.names = tuple(names)
        super().__init__(
            f"Missing environment variables: {', '.join(names)}",
            hint="set them, or write them into the .env of the project",
        )


class NodeNotFoundError(RyeError):
    """A node that the graph does not have."""

    code, exit_status = "VALIDATION_FAILED", 6

    def __init__(self, node: str, known: Sequence[str]) -> None:
        self.node = node
        from difflib import get_close_matches

        self.suggestions = tuple(get_close_matches(node, known, 3, 0.5))
        hint = f"did you mean {', '.join(self.suggestions)}?" if self.suggestions else ""
        super().__init__(
            f"Target node '{node}' not found in graph",
            hint=hint or f"its nodes are: {', '.join(known[:20])}",
        )


class NoPermissionsError(RyeError):
    """Neither the graph nor its caller says what may be called."""

    code, exit_status = "VALIDATION_FAILED", 6

    def __init__(self, graph_id: str) -> None:
        self.graph_id = graph_id
        super().__init__(
            f"{graph_id}: graph must declare 'permissions'",
            hint='list what its nodes may call, like permissions: ["rye.execute.tool.demo.*"]',
        )


class DepthExceededError(RyeError):
    """Graphs that call graphs, deeper than one of them allows."""

    code, exit_status = "RESOURCE_EXCEEDED", 6

    def __init__(self, graph_id: str) -> None:
        self.graph_id = graph_id
        super().__init__(
            f"{graph_id}: Max depth exceeded",
            hint="raise limits.depth of the outermost graph, if it is to call that deep",
        )


class ParentUnknownError(RyeError):
    """A run that another one is said to have started, which is not known here."""

    code, exit_status = "PERMISSION_DENIED", 4

    def __init__(self, parent_id: str, problem: str) -> None:
        self.parent_id = parent_id
        super().__init__(
            f"Permission denied: RYE_PARENT_THREAD_ID names {parent_id[:200]!r}, {problem}",
            hint="what a run starts may do no more than the run; unset the variable to start anew",
        )


class CallDeniedError(RyeError):
    """A call that the capabilities of a run leave out, which only resolving its item has shown."""

    code, exit_status = "PERMISSION_DENIED", 4

    def __init__(self, problem: str) -> None:
        self.problem = problem
        super().__init__(problem, hint="only items of the program itself need no capability")


class GrantsLostError(RyeError):
    """A run of which nobody can say any more what it may call."""

    code, exit_status = "PERMISSION_DENIED", 4

    def __init__(self, run_id: str, problem: str) -> None:
        self.run_id, self.problem = run_id, problem
        super().__init__(
            f"Permission denied: cannot resume {run_id}: {problem}",
            hint="run the graph again for a new run",
        )


class RunNotResumableError(RyeError):
    """A run that cannot be gone on with as it is."""

    code, exit_status = "CONFLICT", 1

    def __init__(self, run_id: str, problem: str, *, hint: str = "") -> None:
        self.run_id, self.problem = run_id, problem
        super().__init__(f"Cannot resume {run_id}: {problem}", hint=hint)
