"""A call of a tool that starts threads."""

from typing import Any

from lillux.cancellation import Cancellation
from lillux.values import replace
from ryeos.app.agent_threads import carry_out
from ryeos.app.thread_workspace import THREAD, ThreadWorkspace
from ryeos.items.refs import Kind, Reference
from ryeos.run.calls import Materials, OnStderr
from ryeos.run.model import ExecutionRequest, ThreadRequest
from ryeos.run.outcomes import MappedResult


class ThreadCall:
    """The call of a tool on the primitive ``thread``: see `ryeos.run.calls.Call`.

    Its parameters: ``directive_id``, ``inputs``, ``model``, ``limit_overrides``.
    """

    def __init__(self, rye: "ThreadWorkspace", materials: Materials) -> None:
        self._rye, self._materials = rye, materials

    @property
    def program(self) -> str:
        """Empty: no program is started."""
        return ""

    @property
    def confinement(self) -> None:
        """None: no program is started."""
        return

    def describe(self) -> dict[str, Any]:
        """The directive, and what its thread would have. Raises as `carry_out`."""
        reference, request = self._asked()
        checked = carry_out(self._rye, reference, replace(request, dry_run=True), None).envelope
        warnings = checked["metadata"].get("warnings")
        return {
            "directive_id": str(reference),
            THREAD: checked[THREAD],
            **({"warnings": warnings} if warnings else {}),
        }

    def run(
        self,
        *,
        cancellation: Cancellation | None = None,
        on_stderr: OnStderr | None = None,  # noqa: ARG002 - of the protocol; a thread writes none
    ) -> MappedResult:
        """Carry the directive out. Raises RyeError for what keeps it from beginning."""
        reference, request = self._asked()
        answer = carry_out(self._rye, reference, request, cancellation)
        envelope = answer.envelope
        has_failed = envelope["status"] == "error"
        return MappedResult(
            success=not has_failed,
            data=dict(envelope),
            error=str(envelope["error"]) if has_failed else None,
            code="EXECUTION_FAILED" if has_failed else "",
        )

    def _asked(self) -> tuple[Reference, ExecutionRequest]:
        """The directive, and how it is to be carried out."""
        given, request = self._materials.request.parameters, self._materials.request
        item_id = str(given["directive_id"]).removeprefix("directive:")
        wanted = replace(
            request,
            item_id=item_id,
            parameters=dict(given.get("inputs") or {}),
            run_id="",
            resolution=None,
            callers=tuple(filter(None, [*request.callers, self._materials.rights.rights])),
            thread=ThreadRequest(
                model=given.get("model", ""), limits=dict(given.get("limit_overrides") or {})
            ),
        )
        return Reference(Kind.DIRECTIVE, item_id), wanted
