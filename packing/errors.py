"""What can go wrong while something is built."""

from lillux.errors import LilluxError


class BuildError(LilluxError):
    """A step of the build did not do its work. ``step`` names it."""

    code, exit_status = "BUILD_ERROR", 1

    def __init__(self, step: str, problem: str, *, hint: str = "") -> None:
        self.step, self.problem = step, problem
        super().__init__(f"{step}: {problem}", hint=hint)
