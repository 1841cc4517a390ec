"""What the commands about registries share: their flags, the registry itself, and words for it."""

from collections.abc import Mapping
from typing import Any

from ryeos.cli.output import one_line
from ryeos.cli.plain_arguments import Arguments
from ryeos.cli.session import Session
from ryeos.cli.signals import cancelled_by_signals
from ryeos.errors import UsageError
from ryeos.items import PROJECT, USER, Reference, parse_reference
from ryeos.registry.client import Registry
from ryeos.registry.opening import open_registry, registries_of
from ryeos.registry.settings import RegistryConfig

MAX_ROWS = 100
_SHOWN_ROWS = 20


def take_registry(parser: Arguments) -> None:
    """Declare which registry is meant."""
    parser.add_argument("--registry", metavar="NAME", help="the registry (default)")


def take_page(parser: Arguments) -> None:
    """Declare which part of a long list is shown."""
    parser.add_argument(
        "--limit", metavar="N", type=int, help=f"at most so many ({_SHOWN_ROWS}, up to {MAX_ROWS})"
    )
    parser.add_argument("--offset", metavar="N", type=int, help="leave out so many before")


def take_space(parser: Arguments, what: str) -> None:
    """Declare a space."""
    parser.add_argument("--space", choices=(PROJECT, USER), help=what)


def config_of(session: Session) -> RegistryConfig:
    """The registry that was named. Raises RegistryNotConfiguredError, RegistryConfigError."""
    return registries_of(session.rye).resolve(session.arguments.registry)


def registry_of(session: Session, config: RegistryConfig | None = None) -> Registry:
    """The registry that was named, or the one given; nothing is asked yet."""
    return open_registry(session.rye, config or config_of(session), cancelled_by_signals())


def tell_new_pin(session: Session, registry: Registry) -> None:
    """Say that a registry was pinned just now, and which key it has."""
    if registry.is_new:
        session.output.note(
            f"pinned the registry {registry.config.netloc}: its key is {registry.pin().fingerprint}"
        )


def page_of(session: Session) -> list[tuple[str, str]]:
    """The part of a list that was asked for. Raises UsageError."""
    limit, offset = session.arguments.limit, session.arguments.offset
    limit = _SHOWN_ROWS if limit is None else limit
    if not 1 <= limit <= MAX_ROWS:
        raise UsageError(f"--limit: expected a number from 1 to {MAX_ROWS}, found {limit}")
    if offset is not None and offset < 0:
        raise UsageError(f"--offset: expected a number from 0 up, found {offset}")
    return [("limit", str(limit)), ("offset", str(offset or 0))]


def reference_of(text: str) -> Reference:
    """The item of a registry that was typed. Raises InvalidRefError."""
    return parse_reference(text)


def total_of(reply: Mapping[str, Any], shown: int) -> int:
    """How many there are in all, as far as the registry says so."""
    total = reply.get("total")
    return total if isinstance(total, int) and total >= shown else shown


def word(row: Mapping[str, Any], key: str, width: int = 0) -> str:
    """A value that a registry sent, safe to show."""
    value = row.get(key)
    return one_line(str(value), width) if value not in (None, "") else "-"
