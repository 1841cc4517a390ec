"""The clients that ``rye init`` adds Rye to: those that are named, or agreed to at a terminal."""

import sys
from collections.abc import Iterator

from lillux.errors import LilluxError
from ryeos.cli.mcp_clients import install_for_user
from ryeos.cli.server_launch import machine_of
from ryeos.cli.session import Session
from ryeos.cli.steps import LEFT, MADE, THERE, WOULD_MAKE, Step
from ryeos.clients.choice import user_path
from ryeos.clients.settings import Change
from ryeos.clients.table import CLIENTS, Client, find_client
from ryeos.errors import UnsupportedError


def chosen_clients(session: Session) -> tuple[Client, ...]:
    """The clients of ``--client``; without any, those found here that the user says yes to.

    All are tried before anything is made. Raises UsageError for an unknown name, and what
    `mcp install` raises for settings that cannot be changed.
    """
    found = map(find_client, session.arguments.client or ())
    named = tuple({client.name: client for client in found}.values())
    for client in named:
        _step(session, client, make=False)
    return named or _agreed(session)


def client_steps(session: Session, clients: tuple[Client, ...], *, make: bool) -> list[Step]:
    """What became of each client."""
    return [_step(session, client, make=make) for client in clients]


def _step(session: Session, client: Client, *, make: bool) -> Step:
    try:
        change, path = install_for_user(session, client, make=make)
    except UnsupportedError as error:
        own = user_path(client, machine_of(session))  # raises for a client without a known place
        return Step(f"rye in {client.title}: {error.hint}", own, LEFT)
    if change is Change.ALREADY:
        return Step(f"rye in {client.title}", path, THERE)
    return Step(f"rye in {client.title}", path, MADE if make else WOULD_MAKE)


def _agreed(session: Session) -> tuple[Client, ...]:
    """What a person at a terminal agrees to; nobody else is asked."""
    arguments = session.arguments
    silent = arguments.json or arguments.no_input or arguments.quiet or arguments.dry_run
    if silent or session.environ.get("CI") or not (sys.stdin.isatty() and sys.stderr.isatty()):
        return ()
    offered = tuple(_addable(session))
    if not offered:
        return ()
    titles = ", ".join(client.title for client in offered)
    sys.stderr.write(f"add rye to the settings of {titles}? [y/N] ")
    sys.stderr.flush()
    return offered if sys.stdin.readline().strip().lower() in ("y", "yes") else ()


def _addable(session: Session) -> Iterator[Client]:
    """The clients found here that Rye is not in, and could be added to."""
    machine = machine_of(session)
    for client in CLIENTS:
        if not client.is_there(machine) or client.user_is_its_own:
            continue
        try:
            change, _ = install_for_user(session, client, make=False)
        except LilluxError:
            continue  # doctor tells what is wrong with it
        if change is Change.ADDED:
            yield client
