"""Hooks of a graph file: what is done at which event."""

from collections.abc import Mapping, Sequence
from typing import Any

from lillux.values import replace
from ryeos.graph.actions import read_action
from ryeos.graph.model import Action, Hook
from ryeos.graph.nodes import MAX_RETRIES, read_condition
from ryeos.graph.problems import Findings, GraphFields, below, found

EVENTS = ("graph_started", "error", "after_step", "limit", "graph_completed")
CONTROLS = ("retry", "fail", "abort", "continue", "skip")
MAX_HOOKS = 100

_CALL_KEYS = frozenset({"primary", "item_id", "kind", "item_type", "params"})
LAST_LAYER = 3


def read_hooks(fields: GraphFields) -> tuple[Hook, ...]:
    """The hooks of ``config``, in the order of the file."""
    entries = fields.sequence("hooks")
    path = fields.at("hooks")
    if len(entries) > MAX_HOOKS:
        fields.findings.error(path, f"expected at most {MAX_HOOKS} hooks, found {len(entries)}")
        return ()
    hooks = (_hook(entry, below(path, n), fields.findings) for n, entry in enumerate(entries))
    return tuple(hook for hook in hooks if hook)


def watching_hooks(entries: Sequence[object]) -> tuple[Hook, ...]:
    """Hooks of the infrastructure, on the last layer: they watch, and steer nothing.

    Those that are wrong, or for events of something else, are left out.
    """
    hooks = (_hook(entry, "hooks", Findings()) for entry in entries[:MAX_HOOKS])
    return tuple(replace(hook, layer=LAST_LAYER) for hook in hooks if hook)


def _hook(entry: object, path: str, findings: Findings) -> Hook | None:
    if not isinstance(entry, Mapping):
        findings.error(path, f"expected a mapping with event and action, found {found(entry)}")
        return None
    fields = GraphFields(entry, path, findings)
    event = fields.choice("event", EVENTS)
    for key in ("event", "action"):
        if entry.get(key) is None:
            findings.error(fields.at(key), f"expected the {key} of the hook, found nothing")
    condition = read_condition(fields, "condition")
    layer = fields.count("layer", most=LAST_LAYER) or 1
    hook_id = fields.text("id") or ""
    value = fields.any("action")
    fields.report_unknown(("event", "condition", "action", "layer", "id", "comment"), {})
    if value is None:
        return None
    action, control = _done(value, fields.at("action"), findings)
    if event is None or (action is None and control is None):
        return None
    return Hook(
        event=event,
        condition=condition,
        action=action,
        control=control,
        layer=layer,
        hook_id=hook_id,
    )


def _done(
    value: object, path: str, findings: Findings
) -> tuple[Action | None, Mapping[str, Any] | None]:
    """A call or a control; both None when it is neither."""
    if isinstance(value, Mapping) and value.keys() & _CALL_KEYS:
        return read_action(value, path, findings, foreach=False), None
    return None, _control(value, path, findings)


def _control(value: object, path: str, findings: Findings) -> Mapping[str, Any] | None:
    """``retry``, ``{retry: true, max_retries: 2}``, ``{action: retry, max_retries: 2}``."""
    if isinstance(value, str):
        value = {"action": value}
    if not isinstance(value, Mapping):
        findings.error(path, f"expected an action or a control, found {found(value)}")
        return None
    fields = GraphFields(value, path, findings)
    word = _control_word(fields)
    most = fields.count("max_retries", most=MAX_RETRIES)
    fields.report_unknown(("action", "max_retries", *CONTROLS), {})
    if word is None:
        return None
    return {"action": word} if most is None else {"action": word, "max_retries": most}


def _control_word(fields: GraphFields) -> str | None:
    named = fields.choice("action", CONTROLS)
    flags = [word for word in CONTROLS if fields.truth(word)]
    words = {*flags, *([named] if named else [])}
    if len(words) == 1:
        return words.pop()
    if words or fields.data.get("action") is None:
        known = ", ".join(CONTROLS)
        found = f"{len(words)} of them" if words else "none"
        hint = "" if words else "or an action with item_id"
        fields.findings.error(fields.path, f"expected one control ({known}), found {found}", hint)
    return None
