"""The public API: one object per context that wires resolver, trust, verification and executor.

Every method answers with an `Answer`; what Rye cannot do is a `LilluxError` for the caller's door.
"""

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cached_property
from itertools import product
from pathlib import Path
from time import perf_counter, time_ns
from typing import TYPE_CHECKING, Any, Self, overload

from lillux.cancellation import Cancellation
from lillux.contained_paths import safe_join
from lillux.fields import ABSENT
from lillux.files import create_file, make_directory, read_bytes, write_atomic
from lillux.process.model import ProcessRunner
from lillux.values import replace
from ryeos.items.context import CONFINE_VARIABLE, Context, cache_place, log_warning, named_project
from ryeos.items.errors import (
    Answer,
    IntegrityError,
    NoSigningKeyError,
    UnsupportedError,
    UsageError,
    error_envelope,
    failed_run_status,
    no_project_error,
)
from ryeos.items.refs import (
    AI_DIRECTORY,
    PROJECT,
    SYSTEM,
    USER,
    ItemRef,
    Kind,
    Location,
    Reference,
    Resolution,
    Space,
    parse_reference,
)
from ryeos.run.calls import Call, Materials, OnStderr, OnStep
from ryeos.run.engine import PrimitiveExecutor
from ryeos.run.model import ExecutionRequest, ExecutionResult, ThreadRequest
from ryeos.trust.approvals import APPROVED_PROJECT, ProjectApproval
from ryeos.trust.config import ConfigReader, Layer
from ryeos.trust.resolver import Resolver, with_added_types
from ryeos.trust.signature import MAX_ITEM_BYTES
from ryeos.trust.store import Approvals, TrustStore
from ryeos.trust.verify import Coverage, Target, VerifiedItem, Verifier, require_place
from ryeos.trust.versions import Edition

if TYPE_CHECKING:  # a run of a tool needs neither
    from ryeos.app.thread_workspace import Payer, ThreadSource
    from ryeos.run.functions import FunctionHost
    from ryeos.run.receipts import Receipts
    from ryeos.run.threads.registry import ThreadRegistry
    from ryeos.run.threads.seals import RunnerSeals
    from ryeos.run.threads.start import Program
    from ryeos.search.catalog import Catalog
    from ryeos.search.search import SearchRequest, SearchResult
    from ryeos.trust.audit import AuditReport
    from ryeos.trust.signature import Signature
    from ryeos.trust.signing_key import SigningKey
    from ryeos.trust.skill_files import Skill

__all__ = ["Rye"]

ALIASES_PATH = "rye/aliases.yaml"
MAX_OTHER_PROJECTS = 4
INTEGRITY_PATH = "integrity/integrity.yaml"


