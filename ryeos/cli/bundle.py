"""``rye bundle``: create, verify and inspect bundles; search, install, list, pull and push them."""

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lillux.errors import as_word
from lillux.files import is_directory
from lillux.foreign_text import one_line
from ryeos.app.bundles import BundleRecipe, LookedAt, chosen_files, items_of, look_at, make_bundle
from ryeos.app.command_line import Arguments, CommandSpec, no_arguments
from ryeos.app.sign import targets_of
from ryeos.cli.registry import (
    page_of,
    registry_of,
    take_page,
    take_registry,
    take_team,
    tell_new_pin,
    total_of,
    word,
)
from ryeos.cli.session import Session
from ryeos.items.context import utc_now
from ryeos.items.errors import ItemNotFoundError, UsageError, target_exists_error
from ryeos.items.refs import PROJECT, SYSTEM, USER
from ryeos.remote.bundle_installs import (
    BundleState,
    Installation,
    InstalledBundles,
    bundle_id_in,
    bundle_id_of,
    read_bundle_archive,
    read_bundle_files,
    write_bundle_files,
)
from ryeos.remote.bundle_publishing import fetched_bundle, push_bundle
from ryeos.remote.registry_bundles import CheckedBundle, verify_bundle_files
from ryeos.remote.registry_ids import is_bundle_id, valid_bundle_id, valid_version
from ryeos.trust.keys import require_user_space
from ryeos.trust.store import typed_fingerprint

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
    bundle_id = valid_bundle_id(arguments.bundle)
    space = rye.space(arguments.space)
    targets = [
        target for text in arguments.what for target in targets_of(rye, text, None, space.label)
    ]
    files = chosen_files(rye, bundle_id, space, list(dict.fromkeys(targets)))
    recipe = BundleRecipe(
        bundle_id=bundle_id,
        version=valid_version(arguments.release),
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
    word = as_word(target)
    session.output.note(f"next: rye bundle push {word}, or: rye bundle install {word}")
    return 0


def _configure_verify(parser: Arguments) -> None:
    add = parser.add_argument
    add("bundle", metavar="DIR|ID", help="a bundle's folder, or a bundle that is used here")
    add("--key", metavar="FINGERPRINT", help="of its publisher's key")


def _verify(session: Session) -> int:
    found = _looked_at(session)
    envelope = _bundle_envelope(session, found)
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
    envelope = {**_bundle_envelope(session, found), "about": about, "items": items, "kinds": kinds}
    lines = [_item_line(item) for item in items]
    if about.get("description"):
        lines.insert(0, one_line(about["description"]))
    session.output.answer(envelope, "\n".join([*lines, _summary(session, found)]))
    return 0


def _looked_at(session: Session) -> LookedAt:
    named = session.arguments.bundle
    expected = typed_fingerprint(getattr(session.arguments, "key", None) or "")
    if expected and (len(expected) != _FINGERPRINT_DIGITS or expected.strip("0123456789abcdef")):
        raise UsageError(f"--key: expected a fingerprint of 16 hex digits, found {expected[:60]!a}")
    used = {bundle.bundle_id: bundle for bundle in session.context.spaces.bundles}
    if named in used:
        return look_at(session.rye, used[named].base, named, expected)
    if not is_directory(Path(named)):
        raise ItemNotFoundError(f"bundle {named[:200]!a}", sorted(used))
    return look_at(session.rye, Path(named).absolute(), "", expected)


def _bundle_envelope(session: Session, found: LookedAt) -> dict[str, Any]:
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
    counts = "" if _key_counts(session, found) else ", which is not trusted here yet"
    return (
        f"{one_line(found.bundle_id)} {one_line(found.version)}: {state}, {len(found.files)} files,"
        f" key {found.fingerprint or 'unknown'}{counts}"
    )


def _item_line(item: dict[str, Any]) -> str:
    text = item.get("description") or item.get("title") or item.get("problem") or ""
    return f"{one_line(item['ref'])}  {one_line(text, 80)}"


def _configure_inspect(parser: Arguments) -> None:
    parser.add_argument("bundle", metavar="DIR|ID", help="a folder, or a bundle that is used here")


# --- bundle registry ------------------------------------------------------------------------------
# ``rye bundle search|install|uninstall|list|pull|push``: bundles of a registry, and here.


def _take_version(parser: Arguments) -> None:
    parser.add_argument("--release", metavar="X.Y.Z", help="this one (default: the latest)")
    parser.add_argument("--key", metavar="FINGERPRINT", help="of its publisher's key")


# --- search ---------------------------------------------------------------------------------------


def _configure_search(parser: Arguments) -> None:
    add = parser.add_argument
    add("query", metavar="WORD", nargs="*", help="what to look for; without one all there is")
    add("--namespace", metavar="NAME", help="only those of this account")
    add("--mine", action="store_true", help="your own too, unlisted ones as well")
    take_page(parser)
    take_registry(parser)


def _search(session: Session) -> int:
    arguments = session.arguments
    filters = {
        "query": " ".join(arguments.query),
        "namespace": arguments.namespace,
        "include_mine": "true" if arguments.mine else None,
    }
    query = [(key, value) for key, value in filters.items() if value]
    registry = registry_of(session)
    reply = registry.search_bundles([*query, *page_of(session)])
    rows = reply["results"]
    envelope = {
        "status": "success",
        "registry": registry.config.url,
        "results": rows,
        "total": total_of(reply, len(rows)),
    }
    session.output.answer(envelope, "\n".join(map(_row_line, rows)))
    return 0


def _row_line(row: Mapping[str, Any]) -> str:
    version = word(row, "version") if row.get("version") else word(row, "latest_version")
    author = word(row, "author") if row.get("author") else word(row, "owner")
    return f"{word(row, 'bundle_id')}  {version}  {author}  {word(row, 'description', 80)}"


# --- install, uninstall, list ---------------------------------------------------------------------


def _configure_install(parser: Arguments) -> None:
    what = "a published bundle, a bundle's folder, or a tar file of it"
    parser.add_argument("bundle", metavar="ID|DIR|FILE.tar", help=what)
    _take_version(parser)
    take_registry(parser)


def _install(session: Session) -> int:
    arguments = session.arguments
    bundles = InstalledBundles(require_user_space(session.context))
    expected = _expected_key(session)
    if _is_folder(session, arguments.bundle):
        bundle = _bundle_in(Path(arguments.bundle), expected)
        source, author = str(Path(arguments.bundle).absolute()), ""
    else:
        known = bundles.pins.all().get(valid_bundle_id(arguments.bundle))
        bundle, source, author = _fetch_bundle(
            session, expected or (known.fingerprint if known else "")
        )
    done = bundles.install(
        bundle,
        source=source,
        author=author,
        now=utc_now().strftime("%Y-%m-%dT%H:%M:%SZ"),
        may_be_older=bool(arguments.release) or not author,
    )
    _show_installed(session, bundle, done, source, author)
    return 0


def _is_folder(session: Session, word: str) -> bool:
    """Whether the user means a path. A word that can be an id is one, whatever lies here.

    Else a folder that came with a clone would be installed in place of the published bundle.
    """
    folder = Path(word)
    if not is_bundle_id(word):
        return "/" in word or folder.exists()
    if is_directory(folder):
        session.output.note(f"the folder {word} here is not looked at; if you mean it: ./{word}")
    return False


def _show_installed(
    session: Session, bundle: CheckedBundle, done: Installation, source: str, author: str
) -> None:
    if done.is_new_key:
        session.output.note(
            f"its publisher's key is {bundle.fingerprint}; from now on no other will do"
        )
    envelope = {
        "status": "success",
        "bundle": bundle.bundle_id,
        "version": bundle.version,
        "state": done.state.value,
        "previous": done.previous or None,
        "fingerprint": bundle.fingerprint,
        "is_new_key": done.is_new_key,
        "author": author or None,
        "source": source,
        "files": len(bundle.files),
        "path": str(done.space.base),
    }
    by = f" by {one_line(author)}" if author else ""
    text = f"{bundle.bundle_id} {bundle.version}{by}: {done.state.value}, {len(bundle.files)} files"
    session.output.answer(envelope, text)


def _configure_uninstall(parser: Arguments) -> None:
    parser.add_argument("bundle", metavar="ID", help="an installed bundle")
    parser.add_argument("--forget", action="store_true", help="its publisher's key, too")


def _uninstall(session: Session) -> int:
    arguments = session.arguments
    bundles = InstalledBundles(require_user_space(session.context))
    pin = bundles.uninstall(arguments.bundle, forget=arguments.forget)
    envelope = {
        "status": "success",
        "bundle": pin.bundle_id,
        "version": pin.version or None,
        "fingerprint": pin.fingerprint,
        "forgotten": arguments.forget,
    }
    kept = "" if arguments.forget else f"; its key {pin.fingerprint} is still expected of it"
    session.output.answer(envelope, f"{pin.bundle_id}: uninstalled{kept}")
    return 0


def _list(session: Session) -> int:
    states = list(InstalledBundles(session.context.spaces.user).states())
    rows = [_installed_row(state) for state in states]
    is_fine = not any(state.problem for state in states)
    envelope: dict[str, Any] = {"status": "success" if is_fine else "error", "bundles": rows}
    if not is_fine:
        envelope |= {"error": "a bundle is not as it was signed", "code": "INTEGRITY"}
    session.output.answer(envelope, "\n".join(_line(session, row) for row in rows))
    if not rows and not session.output.as_json:
        session.output.note("no bundle is installed; find some with: rye bundle search")
    return 0 if is_fine else 1


def _installed_row(state: BundleState) -> dict[str, Any]:
    pin = state.pin
    return {
        "bundle": pin.bundle_id,
        "version": pin.version,
        "state": "tampered" if state.problem else "valid",
        "fingerprint": pin.fingerprint,
        "source": pin.source,
        "author": pin.author or None,
        "installed_at": pin.installed_at,
        "files": state.files,
        "path": str(state.space.base),
        **({"problem": state.problem} if state.problem else {}),
    }


def _line(session: Session, row: Mapping[str, Any]) -> str:
    color = "green" if row["state"] == "valid" else "red"
    head = f"{session.output.paint(row['state'], color)}  {row['bundle']} {row['version']}"
    source = one_line(str(row["source"]), 200)
    problem = f"\n       {one_line(row['problem'])}" if "problem" in row else ""
    return f"{head}  {row['files']} files  {row['fingerprint']}  {source}{problem}"


# --- pull, push -----------------------------------------------------------------------------------


def _configure_pull(parser: Arguments) -> None:
    parser.add_argument("bundle", metavar="ID", help="a published bundle")
    parser.add_argument("--to", metavar="DIR", help="a folder that is not there yet (default: ID)")
    _take_version(parser)
    take_registry(parser)


def _pull(session: Session) -> int:
    """Bring a bundle to a folder, to be read; nothing of it counts there."""
    arguments = session.arguments
    target = Path(arguments.to or valid_bundle_id(arguments.bundle)).absolute()
    if target.exists():
        raise target_exists_error(str(target), "a file or folder", "name another with --to DIR")
    bundle, source, author = _fetch_bundle(session, _expected_key(session))
    write_bundle_files(target, bundle.files)
    envelope = {
        "status": "success",
        "bundle": bundle.bundle_id,
        "version": bundle.version,
        "fingerprint": bundle.fingerprint,
        "author": author,
        "source": source,
        "files": len(bundle.files),
        "path": str(target),
    }
    session.output.note(
        f"read it, then: rye bundle install {as_word(target)} --key {bundle.fingerprint}"
    )
    session.output.answer(envelope, str(target))
    return 0


def _configure_push(parser: Arguments) -> None:
    parser.add_argument("folder", metavar="DIR", help="a bundle, as rye bundle create makes them")
    parser.add_argument("--unlisted", action="store_true", help="searches do not find it")
    take_team(parser)
    take_registry(parser)


def _push(session: Session) -> int:
    arguments = session.arguments
    bundle = _bundle_in(Path(arguments.folder), "")
    registry = registry_of(session)
    reply = push_bundle(registry, bundle)
    tell_new_pin(session, registry)
    if arguments.unlisted:
        registry.set_bundle_visibility(bundle.bundle_id, "unlisted")
    is_skipped = reply.get("skipped") is True
    envelope = {
        "status": "success",
        "bundle": bundle.bundle_id,
        "version": bundle.version,
        "registry": registry.config.url,
        "files": len(bundle.files),
        "skipped": is_skipped,
    }
    done = "is there already" if is_skipped else f"published, {len(bundle.files)} files"
    session.output.answer(envelope, f"{bundle.bundle_id} {bundle.version}: {done}")
    return 0


def _fetch_bundle(session: Session, expected: str) -> tuple[CheckedBundle, str, str]:
    """A published bundle, checked; where it came from, and whose account published it."""
    arguments = session.arguments
    bundle_id = valid_bundle_id(arguments.bundle)
    version = arguments.release and valid_version(arguments.release)
    registry = registry_of(session)
    bundle, author = fetched_bundle(registry, bundle_id, version or "", expected)
    tell_new_pin(session, registry)
    return bundle, registry.config.url, author


def _bundle_in(folder: Path, expected: str) -> CheckedBundle:
    if folder.is_file():
        files = read_bundle_archive(folder)
        return verify_bundle_files(files, bundle_id_in(folder.name, files), expected=expected)
    if not is_directory(folder):
        raise UsageError(
            f"{folder}: expected a folder that holds .ai and public_key.pem, or a tar file of it"
        )
    return verify_bundle_files(read_bundle_files(folder), bundle_id_of(folder), expected=expected)


def _expected_key(session: Session) -> str:
    key = typed_fingerprint(session.arguments.key or "")
    if key and (len(key) != _FINGERPRINT_DIGITS or key.strip("0123456789abcdef")):
        raise UsageError(f"--key: expected a fingerprint of 16 hex digits, found {key[:60]!a}")
    return key


CREATE = CommandSpec(
    _configure_create,
    _create,
    ["rye bundle create ada-tools --release 1.2.0", "rye bundle create ada-tools 'text/**'"],
)
VERIFY = CommandSpec(
    _configure_verify, _verify, ["rye bundle verify ./ada-tools", "rye bundle verify ryeos"]
)
INSPECT = CommandSpec(_configure_inspect, _inspect, ["rye bundle inspect ./ada-tools"])
SEARCH = CommandSpec(_configure_search, _search, ["rye bundle search text"])
INSTALL = CommandSpec(
    _configure_install,
    _install,
    [
        "rye bundle install ada-tools --key 07097e6443239d36",
        "rye bundle install ./ada-tools",
    ],
)
UNINSTALL = CommandSpec(_configure_uninstall, _uninstall, ["rye bundle uninstall ada-tools"])
LIST = CommandSpec(no_arguments, _list, ["rye bundle list"])
PULL = CommandSpec(_configure_pull, _pull, ["rye bundle pull ada-tools --to /tmp/look"])
PUSH = CommandSpec(_configure_push, _push, ["rye bundle push ./ada-tools"])
