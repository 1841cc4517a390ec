"""``rye receipts``: list, show, verify and export receipts."""

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from lillux import dsse
from lillux.errors import LilluxError, as_word
from lillux.files import read_bytes, write_atomic
from lillux.foreign_text import one_line, without_control_characters
from lillux.key_files import KeyNotFoundError
from lillux.signing import canonical_public_pem, compute_key_digest
from ryeos.app.command_line import Arguments, CommandSpec
from ryeos.app.output import utc_text
from ryeos.cli.chain import rights_text
from ryeos.cli.session import Session
from ryeos.items.errors import RyeError, UsageError
from ryeos.items.refs import USER
from ryeos.run.receipt_key import MAX_STATEMENT_BYTES, is_vouched, signers
from ryeos.run.receipt_log import MAX_LINE_BYTES, Receipt, ReceiptLog
from ryeos.run.receipt_statements import (
    MODEL_CALL_TYPE,
    PAYLOAD_TYPE,
    PREDICATE_TYPE,
    START_TYPE,
    THREAD,
    THREAD_TYPE,
)
from ryeos.run.receipts import NONE, SOME
from ryeos.run.slsa import SLSA_TYPE, slsa_statement

MAX_LISTED = 20
_PREDICATES = (PREDICATE_TYPE, START_TYPE, SLSA_TYPE, THREAD_TYPE, MODEL_CALL_TYPE)
_FORMATS = ("in-toto", "slsa")
UNFINISHED = "unfinished"
"""A run that was about to start, and of which no end is recorded: it still runs, or was killed."""
_KEY_SUFFIX, _STATEMENT_SUFFIX = ".pub.pem", ".key.json"
_SHORTEST_FINGERPRINT = 16


def _log(session: Session) -> ReceiptLog:
    return session.rye.receipts.log


def _configure_list(parser: Arguments) -> None:
    parser.add_argument(
        "--limit", metavar="N", type=int, default=MAX_LISTED, help="at most so many"
    )
    parser.add_argument(
        "--item", metavar="ID", help="of this tool alone, or of this directive:ID, model:ID"
    )
    parser.add_argument("--thread", metavar="ID", help="of this thread and of what it called alone")


def _list(session: Session) -> int:
    item, thread = session.arguments.item, session.arguments.thread
    if item and item.partition(":")[0] not in _ITEM_KINDS:
        item = f"tool:{item}"
    receipts = [
        one
        for one in _log(session).runs()
        if (not item or one.predicate.get("item") == item)
        and (not thread or _thread_of(one.predicate) == thread)
    ]
    shown = list(reversed(receipts))[: max(0, session.arguments.limit)]
    rows = [_row(receipt) for receipt in shown]
    envelope = {"status": "success", "receipts": rows, "total": len(receipts)}
    lines = [
        "  ".join(
            (row["id"], utc_text(row["startedOn"]), row["status"], row["item"], row["caller"])
        )
        for row in rows
    ]
    session.output.answer(envelope, "\n".join(map(without_control_characters, lines)))
    if len(receipts) > len(shown):
        session.output.note(f"{len(receipts)} in all; to see more: rye receipts list --limit 100")
    return 0


_ITEM_KINDS = frozenset({"tool", "directive", "model"})


def _thread_of(said: Mapping[str, Any]) -> str:
    """The thread that a receipt is of, or that called what it is of."""
    caller = said.get("caller")
    if isinstance(said.get("thread"), str):
        return str(said["thread"])
    if isinstance(caller, Mapping) and caller.get("kind") == THREAD:
        return str(caller.get("run", ""))
    return ""


def _row(receipt: Receipt) -> dict[str, Any]:
    said = receipt.predicate
    return {
        "id": receipt.id,
        "number": receipt.number,
        "item": str(said.get("item", "")),
        "status": UNFINISHED if receipt.is_start else str(said.get("status", "")),
        "startedOn": str(said.get("startedOn", "")),
        "caller": _caller(said.get("caller")),
    }


def _caller(caller: object) -> str:
    if not isinstance(caller, Mapping):
        return "unknown"
    rest = [
        str(caller[name]) for name in ("client", "run", "step", "user", "node") if name in caller
    ]
    return " ".join([str(caller.get("kind", "unknown")), *rest])


def _configure_one(parser: Arguments) -> None:
    parser.add_argument("id", metavar="ID", help="a receipt, or the beginning of its id")