class Rye:
    """Everything that can be done with the items of a context.

    ``warn`` gets one line for each thing that a person should hear about. ``restore`` writes a file
    of the own bundle anew, where there is something to restore it from. With ``functions``, Python
    functions are called in warm workers: worth it from the second call on. ``program`` is how this
    program is started once more, for what a graph leaves running.
    """

    def __init__(
        self,
        context: Context,
        *,
        runner: ProcessRunner | None = None,
        functions: "FunctionHost | None" = None,
        warn: Callable[[str], None] = log_warning,
        restore: Callable[[str], bool] = lambda _: False,
        program: "Callable[[Context], Program] | None" = None,
    ) -> None:
        context = with_added_types(context, lambda: self.verifier, warn)
        self._runner, self._functions, self._restore = runner, functions, restore
        self._program = program
        self._elsewhere: dict[Path, Rye] = {}
        self._lender: Rye | None = None  # the one that this is made like, and whose workers it uses
        self._signing_key: SigningKey | None = None
        self.warn = warn
        self.approvals = Approvals(context.spaces.user.ai)
        self.trust = TrustStore(context.spaces, self.approvals)
        approval = ProjectApproval(
            context.spaces.user,
            context.project_path,
            self.trust,
            lambda: cache_place(context.process_env, "approved", context.platform),
        )
        self.approval = approval
        self.context = context = replace(
            context, approves=approval.allows, holds=approval.hold, places=approval.place
        )
        self.verifier = Verifier(
            context.spaces, self.trust, dev_mode=context.dev_mode, warn=warn, restore=restore
        )
        self.caller: Callable[[], Mapping[str, Any]] = lambda: {"kind": "cli"}
        self.thread_source: ThreadSource | None = None  # a node has one, see `ThreadSource`
        self.payer: Payer | None = None  # the thread whose model calls items here, see `Payer`
        self.require_visible: Callable[[ItemRef], None] = lambda _ref: None
        self.require_project: Callable[[Path], None] = lambda _path: None
        self.resolver = Resolver(
            context.spaces,
            lambda: self._aliases,
            lambda ref: self.require_visible(ref),  # noqa: PLW0108 - set later
        )
        self.config = ConfigReader(context.spaces, self.verifier)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the warm workers, if there are any."""
        if self._functions:
            self._functions.close()

    @cached_property
    def executor(self) -> PrimitiveExecutor:
        """The executor of this context."""
        return PrimitiveExecutor(
            self.context,
            self.resolver,
            self.verifier,
            runner=self._runner,
            functions=self._functions,
            graphs=self._graph_call,
            threads=self._thread_call,
            config=self.config,
        )

    def _graph_call(self, materials: Materials, on_step: OnStep | None) -> Call:
        from ryeos.app.graph_environment import WorkspaceEnvironment
        from ryeos.graph.call import GraphCall

        self._keep_functions_warm()
        return GraphCall(materials, WorkspaceEnvironment(self, self.search_items), on_step)

    def _thread_call(self, materials: Materials) -> Call:
        from ryeos.app.thread_calls import ThreadCall

        return ThreadCall(self, materials)

    @cached_property
    def receipts(self) -> "Receipts":
        """The receipts of this context's runs."""
        from ryeos.run.receipts import Receipts

        return Receipts(self.context)

    def search_items(self, request: "SearchRequest") -> "SearchResult":
        """The items that a search finds. Raises InvalidQueryError, VerbArgumentError."""
        from ryeos.search.search import search

        return search(self.catalog, request, lambda _: ())

    def _keep_functions_warm(self) -> None:
        """Use warm workers, for the many calls of a graph; not with a runner that was passed in."""
        if self._functions is not None or self._runner is not None or not hasattr(os, "fork"):
            return
        if self._lender is not None:  # so `close` of that one ends them
            self._lender._keep_functions_warm()  # noqa: SLF001 - of the same class
            self._functions = self._lender._functions  # noqa: SLF001
        if self._functions is None:
            from ryeos.run.functions import FunctionHost

            self._functions = FunctionHost()
        self.executor.keep_warm(self._functions)

    @cached_property
    def catalog(self) -> "Catalog":
        """The items of this context, kept in memory and in the cache for searches."""
        from ryeos.search.catalog import PLACE, Catalog

        place = cache_place(self.context.process_env, PLACE, self.context.platform)
        return Catalog(self.context.spaces, self.verifier, place)

    def at(self, project: str, *, is_copy: bool = False) -> "Rye":
        """The same for another project; a relative path starts at this one. Few are kept.

        ``is_copy`` is for one that was made for a test case, see `Context`.

        Raises RyeError `NO_PROJECT` when it is no folder, `PERMISSION_DENIED` for one that an agent
        may not name.
        """
        context = self.context
        path = named_project(project, context.working_directory, context.process_env)
        if path == context.project_path:
            return self
        self.require_project(path)
        if path not in self._elsewhere:
            while len(self._elsewhere) >= MAX_OTHER_PROJECTS:
                del self._elsewhere[next(iter(self._elsewhere))]
            spaces = replace(context.spaces, project=Space(PROJECT, path))
            self._elsewhere[path] = self._with(replace(context, spaces=spaces, is_copy=is_copy))
        return self._like_this(self._elsewhere[path])

    def with_context(self, context: Context) -> "Rye":
        """The same in another context, as one whose tools get fewer variables."""
        return self._like_this(self._with(context))

    def paid_by(self, payer: "Payer") -> "Rye":
        """The same, where a running thread pays for the threads that items start."""
        from copy import copy

        other = copy(self)
        own = vars(other)
        own.pop("executor", None)  # it would call back to this one
        own.update(_elsewhere={}, payer=payer, _lender=self)
        return other

    def _with(self, context: Context) -> "Rye":
        return Rye(
            context,
            runner=self._runner,
            functions=self._functions,
            warn=self.warn,
            restore=self._restore,
            program=self._program,
        )

    def _like_this(self, other: "Rye") -> "Rye":
        other.require_visible = self.require_visible
        other.require_project = self.require_project
        other.caller = self.caller
        other.thread_source = self.thread_source
        other.payer = self.payer
        other._lender = self  # noqa: SLF001 - of the same class
        return other

    if TYPE_CHECKING:  # no start pays for importing `typing`

        @overload
        def execute(
            self,
            item: Reference,
            request: ExecutionRequest,
            *,
            cancellation: Cancellation | None = None,
            on_stderr: OnStderr | None = None,
            on_step: OnStep | None = None,
        ) -> Answer: ...

        @overload
        def execute(
            self,
            item: str,
            request: Mapping[str, Any] | None = None,
            *,
            cancellation: Cancellation | None = None,
            on_stderr: OnStderr | None = None,
            on_step: OnStep | None = None,
            dry_run: bool = False,
        ) -> dict[str, Any]: ...

    def execute(
        self,
        item: Reference | str,
        request: ExecutionRequest | Mapping[str, Any] | None = None,
        *,
        cancellation: Cancellation | None = None,
        on_stderr: OnStderr | None = None,
        on_step: OnStep | None = None,
        dry_run: bool = False,
    ) -> Answer | dict[str, Any]:
        """Run a tool, render a directive, or give a knowledge text.

        An item in words takes its parameters, and gives the envelope, also of a failure. A
        `Reference` takes an `ExecutionRequest`, and gives the whole answer.
        Raises LilluxError for an item that cannot be found; what goes wrong later is an answer.
        """
        if isinstance(request, ExecutionRequest):
            reference = item if isinstance(item, Reference) else self.reference(item)
            return self._execute(reference, request, cancellation, on_stderr, on_step)
        reference = self.reference(str(item))
        request = ExecutionRequest(
            item_id=reference.id, parameters=dict(request or {}), dry_run=dry_run
        )
        return dict(self._execute(reference, request, cancellation, on_stderr, on_step).envelope)

    def run_thread(
        self,
        directive: str,
        inputs: Mapping[str, Any] | None = None,
        *,
        model: str = "",
        limits: Mapping[str, Any] | None = None,
        cancellation: Cancellation | None = None,
    ) -> dict[str, Any]:
        """Have a model carry a directive out; the envelope of the thread, also of a failure.

        ``limits`` lower those of the directive, like ``{"turns": 5, "spend": "0.50"}``.
        Raises LilluxError for a directive or a model that cannot be found.
        """
        reference = self.reference(directive)
        request = ExecutionRequest(
            item_id=reference.id,
            parameters=dict(inputs or {}),
            thread=ThreadRequest(model=model, limits=dict(limits or {})),
        )
        reference = Reference(Kind.DIRECTIVE, reference.id)
        return dict(self._execute(reference, request, cancellation, None, None).envelope)

    def _execute(
        self,
        reference: Reference,
        request: ExecutionRequest,
        cancellation: Cancellation | None,
        on_stderr: OnStderr | None,
        on_step: OnStep | None,
    ) -> Answer:
        kind, resolution = self.kind_of(reference, request.resolution)
        if kind is Kind.CONFIG:
            raise UsageError(f"{reference}: configuration is read by tools, never run")
        if kind is Kind.TOOL:
            wants = bool(self.context.receipts) or request.wants_receipt
            request = replace(request, resolution=resolution, wants_receipt=wants)
            return self._run_tool(request, cancellation, on_stderr, on_step)
        if request.thread is not None and kind is Kind.DIRECTIVE:
            from ryeos.app.agent_threads import carry_out

            return carry_out(self, reference, request, cancellation)
        envelope, _ = self.rendered(reference, replace(request, resolution=resolution))
        return Answer(envelope)

    def rendered(
        self, reference: Reference, request: ExecutionRequest
    ) -> tuple[dict[str, Any], VerifiedItem]:
        """The envelope of a directive or of knowledge, and the item whose bytes it is made of.

        Raises what finding and verifying it raises.
        """
        started_at = perf_counter()
        resolution = request.resolution or self.resolver.resolve(reference)
        item = self.verifier.verify_location(resolution.location)
        self._require_coverage(resolution.location, item)
        self._require_newest(resolution.location.ref, item)
        if request.known_texts:
            from ryeos.trust.known_texts import require_known_text

            require_known_text(str(resolution.location.ref), item, request.known_texts)
        from ryeos.items.rendering import render_directive, render_knowledge

        if resolution.location.ref.kind is Kind.DIRECTIVE:
            envelope = render_directive(
                item.text,
                resolution.location.ref,
                request.parameters,
                self.context.process_env,
                dry_run=request.dry_run,
                trace=request.trace,
                own_values=self._own_values,
            )
            _give_skill(envelope, item)
        else:
            suffix = resolution.location.suffix
            envelope = render_knowledge(
                item.text, resolution.location.ref, suffix, dry_run=request.dry_run
            )
        envelope["metadata"] = {
            "duration_ms": round((perf_counter() - started_at) * 1000, 3),
            **envelope["metadata"],
            **_marks(item),
        }
        for warning in envelope.pop("warnings", ()):
            self.warn(warning)
        return envelope, item

    def _run_tool(
        self,
        request: ExecutionRequest,
        cancellation: Cancellation | None,
        on_stderr: OnStderr | None,
        on_step: OnStep | None,
    ) -> Answer:
        """The answer of a tool, with its receipt where one is wanted or it is a graph."""
        caller = request.caller or self.caller()
        started_ns = time_ns()
        starts: list[tuple[str, str]] = []
        result = self.executor.execute(
            request,
            cancellation=cancellation,
            on_stderr=on_stderr,
            on_step=on_step,
            on_start=lambda found: starts.append(self.receipts.begin(found, started_ns, caller)),
        )
        answer = tool_answer(result, request)
        if not result.evidence or not starts:
            return answer
        start, warning = starts[0]
        if warning:
            self.warn(warning)
        return self.receipts.leave(result.evidence, answer, started_ns, caller, start)

    def _require_newest(self, ref: ItemRef, item: VerifiedItem) -> None:
        """Refuse a version below one that was signed or rendered before. Raises RollbackError."""
        if item.signer and item.identity:
            edition = Edition.of(ref, item, item.identity.version)
            self.executor.versions.require_newest(edition, item.target.path)
            self.executor.versions.note(edition)

    def kind_of(
        self, reference: Reference, resolution: Resolution | None = None
    ) -> tuple[Kind, Resolution | None]:
        """The kind of an item, and where the item is if it had to be resolved for that.

        ``resolution`` is where it is, if the caller knows. Raises ItemNotFoundError,
        AmbiguousItemError, IntegrityError.
        """
        if resolution is None and reference.kind:
            return reference.kind, None
        resolution = resolution or self.resolver.resolve(reference)
        return resolution.location.ref.kind, resolution

    def schema_of(
        self, reference: Reference, resolution: Resolution | None = None
    ) -> Mapping[str, Any]:
        """The schema of an item's inputs, empty without one. Raises what looking at it raises.

        ``resolution`` is where the item is, if the caller has resolved the reference already.
        """
        kind, resolution = self.kind_of(reference, resolution)
        if kind is Kind.TOOL:
            chain = self.executor.build_chain(reference.id, resolution=resolution)
            return chain.tool.spec.config_schema or {}
        if kind is Kind.DIRECTIVE:
            from ryeos.items.rendering import input_schema

            return input_schema(self.load(Reference(kind, reference.id))[1].text) or {}
        return {}

    def check(self, reference: Reference, request: ExecutionRequest) -> Answer:
        """True if `execute` would begin, here or on a machine with other programs. Raises as it.

        Of a thread only what holds everywhere: a node has models and ceilings of its own.
        """
        dry = replace(request, dry_run=True)
        kind, resolution = self.kind_of(reference, request.resolution)
        if kind is not Kind.TOOL:
            if request.thread:
                from ryeos.agent.limits import read_limits

                read_limits(request.thread.limits, "limit_overrides")
            return self.execute(reference, replace(dry, thread=None))
        return tool_answer(self.executor.check(replace(dry, resolution=resolution)), dry)

    def start(self, reference: Reference, request: ExecutionRequest, program: "Program") -> Answer:
        """Run a tool in the background, or let it see to that itself; the answer names the thread.

        What can be refused is refused here, as `execute` would.
        """
        from ryeos.graph.run_places import new_run_id
        from ryeos.run.primitives import is_graph
        from ryeos.run.threads.start import (
            NOT_KNOWN,
            Owner,
            owner_of,
            require_detachable,
            start_thread,
            started_envelope,
        )

        started_at = perf_counter()
        kind, resolution = self.kind_of(reference, request.resolution)
        if request.thread is None:
            require_detachable(kind, str(reference))
        request = replace(request, resolution=resolution, in_background=True)
        checked = self.execute(reference, replace(request, dry_run=True))
        if checked.exit_status:
            return checked
        if kind is Kind.DIRECTIVE:
            ref = (resolution or self.resolver.resolve(reference)).location.ref
            thread = start_thread(
                self.threads,
                str(ref),
                replace(request, caller=request.caller or self.caller()),
                program=program,
                seals=self.runner_seals,
                warn=self.warn,
                thread_id=new_run_id(ref.id),
            )
            started = started_envelope(thread, (perf_counter() - started_at) * 1000)
            if warnings := checked.envelope["metadata"].get("warnings"):
                started["metadata"]["warnings"] = warnings
            return Answer(started)
        chain = self.executor.build_chain(request.item_id)
        if owner_of(chain) is Owner.CALLEE:
            return self.execute(
                reference, replace(request, parameters={**request.parameters, "async": True})
            )
        thread = start_thread(
            self.threads,
            f"{Kind.TOOL}:{chain.tool.item_id}",
            replace(request, caller=request.caller or self.caller()),
            program=program,
            seals=self.runner_seals,
            warn=self.warn,
            thread_id=new_run_id(chain.tool.item_id) if is_graph(chain) else "",
        )
        limit = checked.envelope.get("metadata", {}).get("timeout_s", NOT_KNOWN)
        return Answer(started_envelope(thread, (perf_counter() - started_at) * 1000, limit))

    def start_here(self, reference: Reference, request: ExecutionRequest) -> Answer:
        """Start it by this program. Raises UnsupportedError where that is not known."""
        if self._program is None:
            raise UnsupportedError(
                f"{reference}: async: this program does not know how it is started",
                hint="leave out async of the node, or run the graph with: rye run",
            )
        program = self._program(self.context)  # and the run that asks is its parent
        confined = {CONFINE_VARIABLE: "1"} if request.confined else {}
        program = replace(program, env={**program.env, **request.extra_env, **confined})
        return self.start(reference, request, program)

    def fingerprint(self, item_id: str) -> str | None:
        """A digest of all that a tool runs. See `PrimitiveExecutor.fingerprint`."""
        return self.executor.fingerprint(item_id)

    @cached_property
    def threads(self) -> "ThreadRegistry":
        """The background runs of this context."""
        from ryeos.run.threads.place import threads_place
        from ryeos.run.threads.registry import ThreadRegistry

        return ThreadRegistry(threads_place(self.context.spaces))

    @property
    def _own_values(self) -> dict[str, str]:
        """Values for placeholders of directives that do not come from the environment."""
        project = self.context.project_path
        return {"PROJECT_PATH": str(project)} if project else {}

    @property
    def runner_seals(self) -> "RunnerSeals":
        """The proof that a process is a runner of this user's."""
        from ryeos.run.threads.seals import RunnerSeals

        return RunnerSeals(self.context.spaces.user.ai)

    def load(self, reference: Reference, *, source: str = "") -> tuple[Resolution, VerifiedItem]:
        """The verified item that a reference names. Raises ItemNotFoundError, IntegrityError."""
        resolution = self.resolver.resolve(reference, source or PROJECT)
        location = resolution.location
        item = self.verifier.verify_location(location)
        if item.identity is None and location.space.tier != SYSTEM:
            from ryeos.trust.extractors import extract

            ref, where, added = location.ref, str(location.path), location.file_type
            header = extract(ref.kind, location.suffix, item.text, where, added)
            require_place(item, location.ref, header)
        _skill_of(item)
        return resolution, item

    def copy(
        self,
        resolution: Resolution,
        item: VerifiedItem,
        destination: Space,
        *,
        overwrite: bool,
        on_kept: Callable[[Path], None] = lambda _: None,
    ) -> tuple[Path, bool]:
        """Copy an item's very bytes to a space; the path, and whether they were there already.

        ``on_kept`` gets the path of what was replaced. Raises FileExistsError when another file is
        there and ``overwrite`` is false.
        """
        location = resolution.location
        relative = f"{location.ref.id}{location.path.suffix}"
        return self.copy_file(
            location, item.data, relative, destination, overwrite=overwrite, on_kept=on_kept
        )

    def copy_file(
        self,
        location: Location,
        data: bytes,
        relative: str,
        destination: Space,
        *,
        overwrite: bool,
        on_kept: Callable[[Path], None] = lambda _: None,
    ) -> tuple[Path, bool]:
        """Copy any file of an item: ``relative`` to the folder of the item's kind. See `copy`."""
        path = safe_join(destination.directory(location.ref.kind), relative)
        existing: bytes | None = None
        with suppress(FileNotFoundError):
            existing = read_bytes(path, MAX_ITEM_BYTES, within=destination.within)
        if existing is not None:
            if existing == data:
                return path, True
            if not overwrite:
                raise FileExistsError(str(path))
            from ryeos.items.replaced import keep_replaced

            on_kept(keep_replaced(self.context.spaces.user, path, existing))
        mode, within = location.path.stat().st_mode & 0o777, destination.within
        make_directory(path.parent, within=within)
        if existing is None:
            create_file(path, data, mode=mode, within=within)
        else:
            write_atomic(path, data, expected=existing, within=within)
        return path, False

    def audit(self, targets: list[Target]) -> "list[AuditReport]":
        """The state of each target."""
        from ryeos.trust.audit import audit

        return list(audit(targets, self.verifier, self._require_pinned))

    def _require_pinned(self, ref: ItemRef, item: VerifiedItem) -> None:
        """Refuse what a run would refuse: a lower version than before, another chain than pinned.

        Raises RollbackError, LockfileMismatchError and similar.
        """
        _skill_of(item)
        if ref.kind is Kind.TOOL:
            self._require_rights_read(item)
        if not item.signer:
            return
        version = item.identity.version if item.identity else ""
        self.executor.versions.require_newest(Edition.of(ref, item, version), item.target.path)
        if ref.kind is not Kind.TOOL or not self.executor.lockfiles.exists(ref.id, version):
            return
        found = self.resolver.resolve(Reference(ref.kind, ref.id)).location.path
        if found == item.target.path:  # else another file has the id, and the lockfile
            self.executor.require_pinned(ref.id)

    def _require_rights_read(self, item: VerifiedItem) -> None:
        """Refuse a tool that seems to declare rights which a run would not read."""
        if "sand" not in (text := item.text.lower()) and "box" not in text and text.isascii():
            return
        from ryeos.items.specs import header_field
        from ryeos.run.chain import require_rights_read
        from ryeos.trust.extractors import extract

        at = item.target
        header = item.header or extract(at.kind, at.suffix, item.text, str(at.path), at.file_type)
        if {"tool_type", "executor_id"} & header.keys():
            require_rights_read(item, has_rights=header_field(header, "sandbox") is not ABSENT)

    def version_of(self, location: Location, item: VerifiedItem) -> str:
        """The version of a verified item: of its identity line, else of its header."""
        if item.identity:
            return item.identity.version
        from ryeos.trust.extractors import extract
        from ryeos.trust.item_rules import version_in

        where, added = str(location.path), location.file_type
        return version_in(extract(location.ref.kind, location.suffix, item.text, where, added))

    def note_signed(self, ref: ItemRef, space: Space, signature: "Signature", version: str) -> None:
        """Let what was just signed count in this project, whatever ran before."""
        key = self.trust.get_key(signature.fingerprint, USER)
        signer = key.digest if key else signature.fingerprint
        self.executor.versions.note_signed(
            Edition(ref, signer, version, signature.content_hash, space.label)
        )

    def space(self, label: str) -> Space:
        """The project or user space. Raises RyeError `NO_PROJECT` outside a project."""
        space = self.context.spaces.named(label)
        if space is None:
            raise no_project_error("this folder is the home folder or a file system root")
        return space

    def network_layers(self, path: str) -> tuple[Layer, ...]:
        """The layers of settings that say where things are sent.

        What a project says counts like the user's own words, once the user approved that text.
        """
        shown = f"{AI_DIRECTORY}/config/{path}"
        return tuple(
            replace(layer, label=APPROVED_PROJECT)
            if layer.label == PROJECT and self.approval.allows(shown, layer.data)
            else layer
            for layer in self.config.layers(path)
        )

    def signing_key(self) -> "SigningKey":
        """The user's private key at work. Raises NoSigningKeyError, KeyMismatchError, PemError."""
        from lillux.key_files import KeyNotFoundError
        from ryeos.trust.signing_key import own_key

        if self._signing_key:
            return self._signing_key
        asked_for: list[Path] = []

        def passphrase_of(path: Path) -> bytes | None:
            asked_for.append(path)
            return self.context.passphrase(path)

        try:
            key = own_key(replace(self.context, passphrase=passphrase_of))
        except KeyNotFoundError:
            raise NoSigningKeyError(str(self.context.key_directory)) from None
        self._signing_key = key if asked_for else None  # a person types it once
        return key

    def reference(self, text: str, item_type: str | None = None) -> Reference:
        """Parse a reference; a path to an item file in a space means that item."""
        path = Path(text).absolute()
        if path.suffix and ":" not in text and path.is_file():
            for space, kind in product(self.context.spaces, Kind):
                folder, is_item = space.directory(kind), space.has_suffix(kind, path.suffix.lower())
                if is_item and path.is_relative_to(folder):
                    return Reference(kind, path.relative_to(folder).with_suffix("").as_posix())
        return parse_reference(text, item_type)

    @cached_property
    def _aliases(self) -> Mapping[ItemRef, str]:
        """The table of short ids: data of the bundles, so that no project can redirect one."""
        aliases: dict[ItemRef, str] = {}
        for layer in self.config.shipped_layers(ALIASES_PATH):
            table = layer.values.get("aliases") or {}
            for prefix in ("", *(layer.values.get("prefixes") or ())):
                aliases |= {ItemRef(Kind.TOOL, f"{prefix}{name}"): table[name] for name in table}
            directives = layer.values.get("directives") or {}
            aliases |= {ItemRef(Kind.DIRECTIVE, name): directives[name] for name in directives}
        return aliases

    def _require_coverage(self, location: Location, item: VerifiedItem) -> None:
        if item.coverage is Coverage.FULL or not item.verified:
            return
        layers = self.config.layers(INTEGRITY_PATH)
        if any(layer.values.get("require_full_coverage") is True for layer in layers):
            raise IntegrityError(
                str(location.path),
                "the signature covers only a part of the text, and full coverage is required",
                hint="review the text and sign it with your own key",
            )
        self.warn(f"{location.ref}: the signature covers only a part of the text")


