"""``rye sandbox``: show the rights of a tool, or propose them from one run that is watched."""

import re
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from lillux.attempts import Attempt, Attempts
from lillux.run_folders import temporary_base
from lillux.supervisor import can_supervise
from lillux.system_places import program_places, system_places
from lillux.values import dataclass, replace
from ryeos.app.command_line import Arguments, CommandSpec
from ryeos.app.workspace import Rye
from ryeos.cli.chain import agents_may, agents_text, rights_text
from ryeos.cli.run import parameters, timeout
from ryeos.cli.session import Session
from ryeos.items.errors import Answer, RyeError, UsageError
from ryeos.items.refs import Kind, Reference
from ryeos.items.rights import LOOPBACK, Entries, Rights, fits_variable
from ryeos.run.confinement import BASIC_VARIABLES, CallRights
from ryeos.run.model import ChainElement, ExecutionRequest

# --- suggest --------------------------------------------------------------------------------------
# Proposes a ``sandbox:`` block for a tool from the accesses of one run.
#
# The run is watched and not held to anything: it may do what its caller may. What it read, wrote,
# started and connected to is generalised a little; what belongs to any program is left out.

MAX_PATHS = 8
_DNS = ":53"
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]{2,}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Suggestion:
    """The proposed rights, notes on them, and the result of the run."""

    rights: Rights
    notes: tuple[str, ...]
    answer: Answer


def suggest(rye: Rye, reference: Reference, request: ExecutionRequest) -> Suggestion:
    """Run a tool once, watched, and propose rights. Raises RyeError if nothing can watch."""
    if not can_supervise():
        raise RyeError(
            f"{reference}: this machine cannot watch a program: it needs Linux with seccomp",
            code="SANDBOX_UNAVAILABLE",
            hint="write the block by hand: docs/rights.md",
        )
    attempts = Attempts()
    answer = rye.execute(
        Reference(Kind.TOOL, reference.id),
        ExecutionRequest(
            item_id=request.item_id,
            parameters=request.parameters,
            timeout_s=request.timeout_s,
            use_lockfile=request.use_lockfile,
            may_pin=False,
            is_watched=True,
            attempts=attempts,
        ),
    )
    chain = rye.executor.build_chain(reference.id)
    call = rye.executor.rights(reference.id, is_watched=True)
    network, notes = _network(attempts)
    return Suggestion(
        rights=Rights(
            read=_paths(_files(attempts, "read", call), call, is_write=False),
            write=_paths(_files(attempts, "write", call), call, is_write=True),
            network=network,
            programs=_programs(attempts),
            env=_variables(chain.tool, rye),
        ),
        notes=notes,
        answer=answer,
    )


def _files(attempts: Iterable[Attempt], what: str, call: CallRights) -> list[Path]:
    """The files of the accesses, without those that any program may read."""
    started = [one.target for one in attempts if one.what == "run"][:1]
    beside = (place for path in started for place in program_places(Path(path).resolve().parent))
    free = [*system_places(), *call.own_files, *beside]
    found = dict.fromkeys(Path(one.target) for one in attempts if one.what == what)
    kept = []
    for path in found:
        real = Path(path).resolve()
        is_device = real.parent == Path("/dev")
        if is_device or any(real.is_relative_to(place) for place in free):
            continue
        if _belongs_to_interpreter(real):
            continue
        if what == "write" or real.exists():
            kept.append(real)
    return kept


def _belongs_to_interpreter(path: Path) -> bool:
    """Whether a file is one of a Python or Node.js: those come with the program."""
    parts = path.parts
    return path.name == "pyvenv.cfg" or any(
        part == "lib" and re.match(r"python3|node_modules", after)
        for part, after in pairwise(parts)
    )


def _paths(found: Sequence[Path], call: CallRights, *, is_write: bool) -> Entries:
    """Folders for writing, files for reading; folders for reading too if the files are many."""
    folders = [path if path.is_dir() else path.parent for path in found]
    paths = folders if is_write else [path for path in found if not path.is_dir()]
    if len(set(paths)) > MAX_PATHS:
        paths = folders
    shown = dict.fromkeys(_shown(path, call) for path in paths)
    if "{project}" in shown or len(shown) > MAX_PATHS:
        shown = dict.fromkeys(_shortened(one) for one in shown)
    texts = [one.removesuffix("/") for one in shown]
    return tuple(one for one in texts if not any(one.startswith(f"{other}/") for other in texts))


def _shown(path: Path, call: CallRights) -> str:
    """The entry for a path; in the shared folder for temporary files, the private one of a run."""
    entry = call.template_of(path)
    base = Path(temporary_base(call.network_env)).resolve()
    return "{tmp}" if entry.startswith("/") and path.is_relative_to(base) else entry


def _shortened(shown: str) -> str:
    """The folder that a path begins with."""
    return shown.split("/", 1)[0] if shown.startswith("{") else str(Path(shown).parent)


