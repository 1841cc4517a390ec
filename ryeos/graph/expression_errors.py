"""What a template or a condition can do wrong while a graph runs."""

from ryeos.errors import RyeError

_SHOWN = 200


class ExpressionError(RyeError):
    """An expression of a graph has no value. ``text`` is the expression, as the file has it."""

    code, exit_status = "EXPRESSION_ERROR", 6

    def __init__(self, text: str, problem: str, *, hint: str = "") -> None:
        self.text, self.problem = text, problem
        shown = text if len(text) <= _SHOWN else text[:_SHOWN] + "..."
        super().__init__(f"{shown}: {problem}", hint=hint or "rye graph validate shows where it is")