def _marks(item: VerifiedItem) -> dict[str, Any]:
    """Marks of how far a text can be relied on."""
    coverage: dict[str, Any] = {"coverage": item.coverage.value}
    return coverage if item.verified else coverage | {"verified": False}


def _skill_of(item: VerifiedItem) -> "Skill | None":
    """The skill of a directive, all its files verified; None for any other item.

    Raises IntegrityError, MetadataError.
    """
    if item.target.kind is not Kind.DIRECTIVE:
        return None
    from ryeos.trust.skill_files import read_skill

    return read_skill(item)


def _give_skill(envelope: dict[str, Any], item: VerifiedItem) -> None:
    """Put the text of a skill in the place of the directions. Raises IntegrityError."""
    skill = _skill_of(item)
    if skill is None:
        return
    if skill.caches:
        from ryeos.trust.skill_files import drop_caches

        drop_caches(skill, str(item.target.path))
    envelope["skill"] = {"folder": str(skill.folder), "files": sorted(skill.files)}
    if "your_directions" in envelope:
        from ryeos.trust.skill_files import front_matter

        text = front_matter(skill.files["SKILL.md"])[1]
        others = ", ".join(sorted(skill.files.keys() - {"SKILL.md"}))
        files = f"\n\nFiles of this skill, as they were signed, in {skill.folder}: {others}"
        envelope["your_directions"] = envelope["body"] = text + (files if others else "")