def _programs(attempts: Iterable[Attempt]) -> Entries:
    """The names of programs that were started, but for the interpreter itself."""
    started = [one.target for one in attempts if one.what == "run" and Path(one.target).is_file()]
    return tuple(dict.fromkeys(Path(path).name for path in started[1:]))


def _network(attempts: Iterable[Attempt]) -> tuple[Entries | None, tuple[str, ...]]:
    places = [one.target for one in attempts if one.what in {"connect", "bind"}]
    outside = [one for one in places if not one.startswith(("127.", "[::1]", "0.0.0.0:0"))]
    outside = [one for one in outside if not one.endswith(_DNS)]
    if outside:
        first = outside[0]
        note = (
            f"it connected to {first}: name its hosts instead of any, like"
            ' network: ["api.example.org:443"], if it goes through HTTPS_PROXY'
        )
        return None, (note,)
    return ((LOOPBACK,), ()) if places else ((), ())


def _variables(tool: ChainElement, rye: Rye) -> Entries:
    """Variables that are set here and that the tool's text names."""
    words = set(_WORD.findall(tool.item.text if tool.item else ""))
    names = words & rye.context.process_env.keys()
    return tuple(
        sorted(
            name
            for name in names
            if name.isupper()
            and not any(fits_variable(one, name) for one in BASIC_VARIABLES)
            and not name.startswith("RYE_")
        )
    )


def block(rights: Rights, suffix: str) -> str:
    """The block in the syntax of a file's header."""
    import json

    said: dict[str, Any] = {
        key: value for key, value in rights.describe().items() if value != "none"
    }
    said = said or {"network": "none"}
    if suffix == ".py":
        return f"SANDBOX = {json.dumps(said)}"
    if suffix in {".js", ".mjs", ".cjs", ".ts"}:
        return f"const SANDBOX = {json.dumps(said)};"
    if suffix in {".yaml", ".yml"}:
        lines = (f"  {key}: {json.dumps(value)}" for key, value in said.items())
        return "\n".join(("sandbox:", *lines))
    if suffix == ".json":
        return f'"sandbox": {json.dumps(said)}'
    if suffix == ".toml":
        return "\n".join(("[sandbox]", *(f"{key} = {json.dumps(v)}" for key, v in said.items())))
    return f"# sandbox: {json.dumps(said)}"


# --- sandbox --------------------------------------------------------------------------------------


def _configure_show(parser: Arguments) -> None:
    parser.add_argument("ref", metavar="REF", help="a tool", offers="tools")


def _show(session: Session) -> int:
    reference = _tool(session)
    rights = session.rye.executor.rights(reference.id)
    described = rights.describe()
    agents = agents_may(session)
    envelope = {
        "status": "success",
        "item_id": reference.id,
        "sandbox": described,
        "agents": agents,
    }
    lines = [*rights_text(described), *agents_text(agents)]
    session.output.answer(envelope, "\n".join(lines))
    return 0


def _configure_suggest(parser: Arguments) -> None:
    add = parser.add_argument
    what = "a signed tool; it is run once, with all rights that you have"
    add("ref", metavar="TOOL", help=what, offers="tools")
    add("pairs", metavar="k=v", nargs="*", help="its parameters, as of: rye run")
    add("--params", metavar="JSON|@FILE|-", help="all parameters as one JSON object")
    add("--stdin", action="store_true", help="parameters as JSON on standard input")
    add("--timeout", metavar="S", type=float, help="seconds; 0 for no limit")


def _suggest(session: Session) -> int:
    arguments = session.arguments
    reference = _tool(session)
    request = ExecutionRequest(
        item_id=reference.id,
        parameters=parameters(arguments, lambda: session.rye.schema_of(reference)),
        timeout_s=timeout(arguments.timeout),
    )
    found = suggest(session.rye, reference, request)
    path = session.rye.executor.build_chain(reference.id).tool.path or Path("x.yaml")
    text = block(found.rights, path.suffix)
    envelope = {
        "status": "success",
        "item_id": reference.id,
        "sandbox": found.rights.describe(),
        "block": text,
        "run": found.answer.envelope["status"],
        "notes": list(found.notes),
    }
    session.output.answer(envelope, text)
    for note in found.notes:
        session.output.warn(note)
    if found.answer.exit_status:
        error = found.answer.envelope.get("error")
        session.output.warn(f"the run failed, so something may be missing: {error}")
    session.output.note(f"next: write it into {path}, then: rye sign tool:{reference.id}")
    return 0


def _tool(session: Session) -> Reference:
    reference = session.rye.reference(session.arguments.ref)
    if reference.kind not in (None, Kind.TOOL):
        raise UsageError(f"{reference}: only tools have rights")
    chain = session.rye.executor.build_chain(reference.id)
    return replace(reference, kind=Kind.TOOL, id=chain.tool.item_id)


SHOW = CommandSpec(_configure_show, _show, ["rye sandbox show rye/web/fetch"])
SUGGEST = CommandSpec(
    _configure_suggest, _suggest, ["rye sandbox suggest mine/report month=2026-10"]
)
