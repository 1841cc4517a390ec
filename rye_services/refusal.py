"""The error of what a caller asked for and cannot have, with the status of the HTTP answer.

A file of its own: commands raise it as well as requests do, and they load nothing of HTTP.
"""

from collections.abc import Mapping

from ryeos.items.errors import RyeError

_STATUSES: Mapping[str, int] = {
    "INVALID_PARAMS": 400,
    "VALIDATION_FAILED": 400,
    "PERMISSION_DENIED": 403,
    "ITEM_NOT_FOUND": 404,
    "CONFLICT": 409,
    "RESOURCE_EXCEEDED": 413,
}


class RefusedError(RyeError):
    """A server refuses what a caller asked for; its text and hint are safe to show to them.

    ``status`` is the HTTP status of the answer: the one of the code, unless another one is given.
    """

    code, exit_status = "INVALID_PARAMS", 2

    def __init__(
        self, message: str, *, code: str = "INVALID_PARAMS", hint: str = "", status: int = 0
    ) -> None:
        super().__init__(message, code=code, hint=hint)
        self.status = status or _STATUSES[code]
