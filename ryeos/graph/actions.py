"""Actions of a graph file: what a node or a hook calls.

Read: its primary, the item in canonical form, its parameters.
"""

import re
from collections.abc import Mapping
from typing import Any, cast

from ryeos.graph.model import FORK, INLINE, Action, Primary
from ryeos.graph.problems import Findings, GraphFields, below, found, shown
from ryeos.items.errors import InvalidRefError
from ryeos.items.refs import EXECUTABLE_KINDS, Kind, valid_id

PRIMARIES = ("execute", "fetch", "sign")
LEGACY_PRIMARIES: Mapping[str, Primary] = {"load": "fetch", "search": "fetch"}
KINDS = tuple(kind.value for kind in Kind)
EXPRESSION = "${"

_ROUTING = ("thread", "target")
_THREADS = (FORK, INLINE)
_PREFIX = re.compile(r"([A-Za-z_]+):")


def read_action(value: object, path: str, findings: Findings, *, foreach: bool) -> Action | None:
    """The action at ``path``, None when it is so wrong that there is none."""
    if not isinstance(value, Mapping):
        findings.error(path, f"expected a mapping with item_id, found {found(value)}")
        return None
    fields = GraphFields(value, path, findings)
    word = fields.choice("primary", (*PRIMARIES, *LEGACY_PRIMARIES)) or "execute"
    primary = cast("Primary", LEGACY_PRIMARIES.get(word, word))
    params = _params(fields, foreach=foreach)
    kind = _kind(fields)
    written = fields.text("item_id")
    item_id, kind = _item(fields, written, kind) if written else ("", kind)
    if not written and value.get("item_id") is None:
        _validate_search(fields, primary, params)
    if not written and primary == "fetch" and kind and "scope" not in params:
        params["scope"] = kind
    if primary == "execute" and kind and kind not in {k.value for k in EXECUTABLE_KINDS}:
        findings.error(
            fields.at("item_id" if written else "kind"),
            f"expected an item that can be executed, found a {kind}",
            "primary: fetch reads it",
        )
    _report_unknown(fields)
    thread = value.get("thread")
    return Action(
        primary=primary,
        item_id=item_id,
        kind=kind if written else None,
        params=params,
        thread=thread if thread in _THREADS else "",
    )


def _params(fields: GraphFields, *, foreach: bool) -> dict[str, Any]:
    params = dict(fields.mapping("params") or {})
    for key in _ROUTING:
        value = fields.any(key)
        if value is None:
            continue
        if key in params and params[key] != value:
            fields.findings.error(
                fields.at(key), f"expected one {key}, found another in params", "keep one of them"
            )
        params.setdefault(key, value)
    if foreach:
        _refuse_async(fields, params)
    return params


def _refuse_async(fields: GraphFields, params: Mapping[str, Any]) -> None:
    places = {fields.at("async"): fields.any("async")}
    places[below(fields.at("params"), "async")] = params.get("async")
    for path, value in places.items():
        if value:
            fields.findings.error(
                path, "async on the action of a foreach is deprecated", "use parallel: true"
            )


def _kind(fields: GraphFields) -> str | None:
    kind = fields.choice("kind", KINDS)
    older = fields.choice("item_type", KINDS)
    if older:
        fields.findings.warn(fields.at("item_type"), "item_type is deprecated", f"kind: {older}")
    if kind and older and kind != older:
        fields.findings.error(
            fields.at("item_type"), f"expected {kind} as in kind, found {older}", "keep kind only"
        )
    return kind or older


def _item(fields: GraphFields, written: str, kind: str | None) -> tuple[str, str | None]:
    """The canonical id and its kind. A text that begins with an expression stays as it is."""
    path = fields.at("item_id")
    if written.startswith(EXPRESSION):
        return written, kind
    prefix = _PREFIX.match(written)
    rest = written[prefix.end() :] if prefix else written
    if prefix and prefix[1] not in KINDS:
        hint = fields.findings.guess(prefix[1], KINDS)
        known = ", ".join(KINDS)
        fields.findings.error(path, f"expected a kind ({known}), found {shown(prefix[1])}", hint)
        return written, kind
    if prefix and kind and prefix[1] != kind:
        fields.findings.error(
            path, f"expected a {kind} as in kind, found {shown(written)}", "keep the prefix only"
        )
    if not prefix and not kind:
        fields.findings.warn(
            path,
            f"{shown(written)} has no canonical ref prefix and there is no kind",
            f"it is taken for tool:{written[:60]}",
        )
    named = prefix[1] if prefix else kind or "tool"
    return f"{named}:{_canonical_id(fields, path, rest)}", named


def _canonical_id(fields: GraphFields, path: str, item_id: str) -> str:
    if EXPRESSION in item_id:
        return item_id
    try:
        return valid_id(item_id.removeprefix("./"))
    except InvalidRefError as error:
        fields.findings.error(path, str(error))
        return item_id


def _validate_search(fields: GraphFields, primary: Primary, params: Mapping[str, Any]) -> None:
    if primary == "fetch" and params.get("query") is not None:
        return
    wanted = "an item_id, or a query in params" if primary == "fetch" else "an item_id"
    fields.findings.error(fields.at("item_id"), f"expected {wanted}, found nothing")


def _report_unknown(fields: GraphFields) -> None:
    unused = {"async": "async is not used here: it belongs on the node"}
    fields.report_unknown(("comment", "description", "id"), unused)