def _show(session: Session) -> int:
    receipt = _log(session).find(session.arguments.id)
    said = receipt.predicate
    envelope = {
        "status": "success",
        "id": receipt.id,
        "digest": receipt.digest,
        "statement": dict(receipt.statement),
    }
    session.output.answer(envelope, "\n".join(_text(receipt, said)))
    return 0


def _text(receipt: Receipt, said: Mapping[str, Any]) -> list[str]:
    interpreter = said.get("interpreter") or {}
    parameters = said.get("parameters") or {}
    ended = UNFINISHED if receipt.is_start else f"{_time(said, 'finishedOn')}  {said.get('status')}"
    lines = [
        f"receipt  {receipt.digest}  (number {receipt.number})",
        f"item     {said.get('item')}",
        f"caller   {_caller(said.get('caller'))}",
        f"began    {_time(said, 'startedOn')}",
        f"ended    {ended}",
    ]
    for one in said.get("chain") or ():
        lines.append(f"chain    {one['id']} {one['version'] or '-'}")
        if one["sha256"]:
            lines.append(f"         file sha256 {one['sha256']}")
            lines.append(f"         signed text {one.get('integrity', '-')}")
        else:
            lines.append("         built in")
    if {"rights", "chain"} & set(said):
        lines.append(
            f"program  {interpreter.get('path', '-')}  {interpreter.get('sha256', '')}",
        )
    lines.append(f"params   {json.dumps(parameters.get('values', parameters), ensure_ascii=False)}")
    if "models" in said or "model" in said:
        lines += _thread_lines(said)
    else:
        lines += rights_text(said.get("rights") or {"level": "unknown"})
    lines += _refusals(said)
    lines += [
        f"made     {one['name']}  {one['digest']['sha256']}"
        for one in receipt.statement.get("subject") or ()
    ]
    if said.get("filesObserved") in {SOME, NONE}:
        lines.append(f"made     {_UNSEEN[said['filesObserved']]}")
    lines += map(_change, said.get("changes") or ())
    lines += [
        f"step     {one if isinstance(one, str) else one.get('item')}"
        for one in said.get("steps") or ()
    ]
    return [without_control_characters(line) for line in lines]


def _thread_lines(said: Mapping[str, Any]) -> Iterator[str]:
    """What a receipt of a thread, or of a call of a model, has beside others."""
    if "thread" in said:
        state = said.get("state", UNFINISHED)
        yield f"thread   {said['thread']}  {state} {said.get('error', '')}".rstrip()
    for one in said.get("models") or ():
        yield f"model    {one.get('provider')}/{one.get('model')}"
    for allowed in said.get("capabilities") or ():
        yield f"may      {' '.join(map(str, allowed))}"
    if "answeredBy" in said:
        yield f"answered {said['answeredBy']}"
    if said.get("usage"):
        yield f"used     {json.dumps(said['usage'], ensure_ascii=False)}"
    if "cost" in said:
        yield f"cost     {said['cost'].get('dollars')} dollars"


def _time(said: Mapping[str, Any], name: str) -> str:
    return utc_text(str(said.get(name, "")))


def _refusals(said: Mapping[str, Any]) -> Iterator[str]:
    """The refused accesses, and which kinds of them were not observed."""
    for one in said.get("refused") or ():
        shared = " (it, or a run at the same time)" if one.get("shared") else ""
        yield f"refused  {one['what']} {one['target']}{shared}"
    if said.get("refusedCount"):
        yield f"refused  {said['refusedCount']} times in all"
    unseen = said.get("refusalsNotObserved")
    if unseen:
        trace = " (rye run --trace observes reads and starts)" if "read" in unseen else ""
        yield f"refused  not observed: {', '.join(map(str, unseen))}{trace}"
    elif said.get("refusalsObserved") == NONE:  # as receipts said it until 0.1.0
        yield "refused  not observed: rye run --trace observes each access"


def _change(one: Mapping[str, Any]) -> str:
    more = [f"-> {one['target']}"] if "target" in one else []
    more += [f"{name} {one[name]}" for name in ("mode", "owner") if name in one]
    return f"{one['change']:<8} {one['path']}  {' '.join([one['kind'], *more])}"


_UNSEEN = {
    SOME: "more files may have been written: there were too many to look at",
    NONE: "files were not observed: the item names no folders that it writes",
}


def _configure_verify(parser: Arguments) -> None:
    parser.add_argument(
        "file", metavar="FILE", nargs="?", help="an exported receipt; without it, the whole log"
    )
    parser.add_argument(
        "--key",
        metavar="FINGERPRINT",
        help="the signing key of the one whose receipt it should be, of 16 or 64 digits",
    )


