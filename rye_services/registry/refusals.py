"""What a registry refuses: ``{"detail": {"status": "error", "code", "error", ...}}``."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import ParamSpec, TypeVar

from lillux.errors import LilluxError
from rye_services.api_keys import ApiKeyMissingError, ApiKeyNameError
from rye_services.problems import Problem
from rye_services.registry.accounts import AccountError, AccountMissingError, AccountQuotaError
from rye_services.registry.item_values import ItemGoneError, VersionTakenError
from rye_services.registry.key_claims import KeyClaimError
from rye_services.registry.manifests import ManifestMissingError
from rye_services.registry.names import RegistryNameError
from rye_services.registry.namespaces import NamespaceError
from rye_services.registry.publication import PublicationError
from rye_services.scopes import ScopeError
from rye_services.users import UserIdError
from ryeos.remote.requests import IdentityError, SignedDocumentError

Given = ParamSpec("Given")
Answer = TypeVar("Answer")

_STATUSES: tuple[tuple[type[LilluxError], int], ...] = (
    (RegistryNameError, 400),
    (UserIdError, 400),
    (ScopeError, 400),
    (PublicationError, 400),
    (NamespaceError, 403),
    (AccountMissingError, 403),
    (ItemGoneError, 404),
    (VersionTakenError, 409),
    (AccountError, 409),
    (ApiKeyMissingError, 404),
    (ApiKeyNameError, 409),
    (IdentityError, 400),
    (SignedDocumentError, 400),
    (KeyClaimError, 400),
    (ManifestMissingError, 400),
    (AccountQuotaError, 413),
)
KINDS = tuple(kind for kind, _ in _STATUSES)


@contextmanager
def answered() -> Iterator[None]:
    """Errors of a registry become refusals. Raises Problem."""
    try:
        yield
    except KINDS as error:
        status = next(number for kind, number in _STATUSES if isinstance(error, kind))
        raise Problem(status, detail_of(error)) from error


def refusing(route: Callable[Given, Answer]) -> Callable[Given, Answer]:
    """A route whose errors are answered."""

    @wraps(route)
    def refusing_route(*args: Given.args, **kwargs: Given.kwargs) -> Answer:
        with answered():
            return route(*args, **kwargs)

    return refusing_route


def detail_of(error: LilluxError) -> dict[str, object]:
    """What the caller is told; ``issues`` is everything that is wrong with what they sent."""
    detail: dict[str, object] = {"status": "error", "code": error.code, "error": str(error)}
    if error.hint:
        detail["hint"] = error.hint
    if isinstance(error, PublicationError):
        detail["issues"] = list(error.issues)
    return detail
