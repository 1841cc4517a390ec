"""What ``rye doctor`` finds about the interpreters of runtimes: in a terminal, and in a client."""

from collections.abc import Iterator, Mapping
from typing import Any

from lillux.values import dataclass, replace
from ryeos.cli.findings import OK, WARN, Check
from ryeos.cli.server_launch import machine_of
from ryeos.cli.session import Session
from ryeos.clients.table import CLIENTS

# What a program that no terminal started has as PATH. On Windows it has the user's.
DESKTOP_PATHS = {
    "darwin": "/usr/bin:/bin:/usr/sbin:/sbin",
    "linux": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
}


@dataclass(frozen=True, slots=True)
class _Need:
    """A variable that a runtime wants an interpreter in: the path found, or the names tried."""

    runtime: str
    var: str
    found: str
    names: tuple[str, ...]


def interpreters(session: Session) -> Iterator[Check]:
    """Whether each runtime of the bundles has its interpreter."""
    for need in _needs(session, session.context.tool_environment()):
        if need.names:
            names = " or ".join(need.names)
            message = f"{need.runtime}: no {names} on the PATH; its tools cannot run"
            fix = f"install {names}, or set {need.var} to its path"
            yield Check("interpreter", WARN, message, fix)
        else:
            yield Check("interpreter", OK, f"{need.runtime}: {need.found}")


def desktop_path(session: Session) -> Iterator[Check]:
    """Which interpreters a client on the desktop loses, since it has another PATH."""
    path = DESKTOP_PATHS.get(session.context.platform)
    machine = machine_of(session)
    clients = [client for client in CLIENTS if client.is_desktop and client.is_there(machine)]
    if path is None or not clients:
        return
    found = {need.var: need.found for need in _needs(session, session.context.tool_environment())}
    there = replace(session.context, process_env={**session.context.process_env, "PATH": path})
    lost = {
        need.var
        for need in _needs(session, there.tool_environment())
        if need.names and found.get(need.var)
    }
    for var in sorted(lost):
        message = f"a client on the desktop does not find {found[var]}: its PATH is {path}"
        fix = f"set {var}={found[var]} in the env of its entry"
        yield Check("desktop path", WARN, message, fix)
    if not lost:
        yield Check("desktop path", OK, f"the same interpreters with {path}")


def _needs(session: Session, env: Mapping[str, str]) -> Iterator[_Need]:
    from ryeos.items import Kind
    from ryeos.resolver import locations

    for bundle in session.context.spaces.bundles:
        for location in locations(bundle, Kind.TOOL):
            item = session.rye.verifier.verify_location(location)
            if item.header and item.header.get("tool_type") == "runtime":
                yield from _needs_of(session, location.ref.id, item.header, env)


def _needs_of(
    session: Session, runtime: str, header: Mapping[str, Any], process_env: Mapping[str, str]
) -> Iterator[_Need]:
    from lillux.interpreters import EnvResolver

    declared = header.get("env_config") or {}
    resolver = EnvResolver(
        project_path=session.context.project_path,
        user_base=session.context.spaces.user.base,
        process_env=process_env,
        platform=session.context.platform,
    )
    env = resolver.apply(resolver.base(), declared, {})
    missing = {interpreter.var: interpreter for interpreter in env.missing}
    blocks = (block for block in declared.values() if isinstance(block, dict))
    for var in (block["var"] for block in blocks if "var" in block):
        names = tuple(missing[var].names) if var in missing else ()
        yield _Need(runtime, var, "" if names else env.variables.get(var, ""), names)


PROBES = (("interpreter", interpreters), ("desktop path", desktop_path))