def _verify(session: Session) -> int:
    if session.arguments.file is not None:
        return _verify_file(session, Path(session.arguments.file))
    if session.arguments.key is not None:
        raise UsageError("receipts verify: expected a file before --key, found none")
    return _verify_log(session)


def _verify_file(session: Session, path: Path) -> int:
    """Verify one exported receipt, and whose it is. Raises RyeError `INTEGRITY`."""
    envelope = _read_json(path, MAX_LINE_BYTES)
    pem = _read_beside(path, _KEY_SUFFIX)
    statements = _statements(path, pem)
    said = dsse.opened(envelope, PAYLOAD_TYPE, pem)
    predicate = said.get("predicate") if isinstance(said, dict) else None
    if not isinstance(predicate, dict) or said.get("predicateType") not in _PREDICATES:
        raise RyeError(f"{path}: expected a receipt of a run", code="INTEGRITY")
    signer = _require_identity(session, path, pem, statements)
    owner = _owner(session, signer)
    envelope_of_answer = {
        "status": "success",
        "item": predicate.get("item"),
        "signed_by": signer,
        "owner": owner,
        "receipt_key": compute_key_digest(pem),
        "statement": said,
    }
    who = f"{signer}{f' ({owner})' if owner else ''}"
    lines = [
        f"valid    {path}",
        f"item     {predicate.get('item')}",
        f"caller   {_caller(predicate.get('caller'))}",
        f"began    {_time(predicate, 'startedOn')}",
        f"status   {predicate.get('status', 'see its predicate')}",
        f"key      {who}",
    ]
    session.output.answer(envelope_of_answer, "\n".join(map(without_control_characters, lines)))
    return 0


def _require_identity(
    session: Session, path: Path, pem: bytes, statements: list[Mapping[str, Any]]
) -> str:
    """The full fingerprint of the key that the receipt is of: as named, or one that is trusted."""
    candidates = [*signers(statements), compute_key_digest(pem)]
    named = session.arguments.key
    if named is None:
        for one in candidates:
            if _is_trusted(session, one):
                return one
        raise RyeError(
            f"{path}: it is signed, by a key that you do not know: {candidates[0]}",
            code="UNTRUSTED_KEY",
            hint=f"compare that with its owner, then: rye receipts verify {as_word(path)}"
            f" --key {candidates[0]}",
        )
    wanted = named.lower().removeprefix("fp:")
    if len(wanted) < _SHORTEST_FINGERPRINT or not set(wanted) <= set("0123456789abcdef"):
        raise UsageError(
            f"--key: expected a fingerprint of 16 or 64 hexadecimal digits, found {named!r:.80}",
            hint="to list those of your keys: rye keys list",
        )
    for one in candidates:
        if one.startswith(wanted):
            return one
    raise RyeError(
        f"{path}: expected a receipt of the key {named}, found one of {candidates[0]}",
        code="UNTRUSTED_KEY",
        hint="a receipt is of the key that signed its receipt key: ask its owner which that is",
    )


def _is_trusted(session: Session, digest: str) -> bool:
    key = session.rye.trust.get_key(digest[:_SHORTEST_FINGERPRINT], USER)
    return key is not None and compute_key_digest(key.public_pem) == digest


def _owner(session: Session, digest: str) -> str:
    if not _is_trusted(session, digest):
        return ""
    key = session.rye.trust.get_key(digest[:_SHORTEST_FINGERPRINT], USER)
    return key.owner if key else ""


def _statements(path: Path, pem: bytes) -> list[Mapping[str, Any]]:
    """The statements beside an exported receipt; one that does not hold is an error."""
    place = path.with_name(f"{path.name}{_STATEMENT_SUFFIX}")
    if not place.exists():
        return []
    said = _read_json(place, MAX_STATEMENT_BYTES)
    found = said if isinstance(said, list) else [said]
    if not all(is_vouched(one, pem) for one in found):
        raise RyeError(
            f"{place}: expected what signs the key {compute_key_digest(pem)[:16]},"
            " found another statement, or a signature that is not valid",
            code="INTEGRITY",
            hint="export the receipt again: rye receipts export ID --out FILE",
        )
    return found


