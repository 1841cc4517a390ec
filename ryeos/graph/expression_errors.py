"""What a template or a condition can do wrong while a graph runs."""

from ryeos.errors import RyeError

_SHOWN = 200
SYNTAX_HINT = "rye graph validate shows where it is"
VALUE_HINT = "look at where the value comes from, or give it another pipe"


class ExpressionError(RyeError):
    """An expression of a graph has no value. ``text`` is the expression, as the file has it."""

    code, exit_status = "EXPRESSION_ERROR", 6

    def __init__(self, text: str, problem: str, *, hint: str = "") -> None:
        self.text, self.problem = text, problem
        super().__init__(
            f"{shortened(text)}: {problem}", hint=hint or "rye graph validate shows where it is"
        )


def shortened(text: str) -> str:
    """A text as a message shows it, its beginning where it is long."""
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "..."
