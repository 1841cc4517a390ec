"""``rye chain`` and ``rye lock``: the chain of a tool, and its lockfile."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from lillux.errors import LilluxError
from lillux.lockfile import dump_lockfile
from ryeos.app.command_line import Arguments, CommandSpec, no_arguments
from ryeos.cli.session import Session
from ryeos.items.errors import ItemNotFoundError, UsageError, no_project_error
from ryeos.items.refs import Kind
from ryeos.run.anchor import anchor_of
from ryeos.run.chain_validator import ChainValidator
from ryeos.run.environment import resolved_environment
from ryeos.run.lockfiles import version_of
from ryeos.run.model import Chain, ChainElement


def _configure_chain(parser: Arguments) -> None:
    parser.add_argument("ref", metavar="REF", help="a tool", offers="tools")
    parser.add_argument("--mermaid", action="store_true", help="a picture, as Mermaid text")


def _run_chain(session: Session) -> int:
    reference = session.rye.reference(session.arguments.ref)
    if reference.kind not in (None, Kind.TOOL):
        raise UsageError(f"{reference}: only tools have a chain")
    chain = session.rye.executor.build_chain(reference.id)
    result = ChainValidator().validate_chain(chain.elements)
    for warning in (*chain.warnings, *result.warnings):
        session.output.warn(warning)
    envelope: dict[str, Any] = {
        "status": "success" if result.valid else "error",
        "item_id": chain.tool.item_id,
        "digest": chain.digest,
        "chain": [_describe(element) for element in chain.elements],
        "issues": list(result.issues),
        "interpreters": _interpreters(session, chain),
        "sandbox": session.rye.executor.rights(reference.id).describe(),
    }
    if not result.valid:
        envelope |= {"error": "; ".join(result.issues), "code": "CHAIN_INVALID"}
    if session.arguments.mermaid:
        from ryeos.graph.graphviz import chain_picture
        from ryeos.graph.mermaid import mermaid

        picture = mermaid(chain_picture(chain))
        envelope["mermaid"] = picture
        session.output.answer(envelope, picture)
    else:
        lines = _chain_text(session, chain, envelope["issues"])
        lines += rights_text(envelope["sandbox"])
        lines += [f"{one['variable']}  {one['path']}" for one in envelope["interpreters"]]
        text = "\n".join(lines)
        session.output.answer(envelope, text)
    return 0 if result.valid else 5


def rights_text(rights: Mapping[str, Any]) -> list[str]:
    """The rights of an item, one line each."""
    if "read" not in rights:
        held = "keys are out of reach" if rights.get("confined") else "all that you may"
        return [f"may      {held} (it declares nothing; level {rights['level']})"]
    shown = {key: rights[key] for key in ("read", "write", "network", "programs", "env")}
    return [
        f"{key:<8} {value if isinstance(value, str) else ', '.join(value)}"
        for key, value in shown.items()
    ]


def agents_may(session: Session) -> dict[str, Any]:
    """What a program that an agent starts may write and connect to at most, as the policy says.

    Raises SpecError for a policy that gives what it must not.
    """
    from ryeos.run.allowance import AgentPolicy, allowance_of, described
    from ryeos.run.sandbox_policy import AGENTS_WHERE, Level, policy_of

    context = session.context
    policy = policy_of(session.rye.config, context)
    if policy.level is Level.OFF:
        return {"write": ["all that you may, but for keys and what gives rights"], "sockets": []}
    agents = policy.agents or AgentPolicy()
    allowance_of(agents, context, AGENTS_WHERE)
    return described(agents, context.platform)


def agents_text(agents: Mapping[str, Any]) -> list[str]:
    """The same, one line each."""
    lines = [f"agents   write {', '.join(agents['write'])}"]
    if agents["sockets"]:
        lines.append(f"agents   connect to {', '.join(agents['sockets'])}")
    return lines


def _interpreters(session: Session, chain: Chain) -> list[dict[str, str]]:
    """Which program each interpreter of the chain is; what was passed over is a warning.

    One that a command has to be asked for is left out: nothing is started here.
    """
    blocks = [
        block
        for element in chain.elements
        for block in element.spec.env_config.values()
        if isinstance(block, dict) and {"type", "var"} <= block.keys()
    ]
    if any(block["type"] == "command" for block in blocks):
        return []
    context = session.rye.context
    env = resolved_environment(chain, anchor_of(chain, context), context, None)
    for warning in env.warnings:
        session.output.warn(warning)
    names = dict.fromkeys(str(block["var"]) for block in blocks)
    found = ((name, env.variables.get(name, "")) for name in names)
    return [{"variable": name, "path": path} for name, path in found if path]


def _describe(element: ChainElement) -> dict[str, Any]:
    key = element.item.key if element.item else None
    return element.describe() | {
        "path": str(element.path) if element.path else None,
        "sha256": element.item.sha256 if element.item else None,
        **({"sandbox": element.spec.sandbox.describe()} if element.spec.sandbox else {}),
        "fingerprint": key.fingerprint if key else None,
        "signer": key.owner if key else None,
        "shadows": [
            {"path": str(location.path), "space": location.space.label}
            for location in element.shadowed
        ],
    }


def _chain_text(session: Session, chain: Chain, issues: list[str]) -> list[str]:
    lines = []
    for depth, element in enumerate(chain.elements):
        arrow = "   " * (depth - 1) + "└─ " if depth else ""
        indent = "   " * depth
        name = session.output.paint(element.item_id, "bold")
        lines.append(f"{arrow}{name}  ({element.space}, {element.spec.tool_type or 'tool'})")
        if element.item:
            key = element.item.key
            signer = f"{key.fingerprint} ({key.owner})" if key else "none: NOT VERIFIED"
            lines.append(f"{indent}   file    {element.path}")
            lines.append(f"{indent}   sha256  {element.item.sha256}  (of the file)")
            lines.append(f"{indent}   signed  {element.integrity}  (sha256 of the signed text)")
            lines.append(f"{indent}   signer  {signer}")
        else:
            lines.append(f"{indent}   built into the engine")
        lines += [f"{indent}   shadows {hidden.path}" for hidden in element.shadowed]
    return lines + [f"issue: {issue}" for issue in issues]


# --- lock -----------------------------------------------------------------------------------------
# ``rye lock``: show, write anew and remove what pins a tool's chain.


def _configure_lock(parser: Arguments) -> None:
    parser.add_argument("ref", metavar="REF", help="a tool", offers="tools")


def _show_lock(session: Session) -> int:
    item_id, version = _tool(session)
    found = session.rye.executor.lockfiles.get_lockfile(item_id, version)
    if found is None:
        raise ItemNotFoundError(f"lockfile of {item_id}@{version}", _searched(session))
    text = dump_lockfile(found.lockfile).decode()
    envelope = {
        "status": "success",
        "item_id": item_id,
        "path": str(found.path),
        "lockfile": json.loads(text),
    }
    session.output.note(str(found.path))
    session.output.answer(envelope, text)
    return 0


def _configure_update(parser: Arguments) -> None:
    parser.add_argument("ref", metavar="REF", nargs="?", help="a tool", offers="tools")
    parser.add_argument("--all", action="store_true", help="every tool that has a lockfile")


def _list_locks(session: Session) -> int:
    """The tools that are pinned, and whether each still holds."""
    rows = [
        {"item_id": item_id, "holds": not problem, "problem": problem}
        for item_id, problem in _pinned(session)
    ]
    lines = [f"{one['item_id']}{': ' if one['problem'] else ''}{one['problem']}" for one in rows]
    session.output.answer({"status": "success", "lockfiles": rows}, "\n".join(lines))
    if not rows:
        session.output.note(session.no_project or "no lockfiles; a tool's first run writes one")
    return 0


def _pinned(session: Session) -> Iterator[tuple[str, str]]:
    """The id of each tool with a lockfile, and what is wrong with that."""
    executor, space = session.rye.executor, session.rye.context.spaces.project
    for item_id in executor.lockfiles.pinned(space) if space else ():
        try:
            executor.require_pinned(item_id)
        except LilluxError as error:
            yield item_id, str(error)
        else:
            yield item_id, ""


def _update_all(session: Session) -> int:
    """Pin every tool that has a lockfile anew; those that cannot be are warnings."""
    updated, failed = [], []
    for item_id, problem in list(_pinned(session)):
        if not problem:
            continue
        try:
            session.rye.executor.invalidate_tool(item_id)
            session.rye.executor.lock(item_id)
            updated.append(item_id)
        except LilluxError as error:
            session.output.warn(f"{item_id}: {error}")
            failed.append(item_id)
    envelope = {"status": "error" if failed else "success", "updated": updated, "failed": failed}
    if failed:
        envelope |= {"error": f"not pinned: {', '.join(failed)}", "code": "LOCKFILE_MISMATCH"}
    session.output.answer(envelope, "\n".join(f"wrote the lockfile of {one}" for one in updated))
    if not updated and not failed:
        session.output.note(session.no_project or "every lockfile holds")
    return 5 if failed else 0


def _update(session: Session) -> int:
    if session.arguments.all is (session.arguments.ref is not None):
        raise UsageError("lock update: expected a tool or --all, one of them")
    if session.arguments.all:
        return _update_all(session)
    reference = session.rye.reference(session.arguments.ref)
    path = session.rye.executor.lock(reference.id)
    if path is None:
        raise no_project_error("no .ai folder to keep the lockfile in")
    item_id, _ = _tool(session)
    envelope = {"status": "success", "item_id": item_id, "path": str(path)}
    session.output.answer(envelope, f"wrote {path}")
    return 0


def _delete(session: Session) -> int:
    item_id, version = _tool(session)
    path = session.rye.executor.lockfiles.delete_lockfile(item_id, version)
    if path is None:
        raise ItemNotFoundError(f"lockfile of {item_id}@{version}", _searched(session))
    envelope = {"status": "success", "item_id": item_id, "path": str(path)}
    session.output.answer(envelope, f"removed {path}")
    return 0


def _tool(session: Session) -> tuple[str, str]:
    reference = session.rye.reference(session.arguments.ref)
    tool = session.rye.executor.build_chain(reference.id).tool
    return tool.item_id, version_of(tool)


def _searched(session: Session) -> tuple[str, ...]:
    return session.rye.resolver.searched()


CHAIN = CommandSpec(
    _configure_chain, _run_chain, ["rye chain rye/bash/bash", "rye chain mine/x --mermaid"]
)
SHOW = CommandSpec(_configure_lock, _show_lock, ["rye lock show mine/hello"])
LIST = CommandSpec(no_arguments, _list_locks, ["rye lock list"])
UPDATE = CommandSpec(
    _configure_update, _update, ["rye lock update mine/hello", "rye lock update --all"]
)
DELETE = CommandSpec(_configure_lock, _delete, ["rye lock delete mine/hello"])