def _read_json(path: Path, limit: int) -> Any:  # noqa: ANN401 - JSON
    try:
        return json.loads(read_bytes(path, limit))
    except FileNotFoundError:
        raise RyeError(
            f"{path}: expected an exported receipt, found no file",
            code="ITEM_NOT_FOUND",
            hint="to write one: rye receipts export ID --out FILE",
        ) from None
    except ValueError:
        raise RyeError(
            f"{path}: expected JSON, a receipt as rye receipts export writes it",
            code="INTEGRITY",
        ) from None


def _read_beside(path: Path, suffix: str) -> bytes:
    place = path.with_name(f"{path.name}{suffix}")
    try:
        return canonical_public_pem(read_bytes(place, MAX_STATEMENT_BYTES))
    except FileNotFoundError:
        raise RyeError(
            f"{path}: expected its public key beside it, {place.name}, found none",
            code="ITEM_NOT_FOUND",
            hint="rye receipts export ID --out FILE writes both",
        ) from None


def _verify_log(session: Session) -> int:
    log = _log(session)
    try:
        count, problems = log.verify()
        by = signers(_vouched(session))
    except KeyNotFoundError:
        count, problems, by = 0, [], ()
        if any(log.lines()):
            raise
    envelope: dict[str, Any] = {
        "status": "error" if problems else "success",
        "receipts": count,
        "signed_by": list(by),
        "problems": [{"line": one.line, "problem": one.text} for one in problems],
    }
    if problems:
        envelope |= {"error": f"{len(problems)} problems in {count} receipts", "code": "INTEGRITY"}
    lines = [f"{f'line {one.line}: ' if one.line else ''}{one.text}" for one in problems]
    summary = f"{count} receipts, {len(problems) or 'no'} problems"
    session.output.answer(envelope, "\n".join(map(one_line, [*lines, summary])))
    return 4 if problems else 0


def _vouched(session: Session) -> list[Mapping[str, Any]]:
    """The statements about the receipt key; the user's signing key makes one where it can."""
    key = _log(session).key
    with suppress(LilluxError):  # without a signing key, or its passphrase
        key.vouch(session.rye.signing_key())
    return list(key.statements())


def _configure_export(parser: Arguments) -> None:
    add = parser.add_argument
    add("id", metavar="ID", help="a receipt, or the beginning of its id")
    add("--format", choices=_FORMATS, default="in-toto", help="in-toto (as signed), or slsa")
    add("--out", metavar="FILE", help="write it there, its keys beside it")


def _export(session: Session) -> int:
    log = _log(session)
    receipt = log.find(session.arguments.id)
    envelope: Mapping[str, Any] = receipt.envelope
    if session.arguments.format == "slsa":
        pair = log.key.pair()
        key_id = compute_key_digest(pair.public_pem)
        said = json.dumps(slsa_statement(receipt, f"https://rye.dev/key/{key_id}"))
        envelope = dsse.signed(PAYLOAD_TYPE, said.encode(), pair.private_pem, key_id)
    text = json.dumps(envelope, indent=2)
    out = session.arguments.out
    if out is None:
        session.output.answer({"status": "success", "envelope": dict(envelope)}, text)
        return 0
    path = Path(out)
    key_path = path.with_name(f"{path.name}{_KEY_SUFFIX}")
    statement_path = path.with_name(f"{path.name}{_STATEMENT_SUFFIX}")
    for taken in (path, key_path, statement_path):
        if taken.exists():
            raise RyeError(f"{taken}: is there already", code="CONFLICT", hint="name another file")
    write_atomic(path, f"{text}\n".encode())
    write_atomic(key_path, log.key.public_pem())
    answer = {"status": "success", "path": str(path), "public_key": str(key_path)}
    statements = _vouched(session)
    if statements:
        write_atomic(statement_path, json.dumps(statements, indent=2).encode() + b"\n")
        answer["signed_by"] = str(statements[-1]["signed_by"])
        answer["statement"] = str(statement_path)
    else:
        session.output.warn("no signing key vouches for its key: rye keys generate")
    session.output.answer(answer, "\n".join(map(str, (path, key_path))))
    return 0


LIST = CommandSpec(_configure_list, _list, ["rye receipts list --item mine/report"])
SHOW = CommandSpec(_configure_one, _show, ["rye receipts show 3f2a"])
VERIFY = CommandSpec(
    _configure_verify,
    _verify,
    ["rye receipts verify", "rye receipts verify run.json --key 3a5f9c2e71d04b86"],
)
EXPORT = CommandSpec(
    _configure_export,
    _export,
    ["rye receipts export 3f2a", "rye receipts export 3f2a --format slsa --out run.json"],
)
