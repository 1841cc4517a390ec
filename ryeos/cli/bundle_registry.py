"""``rye bundle search|install|uninstall|list|pull|push``: bundles of a registry, and here."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lillux.files import is_directory
from ryeos.cli.output import one_line
from ryeos.cli.plain_arguments import Arguments
from ryeos.cli.registry_words import (
    page_of,
    registry_of,
    take_page,
    take_registry,
    tell_new_pin,
    total_of,
    word,
)
from ryeos.cli.session import Command, Session
from ryeos.errors import TargetExistsError, UsageError
from ryeos.keys import require_user_space
from ryeos.moments import utc_now
from ryeos.registry.bundle_contents import CheckedBundle, check_bundle
from ryeos.registry.bundle_install import (
    BundleState,
    Installation,
    InstalledBundles,
    bundle_id_of,
    read_bundle_files,
    write_bundle_files,
)
from ryeos.registry.bundle_publishing import fetched_bundle, push_bundle
from ryeos.registry.ids import check_bundle_id, check_version, is_bundle_id

_FINGERPRINT_DIGITS = 16


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
    asked = {
        "query": " ".join(arguments.query),
        "namespace": arguments.namespace,
        "include_mine": "true" if arguments.mine else None,
    }
    query = [(key, value) for key, value in asked.items() if value]
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
    parser.add_argument("bundle", metavar="ID|DIR", help="a published bundle, or a bundle's folder")
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
        known = bundles.pins.all().get(check_bundle_id(arguments.bundle))
        bundle, source, author = _fetched(session, expected or (known.fingerprint if known else ""))
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
    """Whether somebody means a folder. A word that can be an id is one, whatever lies here.

    Else a folder that came with a clone would be installed in place of the published bundle.
    """
    folder = Path(word)
    if not is_bundle_id(word):
        return "/" in word or is_directory(folder)
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


def _configure_nothing(_: Arguments) -> None:
    """No arguments of its own."""


def _list(session: Session) -> int:
    states = list(InstalledBundles(session.context.spaces.user).states())
    rows = [_described(state) for state in states]
    is_fine = not any(state.problem for state in states)
    envelope: dict[str, Any] = {"status": "success" if is_fine else "error", "bundles": rows}
    if not is_fine:
        envelope |= {"error": "a bundle is not as it was signed", "code": "INTEGRITY"}
    session.output.answer(envelope, "\n".join(_line(session, row) for row in rows))
    if not rows and not session.output.as_json:
        session.output.note("no bundle is installed; find some with: rye bundle search")
    return 0 if is_fine else 1


def _described(state: BundleState) -> dict[str, Any]:
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
    target = Path(arguments.to or check_bundle_id(arguments.bundle)).absolute()
    if target.exists():
        raise TargetExistsError(str(target), "a file or folder", "name another with --to DIR")
    bundle, source, author = _fetched(session, _expected_key(session))
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
    session.output.note(f"read it, then: rye bundle install {target} --key {bundle.fingerprint}")
    session.output.answer(envelope, str(target))
    return 0


def _configure_push(parser: Arguments) -> None:
    parser.add_argument("folder", metavar="DIR", help="a bundle, as rye bundle create makes them")
    parser.add_argument("--unlisted", action="store_true", help="searches do not find it")
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


def _fetched(session: Session, expected: str) -> tuple[CheckedBundle, str, str]:
    """A published bundle, checked; where it came from, and whose account published it."""
    arguments = session.arguments
    bundle_id = check_bundle_id(arguments.bundle)
    version = arguments.release and check_version(arguments.release)
    registry = registry_of(session)
    bundle, author = fetched_bundle(registry, bundle_id, version or "", expected)
    tell_new_pin(session, registry)
    return bundle, registry.config.url, author


def _bundle_in(folder: Path, expected: str) -> CheckedBundle:
    if not is_directory(folder):
        raise UsageError(f"{folder}: expected a folder that holds .ai and public_key.pem")
    return check_bundle(read_bundle_files(folder), bundle_id_of(folder), expected=expected)


def _expected_key(session: Session) -> str:
    key = (session.arguments.key or "").lower()
    if key and (len(key) != _FINGERPRINT_DIGITS or key.strip("0123456789abcdef")):
        raise UsageError(f"--key: expected a fingerprint of 16 hex digits, found {key[:60]!a}")
    return key


COMMANDS = {
    "bundle search": Command(_configure_search, _search, ["rye bundle search text"]),
    "bundle install": Command(
        _configure_install,
        _install,
        [
            "rye bundle install ada-tools --key 07097e6443239d36",
            "rye bundle install ./ada-tools",
        ],
    ),
    "bundle uninstall": Command(
        _configure_uninstall, _uninstall, ["rye bundle uninstall ada-tools"]
    ),
    "bundle list": Command(_configure_nothing, _list, ["rye bundle list"]),
    "bundle pull": Command(_configure_pull, _pull, ["rye bundle pull ada-tools --to /tmp/look"]),
    "bundle push": Command(_configure_push, _push, ["rye bundle push ./ada-tools"]),
}
