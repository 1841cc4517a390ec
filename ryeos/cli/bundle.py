"""``rye bundle create|verify|inspect``: bundles in folders, as publishers make them."""

from collections import Counter
from pathlib import Path
from typing import Any

from lillux.files import is_directory
from ryeos.bundle_checking import LookedAt, items_of, look_at
from ryeos.bundle_making import Recipe, chosen_files, make_bundle
from ryeos.cli.output import one_line
from ryeos.cli.plain_arguments import Arguments
from ryeos.cli.session import Command, Session
from ryeos.errors import ItemNotFoundError, UsageError
from ryeos.items import PROJECT, SYSTEM, USER
from ryeos.mcp.tools.sign import targets_of
from ryeos.registry.ids import check_bundle_id, check_version

_FINGERPRINT_DIGITS = 16


def _configure_create(parser: Arguments) -> None:
    add = parser.add_argument
    add("bundle", metavar="ID", help="what the bundle is called")
    add("what", metavar="REF|GLOB", nargs="*", help="its items; without one all of the space")
    add("--release", metavar="X.Y.Z", default="1.0.0", help="its version, default 1.0.0")
    add("--out", metavar="DIR", help="a folder that is not there yet (default: ID)")
    add("--space", choices=(PROJECT, USER), default=PROJECT, help="of the items, default: project")
    add("--description", metavar="TEXT", default="", help="what it is for")
    add("--entrypoint", metavar="REF", default="", help="the item to begin with")


def _create(session: Session) -> int:
    arguments, rye = session.arguments, session.rye
    bundle_id = check_bundle_id(arguments.bundle)
    space = rye.space(arguments.space)
    targets = [
        target for text in arguments.what for target in targets_of(rye, text, None, space.label)
    ]
    files = chosen_files(rye, bundle_id, space, list(dict.fromkeys(targets)))
    recipe = Recipe(
        bundle_id=bundle_id,
        version=check_version(arguments.release),
        description=arguments.description,
        entrypoint=arguments.entrypoint,
    )
    target = Path(arguments.out or bundle_id).absolute()
    made = make_bundle(rye, recipe, files, target)
    envelope = {
        "status": "success",
        "bundle": made.bundle_id,
        "version": made.version,
        "fingerprint": made.fingerprint,
        "path": str(target),
        "items": sorted(files),
        "files": len(made.files),
    }
    session.output.answer(envelope, f"{made.bundle_id} {made.version}: {target}")
    session.output.note(f"next: rye bundle push {target}, or: rye bundle install {target}")
    return 0


def _configure_verify(parser: Arguments) -> None:
    add = parser.add_argument
    add("bundle", metavar="DIR|ID", help="a bundle's folder, or a bundle that is used here")
    add("--key", metavar="FINGERPRINT", help="of its publisher's key")


def _verify(session: Session) -> int:
    found = _looked_at(session)
    envelope = _described(session, found)
    if found.problems:
        problem = f"{len(found.problems)} files are not as they were signed"
        envelope |= {"status": "error", "error": problem, "code": "INTEGRITY"}
    lines = [*map(one_line, found.problems), _summary(session, found)]
    session.output.answer(envelope, "\n".join(lines))
    return 1 if found.problems else 0


def _inspect(session: Session) -> int:
    found = _looked_at(session)
    items = list(items_of(found))
    kinds = Counter(item["ref"].partition(":")[0] for item in items)
    about = {key: value for key, value in found.readable.items() if isinstance(value, str)}
    envelope = {**_described(session, found), "about": about, "items": items, "kinds": kinds}
    lines = [_item_line(item) for item in items]
    if about.get("description"):
        lines.insert(0, one_line(about["description"]))
    session.output.answer(envelope, "\n".join([*lines, _summary(session, found)]))
    return 0


def _looked_at(session: Session) -> LookedAt:
    named = session.arguments.bundle
    expected = (getattr(session.arguments, "key", None) or "").lower()
    if expected and (len(expected) != _FINGERPRINT_DIGITS or expected.strip("0123456789abcdef")):
        raise UsageError(f"--key: expected a fingerprint of 16 hex digits, found {expected[:60]!a}")
    used = {bundle.bundle_id: bundle for bundle in session.context.spaces.bundles}
    if named in used:
        return look_at(session.rye, used[named].base, named, expected)
    if not is_directory(Path(named)):
        raise ItemNotFoundError(f"bundle {named[:200]!a}", sorted(used))
    return look_at(session.rye, Path(named).absolute(), "", expected)


def _described(session: Session, found: LookedAt) -> dict[str, Any]:
    return {
        "status": "success",
        "bundle": found.bundle_id,
        "version": found.version,
        "fingerprint": found.fingerprint,
        "key_counts": _key_counts(session, found),
        "covered_by": list(found.covered),
        "files": len(found.files),
        "problems": list(found.problems),
    }


def _key_counts(session: Session, found: LookedAt) -> bool:
    """Whether the publisher's signatures count: for the user, or for this bundle in use here."""
    labels = (USER, f"{SYSTEM}:{found.bundle_id}")
    return any(session.rye.trust.get_key(found.fingerprint, label) for label in labels)


def _summary(session: Session, found: LookedAt) -> str:
    state = "not as it was signed" if found.problems else "valid"
    counts = "" if _key_counts(session, found) else ", which counts for nothing here yet"
    return (
        f"{one_line(found.bundle_id)} {one_line(found.version)}: {state}, {len(found.files)} files,"
        f" key {found.fingerprint or 'unknown'}{counts}"
    )


def _item_line(item: dict[str, Any]) -> str:
    text = item.get("description") or item.get("title") or item.get("problem") or ""
    return f"{one_line(item['ref'])}  {one_line(text, 80)}"


def _configure_inspect(parser: Arguments) -> None:
    parser.add_argument("bundle", metavar="DIR|ID", help="a folder, or a bundle that is used here")


COMMANDS = {
    "bundle create": Command(
        _configure_create,
        _create,
        ["rye bundle create ada-tools --release 1.2.0", "rye bundle create ada-tools 'text/**'"],
    ),
    "bundle verify": Command(
        _configure_verify, _verify, ["rye bundle verify ./ada-tools", "rye bundle verify ryeos"]
    ),
    "bundle inspect": Command(_configure_inspect, _inspect, ["rye bundle inspect ./ada-tools"]),
}
