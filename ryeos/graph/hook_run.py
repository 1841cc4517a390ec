"""The hooks of one walk: calls and controls that follow its events.

See ``docs/graphs.md``.
"""

from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any

from ryeos.graph.calls import CallRules, RefusedCallError, act_of_hook
from ryeos.graph.commands import CallResult, WalkCommand
from ryeos.graph.conditions import holds
from ryeos.graph.expressions import ExpressionError
from ryeos.graph.failures import Control, control_of
from ryeos.graph.model import Hook

# Those of the infrastructure watch; they do not steer.
_STEERING_LAYERS = (1, 2)
_NOTHING_SAID: Mapping[str, Any] = {"success": True}


class HookRun:
    """The hooks of one walk, by layer and then in the order of their files."""

    def __init__(
        self, hooks: Sequence[Hook], rules: CallRules, warn: Callable[[str], None]
    ) -> None:
        self._rules, self._warn = rules, warn
        self.is_cancelled = False  # the run was ended while one of them was called
        self._by_event: dict[str, list[Hook]] = {}
        for hook in sorted(hooks, key=lambda hook: hook.layer):
            self._by_event.setdefault(hook.event, []).append(hook)

    def fire(
        self, event: str, context: Mapping[str, Any], document: Mapping[str, Any]
    ) -> Generator[WalkCommand, CallResult, Control | None]:
        """Run every hook of an event whose condition holds; the first that steers counts.

        Conditions see the context, expressions the document as well.
        """
        control: Control | None = None
        for hook in self._by_event.get(event, ()):
            if not self._applies(hook, context):
                continue
            said = yield from self._hook_answer(hook, {**document, **context})
            if control is None and said and hook.layer in _STEERING_LAYERS:
                control = control_of(said)
        return control

    def _applies(self, hook: Hook, context: Mapping[str, Any]) -> bool:
        """True if its condition holds; one that cannot be judged does not."""
        try:
            return hook.condition is None or holds(hook.condition, context, self._warn)
        except ExpressionError as error:
            self._warn(f"hook of {hook.event}: {error}")
            return False

    def _hook_answer(
        self, hook: Hook, document: Mapping[str, Any]
    ) -> Generator[WalkCommand, CallResult, Mapping[str, Any]]:
        """The answer of a hook: its control, or that of its call; nothing where that failed."""
        if hook.control is not None:
            return hook.control
        if hook.action is None:
            return {}
        try:
            act = act_of_hook(hook, hook.action, document, self._rules, self._warn)
        except RefusedCallError as refusal:
            self._warn(f"hook of {hook.event}: {refusal}")
            return {}
        acted = yield act
        self.is_cancelled = self.is_cancelled or acted.is_cancelled
        if acted.has_failed:
            self._warn(f"hook of {hook.event}: {acted.result.get('error')}")
            return {}
        return {} if acted.result == _NOTHING_SAID else acted.result
