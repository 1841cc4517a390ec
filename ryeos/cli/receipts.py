"""``rye receipts``: list, show, verify and export receipts."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lillux import dsse
from lillux.files import write_atomic
from lillux.signing import KeyNotFoundError, compute_key_digest
from ryeos.app.output import one_line, steers_nothing
from ryeos.cli.arguments import Arguments
from ryeos.cli.chain import rights_text
from ryeos.cli.session import CommandSpec, Session
from ryeos.items.errors import RyeError
from ryeos.run.receipts import PAYLOAD_TYPE, Receipt, ReceiptLog, slsa_statement

MAX_LISTED = 20
_FORMATS = ("in-toto", "slsa")


def _log(session: Session) -> ReceiptLog:
    return session.rye.receipts.log


def _configure_list(parser: Arguments) -> None:
    parser.add_argument(
        "--limit", metavar="N", type=int, default=MAX_LISTED, help="at most so many"
    )
    parser.add_argument("--item", metavar="ID", help="of this tool alone")


def _list(session: Session) -> int:
    wanted = session.arguments.item
    receipts = [
        one
        for one in _log(session).receipts()
        if not wanted or one.predicate.get("item") == f"tool:{wanted.removeprefix('tool:')}"
    ]
    shown = list(reversed(receipts))[: max(0, session.arguments.limit)]
    rows = [_row(receipt) for receipt in shown]
    envelope = {"status": "success", "receipts": rows, "total": len(receipts)}
    lines = [
        "  ".join(
            (row["id"], f"{row['startedOn'][:19]}Z", row["status"], row["item"], row["caller"])
        )
        for row in rows
    ]
    session.output.answer(envelope, "\n".join(map(steers_nothing, lines)))
    if len(receipts) > len(shown):
        session.output.note(f"{len(receipts)} in all; to see more: rye receipts list --limit 100")
    return 0


def _row(receipt: Receipt) -> dict[str, Any]:
    said = receipt.predicate
    return {
        "id": receipt.id,
        "number": receipt.number,
        "item": str(said.get("item", "")),
        "status": str(said.get("status", "")),
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
    lines = [
        f"receipt  {receipt.digest}  (number {receipt.number})",
        f"item     {said.get('item')}",
        f"caller   {_caller(said.get('caller'))}",
        f"began    {said.get('startedOn')}",
        f"ended    {said.get('finishedOn')}  {said.get('status')}",
        *(
            f"chain    {one['id']} {one['version'] or '-'}  {one['sha256'] or 'built in'}"
            for one in said.get("chain") or ()
        ),
        f"program  {interpreter.get('path', '-')}  {interpreter.get('sha256', '')}",
        f"params   {json.dumps(parameters.get('values', parameters), ensure_ascii=False)}",
        *rights_text(said.get("rights") or {"level": "unknown"}),
    ]
    lines += [f"refused  {one['what']} {one['target']}" for one in said.get("refused") or ()]
    lines += [
        f"made     {one['name']}  {one['digest']['sha256']}"
        for one in receipt.statement.get("subject") or ()
    ]
    lines += [
        f"step     {one if isinstance(one, str) else one.get('item')}"
        for one in said.get("steps") or ()
    ]
    return [steers_nothing(line) for line in lines]


def _verify(session: Session) -> int:
    log = _log(session)
    try:
        count, problems = log.verify()
    except KeyNotFoundError:
        count, problems = 0, []
        if any(log.lines()):
            raise
    envelope: dict[str, Any] = {
        "status": "error" if problems else "success",
        "receipts": count,
        "problems": [{"line": one.line, "problem": one.text} for one in problems],
    }
    if problems:
        envelope |= {"error": f"{len(problems)} problems in {count} receipts", "code": "INTEGRITY"}
    lines = [f"{f'line {one.line}: ' if one.line else ''}{one.text}" for one in problems]
    summary = f"{count} receipts, {len(problems) or 'no'} problems"
    session.output.answer(envelope, "\n".join(map(one_line, [*lines, summary])))
    return 4 if problems else 0


def _configure_export(parser: Arguments) -> None:
    add = parser.add_argument
    add("id", metavar="ID", help="a receipt, or the beginning of its id")
    add("--format", choices=_FORMATS, default="in-toto", help="in-toto (as signed), or slsa")
    add("--out", metavar="FILE", help="write it there, and the public key beside it")


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
    key_path = path.with_name(f"{path.name}.pub.pem")
    for taken in (path, key_path):
        if taken.exists():
            raise RyeError(f"{taken}: is there already", code="CONFLICT", hint="name another file")
    write_atomic(path, f"{text}\n".encode())
    write_atomic(key_path, log.key.public_pem())
    answer = {"status": "success", "path": str(path), "public_key": str(key_path)}
    session.output.answer(answer, f"{path}\n{key_path}")
    return 0


def _configure_none(parser: Arguments) -> None:
    """No arguments."""


COMMANDS = {
    "receipts list": CommandSpec(_configure_list, _list, ["rye receipts list --item mine/report"]),
    "receipts show": CommandSpec(_configure_one, _show, ["rye receipts show 3f2a"]),
    "receipts verify": CommandSpec(_configure_none, _verify, ["rye receipts verify"]),
    "receipts export": CommandSpec(
        _configure_export,
        _export,
        ["rye receipts export 3f2a", "rye receipts export 3f2a --format slsa --out run.json"],
    ),
}
