"""The error of what a caller asked for and cannot have, with the status of the HTTP answer.

A file of its own: commands raise it as well as requests do, and they load nothing of HTTP.
"""

from ryeos.items.errors import RyeError


class RefusedError(RyeError):
    """A server refuses what a caller asked for; its text and hint are safe to show to them.

    ``http_status`` is that of the code, unless another ``status`` is given.
    """

    code = "INVALID_PARAMS"

    def __init__(
        self, message: str, *, code: str = "INVALID_PARAMS", hint: str = "", status: int = 0
    ) -> None:
        super().__init__(message, code=code, hint=hint)
        if status:
            self.http_status = status
