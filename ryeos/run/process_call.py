"""A call that starts a program and waits for its end: what most runtimes are."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lillux.cancellation import Cancellation
from lillux.process.model import Command, Outcome, ProcessRunner
from lillux.values import dataclass, replace
from ryeos.items.errors import SpecError
from ryeos.items.refs import AI_DIRECTORY
from ryeos.items.specs import type_name
from ryeos.run.calls import Materials, OnStderr, Services
from ryeos.run.command import build_invocation
from ryeos.run.held import (
    ENVIRONMENT,
    STARTER,
    HeldStart,
    files_of,
    in_environment,
    shown_words,
    started_by,
)
from ryeos.run.model import ChainElement, HeldFiles, Invocation
from ryeos.run.outcomes import MappedResult, map_outcome
from ryeos.trust.verify import VerifiedItem

if TYPE_CHECKING:
    from lillux.sandbox import Confinement
    from ryeos.run.confinement import CallRights
    from ryeos.run.held_folder import HeldFolder


# A runtime with this in its config refuses by itself to load files that were not verified.
GUARDED = "guarded"
# A tool in one of these is no program: what it says was parsed from the verified bytes.
_DATA_SUFFIXES = frozenset({".yaml", ".yml", ".json", ".toml"})

SHORTEST_SECRET = 4


@dataclass(frozen=True, slots=True)
class ProcessCall:
    """An invocation, what runs it, and its rights. See `ryeos.run.calls.Call`."""

    invocation: Invocation
    runner: ProcessRunner
    rights: "CallRights"

    @property
    def program(self) -> str:
        """The program that it starts."""
        return self.invocation.argv[0]

    @property
    def confinement(self) -> "Confinement | None":
        """The limits of the program."""
        return self.invocation.confinement

    def describe(self) -> dict[str, Any]:
        """The command, its folder, its limit, and the names of the variables that were set."""
        return describe_invocation(self.invocation, self.rights)

    def run(
        self, *, cancellation: Cancellation | None = None, on_stderr: OnStderr | None = None
    ) -> MappedResult:
        """Run the program. Raises ProgramNotFoundError, SpawnError, ConfigurationError."""
        outcome = self.outcome(cancellation=cancellation, on_stderr=on_stderr)
        invocation = self.invocation
        mapped = map_outcome(outcome, invocation.timeout_s, is_text=invocation.is_text)
        return self.with_refusals(mapped)

    def with_refusals(self, mapped: MappedResult) -> MappedResult:
        """The result, with the refused accesses."""
        invocation, rights = self.invocation, self.rights
        if invocation.confinement is None or (mapped.success and not rights.watches):
            return mapped
        from ryeos.run.refusals import with_refusals

        return with_refusals(
            mapped,
            invocation.confinement,
            rights,
            invocation.attempts,
            cwd=str(invocation.cwd),
            search_path=invocation.env.get("PATH", os.defpath),
            withheld=invocation.withheld,
        )

    def outcome(
        self, *, cancellation: Cancellation | None = None, on_stderr: OnStderr | None = None
    ) -> Outcome:
        """Run the program; its outcome. Raises as `run`."""
        with opened(self.invocation, self.rights) as invocation:
            if invocation.folder is None:
                command = command_of(invocation)
                return self.runner.run(command, cancellation=cancellation, on_stderr=on_stderr)
            with invocation.folder.made():
                command = command_of(with_copies(invocation, invocation.folder))
                return self.runner.run(command, cancellation=cancellation, on_stderr=on_stderr)


def process_call(materials: Materials, services: Services) -> ProcessCall:
    """The call for these materials. Raises SpecError, ProgramNotFoundError."""
    invocation = replace(build_invocation(materials), on_stdout=materials.request.on_stdout)
    if STARTER in materials.config:
        held = held_files(materials, services)
        started = started_by(invocation, held, *invocation.argv[1:])
        invocation = in_environment(started, held_start(started.argv[0], materials, services))
    elif invocation.sealed is None:
        invocation = replace(invocation, folder=_folder(invocation, materials))
    return ProcessCall(invocation, services.runner, materials.rights)


def _folder(invocation: Invocation, materials: Materials) -> "HeldFolder | None":
    """The copies that a command shall open instead of verified files; None where it opens none."""
    tool, files, anchor = materials.chain.tool.item, materials.files, materials.anchor
    if tool is None or (tool.target.suffix in _DATA_SUFFIXES and not files.items):
        return None
    from ryeos.run.held_folder import HeldFolder, new_place

    own = str(tool.target.path.parent)
    held = HeldFolder(
        path=new_place(Path(anchor.names["user_space"], AI_DIRECTORY)),
        files=files_of((*files.items, tool)),
        folders=files.folders or {own: os.path.realpath(own)},
        names=tuple({*anchor.env, *anchor.env_paths} - {"PATH"}),
        rules=files.rules,
        is_guarded=materials.config.get(GUARDED) is True,
        is_bare=files.rules.leaves_out and not anchor.active,
        root=os.path.realpath(tool.target.space.base),
    )
    names_files = any(map(held.place_of, invocation.argv))
    return held if names_files or anchor.active else None


def with_copies(invocation: Invocation, folder: "HeldFolder") -> Invocation:
    """The invocation with copies in place of files and of folders that are searched for modules."""
    confinement = invocation.confinement
    if confinement is not None:
        readable, executable = confinement.readable, confinement.executable
        confinement = replace(
            confinement,
            readable=None if readable is None else (*readable, folder.path),
            executable=None if executable is None else (*executable, folder.path),
        )
    return replace(
        invocation,
        argv=tuple(folder.place_of(word) or word for word in invocation.argv),
        env={**invocation.env, **folder.variables(invocation.env)},
        confinement=confinement,
    )


def held_files(materials: Materials, services: Services) -> HeldFiles:
    """The bytes that a starter needs: the tool's, and those of all verified files around it.

    Raises SpecError, IntegrityError and similar.
    """
    chain, files = materials.chain, materials.files
    starter = companion_named(STARTER, materials, services)
    own = (chain.tool.item,) if chain.tool.item else ()
    return HeldFiles(
        starter=starter.data, files=files_of((*files.items, *own)), folders=files.folders
    )


def command_of(invocation: Invocation) -> Command:
    """The command that a process runner takes."""
    return Command(
        argv=invocation.argv,
        env=invocation.env,
        cwd=invocation.cwd,
        stdin=invocation.stdin,
        timeout_s=invocation.timeout_s,
        max_output_bytes=invocation.max_output_bytes,
        leaves_nothing=True,
        confinement=invocation.confinement,
        on_attempt=invocation.attempts.append,
        on_stdout=invocation.on_stdout,
        has_private_words=True,
        sealed=invocation.held.packed() if invocation.held else invocation.sealed,
    )


@contextmanager
def opened(invocation: Invocation, rights: "CallRights") -> Iterator[Invocation]:
    """The invocation with its way to hosts open, and what it may write there, until the end.

    Its private temporary folder is made for it and removed with all that is in it. Raises
    FileSystemError.
    """
    if invocation.confinement is None and not rights.needs_folder:
        yield invocation
        return
    with rights.temporary_folder(invocation.env) as folder:
        rights.prepare_folders(folder)
        with with_hosts(placed_invocation(invocation, folder), rights) as given:
            yield given


def placed_invocation(invocation: Invocation, folder: Path | None) -> Invocation:
    """The invocation with its private temporary folder, if it has one."""
    if folder is None:
        return invocation
    from lillux.run_folders import VARIABLES
    from ryeos.run.confinement import placed_confinement

    wanted = invocation.confinement
    return replace(
        invocation,
        env={**invocation.env, **dict.fromkeys(VARIABLES, str(folder))},
        confinement=placed_confinement(wanted, folder) if wanted else None,
    )


@contextmanager
def with_hosts(invocation: Invocation, rights: "CallRights") -> Iterator[Invocation]:
    """The invocation with a way to its hosts, whose refusals it hears within the block."""
    confinement = invocation.confinement
    forwarder = rights.forwarder() if confinement else None
    if forwarder is None or confinement is None:
        yield invocation
        return
    from lillux.seccomp import Addresses, Reach

    addresses = Addresses(Reach.PROXY, forwarder.port)
    with forwarder.hearers.heard_by(invocation.attempts.append):
        yield replace(
            invocation,
            env=rights.proxied(invocation.env, forwarder),
            confinement=replace(confinement, addresses=addresses),
        )


def describe_invocation(invocation: Invocation, rights: "CallRights") -> dict[str, Any]:
    """An invocation to be shown: without the secrets that the environment put into it."""
    return {
        "command": [masked(word, invocation.env) for word in shown_words(invocation.argv)],
        "cwd": str(invocation.cwd),
        "env_keys": list(invocation.contributed),
        "timeout_s": invocation.timeout_s,
        "sandbox": rights.describe(),
    }


def masked(text: str, env: Mapping[str, str]) -> str:
    """A text without the values of variables whose names speak of secrets."""
    from lillux.secret_names import says_secret

    for name, value in env.items():
        if len(value) >= SHORTEST_SECRET and says_secret(name):
            text = text.replace(value, "***")
    return text


def held_start(program: str, materials: Materials, services: Services) -> "HeldStart | None":
    """The approved environment of a Python, to be set up from compared bytes; None for another one.

    Raises IntegrityError where it is not as it was approved.
    """
    if not any(ENVIRONMENT in element.spec.config for element in materials.chain.elements):
        return None
    environment = services.holds(program)
    if environment is None:
        return None
    return HeldStart(environment, companion_named(ENVIRONMENT, materials, services).data)


def companion_named(key: str, materials: Materials, services: Services) -> VerifiedItem:
    """The file that ``config.KEY`` of a chain names, as the element sees it that has the key."""
    for element in materials.chain.elements:
        if key in element.spec.config:
            return _companion(element, key, services)
    raise SpecError(f"config.{key}", "expected the id of a file, got nothing")


def _companion(element: ChainElement, key: str, services: Services) -> VerifiedItem:
    item_id = element.spec.config[key]
    if not isinstance(item_id, str):
        raise SpecError(f"config.{key}", f"expected an id, got {type_name(item_id)}")
    companion = services.companion(item_id, element)
    if companion.item is None:
        raise SpecError(f"config.{key}", f"expected the id of a file, got {item_id!r}")
    return companion.item