def tool_answer(result: ExecutionResult, request: ExecutionRequest) -> Answer:
    """The envelope and the status for a tool's result."""
    metadata = {"duration_ms": round(result.duration_ms, 3), **result.metadata}
    common: dict[str, Any] = {"chain": result.chain, "metadata": metadata}
    if request.trace:
        common["trace"] = result.trace
    item_id = request.item_id
    if result.failure:
        envelope = error_envelope(result.failure) | {"item_id": item_id} | common
        diff = getattr(result.failure, "diff", ())
        return Answer(envelope, result.failure.exit_status, diff)
    if request.dry_run:
        message = f"{item_id} would run: every check passed"
        if metadata.get("path"):
            message += f"; its path: {', '.join(metadata['path'])}"
        envelope = {"status": "validation_passed", "type": "tool", "message": message}
        return Answer(envelope | {"item_id": item_id} | common)
    if result.success:
        envelope = {"status": "success", "type": "tool", "item_id": item_id, "data": result.data}
        return Answer(envelope | common)
    code = str(metadata.get("error_code", "EXECUTION_FAILED"))
    envelope = {"status": "error", "type": "tool", "error": result.error, "code": code}
    envelope |= {"item_id": item_id, "data": result.data}
    hint = metadata.pop("hint", "")  # of the call of a graph that failed
    envelope |= {"hint": hint} if hint else {}
    if metadata.get("refused"):
        from ryeos.run.refusals import hint_of

        envelope["hint"] = hint_of(item_id, metadata["refused"])
    return Answer(envelope | common, failed_run_status(code))
