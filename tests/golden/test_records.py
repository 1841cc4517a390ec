"""Formats: a document of each, made from fixed inputs byte for byte, and bad forms of it."""

import json
from base64 import b64encode
from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from lillux import dsse
from lillux.canonical_json import compute_integrity
from lillux.digests import sha256_hex
from lillux.key_files import save_keypair
from lillux.lockfile import (
    Lockfile,
    LockfileElement,
    LockfileRoot,
    dump_lockfile,
    parse_lockfile,
)
from lillux.signing import compute_key_digest, compute_key_fingerprint
from ryeos.agent.journal import described_answer
from ryeos.agent.limits import Limits
from ryeos.agent.messages import Answer, End, ToolCall, Usage
from ryeos.agent.records import AgentRecords
from ryeos.agent.thread_state import Ended, Start
from ryeos.graph.run_objects import (
    NodeInput,
    Receipt,
    RunSnapshot,
    node_input_object,
    receipt_object,
    receipt_of,
    result_object,
    result_of,
    run_snapshot_object,
    run_snapshot_of,
    state_object,
    state_of,
)
from ryeos.graph.transcript import Transcript, parse_transcript
from ryeos.items.refs import SYSTEM, Kind, Space
from ryeos.remote.deliveries import delivery_headers, verify_delivery
from ryeos.remote.envelopes import open_envelope
from ryeos.remote.identity import identity_document, read_identity, succession_document
from ryeos.remote.replies import (
    parse_reply,
    read_executed,
    read_head,
    read_health,
    read_push_terms,
    read_user_space,
)
from ryeos.remote.requests import parse_headers, sign_request, verify_request_signature
from ryeos.remote.signed_documents import sign_document, verify_document
from ryeos.run.receipt_key import ReceiptKey
from ryeos.run.receipt_log import ReceiptLog
from ryeos.run.receipt_statements import (
    PAYLOAD_TYPE,
    Evidence,
    predicate_of,
    start_of,
    statement,
    subject_of,
)
from ryeos.run.server_packages import read_package
from ryeos.run.server_pins import read_pins
from ryeos.run.slsa import slsa_statement
from ryeos.sync.entries import ContentEntry, decode, encode
from ryeos.sync.framed_entries import framed, read_entries
from ryeos.sync.objects import (
    ExecutionSnapshot,
    ItemSource,
    OutputsBundle,
    ProjectSnapshot,
    SourceManifest,
    execution_snapshot_of,
    item_source_of,
    manifest_of,
    outputs_bundle_of,
    snapshot_of,
)
from ryeos.trust.bundles import MANIFEST_FORM, dump_manifest, verify_manifest
from ryeos.trust.signature import Identity, form_for, split
from ryeos.trust.signing_key import SigningKey
from ryeos.trust.store import parse_key_document, write_key_document
from tests.support.bad_forms import Read, answers, bad_headers, bad_texts, bad_values
from tests.support.golden import compare
from tests.support.signed_files import (
    DIRECTIVE_BLOCK,
    ITEM_TYPE_IDS,
    ITEM_TYPES,
    Shelf,
    seed_keypair,
    sign_text,
)
from tests.support.wire_vectors import BOX_PRIVATE, VECTORS
from tests.support.workspace import NOW, Workspace, fixed_clock

OWN, OTHER = seed_keypair(0), seed_keypair(7)
KEY = SigningKey(OWN, fixed_clock)
ONE, TWO, THREE = (str(digit) * 64 for digit in (1, 2, 3))
TIME = "2026-01-02T03:04:05.000000+00:00"
NOW_S, NONCE = 1_700_000_000, "0f" * 16
AUDIENCE = f"fp:{compute_key_fingerprint(OTHER.public_pem)}"
BODY = b'{"a":1}'


# --- JSON documents -------------------------------------------------------------------------------

LOCKFILE = Lockfile(
    generated_at=TIME,
    root=LockfileRoot(
        tool_id="mine/hello",
        version="1.0.0",
        integrity=ONE,
        provider_id="project",
        provider_version="1.0.0",
    ),
    resolved_chain=(
        LockfileElement(
            item_id="mine/hello",
            space="project",
            tool_type="python",
            executor_id="rye/core/runtimes/python/script",
            integrity=ONE,
        ),
        LockfileElement(
            item_id="rye/core/primitives/execute",
            space="system",
            tool_type="primitive",
            executor_id=None,
            integrity=None,
            provider_id="ryeos",
            provider_version="1",
        ),
    ),
    verified_deps={"lib/a.py": TWO},
)
SIGNATURE_INFO = {"timestamp": TIME, "content_hash": ONE, "fingerprint": KEY.fingerprint}
SNAPSHOT = RunSnapshot(
    graph_run_id="mine-1",
    graph_id="mine/flow",
    step=2,
    status="running",
    state_hash=ONE,
    node_receipts=(TWO,),
    errors=({"message": "no", "phase": "call"},),
    errors_suppressed=1,
    current_node="b",
    graph_hash=THREE,
    unknown={"of_others": 1},
)
IDENTITY = identity_document(
    KEY,
    bytes(range(32)),
    "2026-01-02T03:04:05Z",
    items_pem=OTHER.public_pem,
    previous=[
        succession_document(
            SigningKey(OTHER, fixed_clock), OWN.public_pem, bytes(32), "2026-01-02T03:04:05Z"
        )
    ],
)
REQUEST = {"method": "POST", "path": "/push", "query": "a=1"}
PROGRAM = {"id": "mine/hello", "kind": "tool", "version": "1.0.0", "space": "project"}
EVIDENCE = Evidence(
    item_id="mine/hello",
    chain=({**PROGRAM, "sha256": ONE, "signer": KEY.fingerprint},),
    is_locked=True,
    parameters={"name": "Ada"},
    environment=("PATH",),
    rights={"network": "none"},
    approvals=("sandbox",),
)
CALLER = {"kind": "command"}
PREDICATE = predicate_of(
    EVIDENCE,
    caller=CALLER,
    started_at=NOW,
    finished_at=NOW + timedelta(seconds=1),
    outcome={"status": "success", "exitCode": 0},
    is_full=True,
    steps=(TWO,),
)
ENVELOPE = dsse.signed(
    PAYLOAD_TYPE,
    json.dumps(statement(PREDICATE, [subject_of("result", THREE)])).encode(),
    OWN.private_pem,
    compute_key_digest(OWN.public_pem),
)
HEAD = {
    "head": ONE,
    "snapshots": [{"_hash": ONE, "project_manifest_hash": TWO, "user_manifest_hash": THREE}],
    "push_terms": {"takes_changes": True, "engine_version": "1", "user_manifest_hash": THREE},
}
EXECUTED = {
    "thread_id": "t",
    "status": "success",
    "result": {"data": 1},
    "snapshot_hash": ONE,
    "merge_type": "fast_forward",
    "execution_snapshot_hash": TWO,
    "runtime_outputs_bundle_hash": THREE,
    "new_object_hashes": [ONE],
    "conflicts": {},
    "masked_paths": ["a"],
    "system_version": "1",
    "left_out": [{"path": "a", "problem": "no"}],
    "warnings": ["w"],
}
SERVER = {
    "pins": {"tools": {"echo": ONE}, "file": "a.py", "files": ONE, "also": ["b.py"]},
    "package": {"npm": "x@1.0.0", "bin": "x", "list": ONE},
}


def _reply(value: object) -> dict[str, Any]:
    return parse_reply(json.dumps(value).encode(), "a request")


def _lockfile_of(value: object) -> object:
    return parse_lockfile(json.dumps(value).encode(), "x.lock.json")


def _verified_request(headers: Any) -> object:  # noqa: ANN401 - JSON
    verify_request_signature(
        OWN.public_pem, headers, body_sha256=sha256_hex(BODY), audience=AUDIENCE, **REQUEST
    )
    return parse_headers(headers)


def _verified_delivery(headers: Any) -> object:  # noqa: ANN401 - JSON
    names = ("X-Webhook-Timestamp", "X-Webhook-Signature")
    timestamp, signature = (headers.get(name, "") for name in names)
    verify_delivery("whsec_x", timestamp, BODY, signature, now_s=NOW_S)
    return timestamp


DOCUMENTS: Mapping[str, tuple[Any, Read]] = {
    "lockfile": (json.loads(dump_lockfile(LOCKFILE)), _lockfile_of),
    "item_source": (
        ItemSource("tool:mine/hello", ONE, SIGNATURE_INFO).as_object(),
        lambda value: item_source_of(value, "object"),
    ),
    "source_manifest": (
        SourceManifest("project", {".ai/tools/a.py": ONE}, {"src/a.py": TWO}).as_object(),
        lambda value: manifest_of(value, "object"),
    ),
    "project_snapshot": (
        ProjectSnapshot(
            project_manifest_hash=ONE,
            user_manifest_hash=TWO,
            parent_hashes=(THREE,),
            source="push",
            source_detail="tool:mine/hello",
            timestamp=TIME,
            metadata={"a": 1},
        ).as_object(),
        lambda value: snapshot_of(value, "object"),
    ),
    "execution_snapshot": (
        ExecutionSnapshot(
            graph_run_id="t",
            graph_id="tool:mine/hello",
            status="success",
            project_manifest_hash=ONE,
            system_version="1",
            errors=({"message": "no", "phase": "call"},),
            unknown={"of_others": 1},
        ).as_object(),
        lambda value: execution_snapshot_of(value, "object"),
    ),
    "outputs_bundle": (
        OutputsBundle("t", ONE, {"out/a.txt": TWO}).as_object(),
        lambda value: outputs_bundle_of(value, "object"),
    ),
    "run_snapshot": (
        run_snapshot_object(SNAPSHOT),
        lambda value: run_snapshot_of(value, "object"),
    ),
    "node_receipt": (
        receipt_object(
            Receipt(
                node_input_hash=ONE,
                node_result_hash=TWO,
                cache_hit=True,
                elapsed_ms=3,
                timestamp=TIME,
                error="no",
            )
        ),
        lambda value: receipt_of(value, "object"),
    ),
    "state_snapshot": (state_object({"a": 1}), lambda value: state_of(value, "object")),
    "node_result": (result_object({"a": 1}), lambda value: result_of(value, "object")),
    "entry": (encode(ContentEntry(sha256_hex(BODY), "blob", BODY)), decode),
    "signed_document": (
        sign_document({"kind": "x/v1", "a": {"b": [1]}}, KEY, "2026-01-02T03:04:05Z"),
        lambda value: verify_document(value, OWN.public_pem),
    ),
    "identity": (IDENTITY, read_identity),
    "secret_envelope": (
        VECTORS["sealed_envelope"]["envelope"],
        lambda value: open_envelope(value, BOX_PRIVATE),
    ),
    "receipt_envelope": (
        ENVELOPE,
        lambda value: dsse.opened(value, PAYLOAD_TYPE, OWN.public_pem),
    ),
    "health_reply": (
        {"status": "healthy", "version": "1", "engine_version": "2"},
        lambda value: read_health(_reply(value), "GET /health"),
    ),
    "head_reply": (HEAD, lambda value: read_head(_reply(value), "GET /history")),
    "push_terms": (HEAD["push_terms"], lambda value: read_push_terms(value, "GET /history")),
    "user_space_reply": (
        {"user_manifest_hash": ONE, "revision": 3},
        lambda value: read_user_space(_reply(value), "GET /user-space"),
    ),
    "execute_reply": (EXECUTED, lambda value: read_executed(_reply(value), "POST /execute")),
}


HEADERS: Mapping[str, tuple[Mapping[str, str], Read]] = {
    "request_headers": (
        sign_request(KEY, body=BODY, audience=AUDIENCE, now_s=NOW_S, nonce=NONCE, **REQUEST),
        _verified_request,
    ),
    "delivery_headers": (
        delivery_headers("whsec_x", body=BODY, now_s=NOW_S, delivery_id="d-1"),
        _verified_delivery,
    ),
}


@pytest.mark.parametrize("name", HEADERS)
def test_headers_and_their_bad_forms_are_as_recorded(name: str) -> None:
    headers, read = HEADERS[name]

    shown = "\n".join(f"{key}: {value}" for key, value in headers.items())
    answered = answers(read, headers, bad_headers(headers))

    compare(f"records/{name}", f"{shown}\n\n{answered}")


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_document_and_its_bad_forms_are_as_recorded(name: str) -> None:
    document, read = DOCUMENTS[name]

    shown = json.dumps(document, indent=1, ensure_ascii=False)
    answered = answers(read, document, bad_values(document))

    compare(f"records/{name}", f"{shown}\ndigest {compute_integrity(document)}\n\n{answered}")


def test_what_is_written_and_never_read_is_as_recorded() -> None:
    given = NodeInput(
        graph_id="mine/flow",
        graph_hash=ONE,
        node_name="a",
        interpolated_action={"item_id": "tool:mine/x", "params": {"b": 1, "a": 2}},
        config_snapshot_hash=TWO,
        chain=(THREE,),
    )
    documents = {
        "node_input": node_input_object(given),
        "receipt": statement(PREDICATE, [subject_of("result", THREE)]),
        "start": statement(start_of(EVIDENCE, caller=CALLER, started_at=NOW), []),
    }

    shown = [
        f"{name}: {compute_integrity(one)}\n{json.dumps(one, indent=1)}"
        for name, one in documents.items()
    ]

    compare("records/written", "\n\n".join(shown))


# --- texts ----------------------------------------------------------------------------------------


def record_text(name: str, text: str, read: Callable[[str], object]) -> None:
    """Compare a text with its digest, and what its reader says of bad forms of it."""
    answered = answers(read, text, bad_texts(text))
    compare(f"records/{name}", f"{text}\nsha256 {sha256_hex(text.encode())}\n\n{answered}")


def test_a_lockfile_is_written_as_recorded() -> None:
    record_text(
        "lockfile_file",
        dump_lockfile(LOCKFILE).decode(),
        lambda text: parse_lockfile(text.encode(), "x.lock.json"),
    )


@pytest.mark.parametrize("variant", ["plain", "whole"])
def test_a_key_document_is_as_recorded(variant: str) -> None:
    more: dict[str, Any] = {"covers_all": variant == "whole"}
    if variant == "whole":
        more |= {"binds_identity": True, "valid_until": "2027-01-01T00:00:00Z"}
    text = write_key_document(OWN.public_pem, "ada", **more)
    if variant == "whole":
        text = sign_text(Kind.CONFIG, ".toml", text, OTHER)

    record_text(
        f"key_document_{variant}", text, lambda given: parse_key_document(given.encode(), "x.toml")
    )


@pytest.mark.parametrize(("kind", "suffix"), ITEM_TYPES, ids=ITEM_TYPE_IDS)
def test_a_signed_item_and_its_bad_forms_are_as_recorded(
    workspace: Workspace, kind: Kind, suffix: str
) -> None:
    workspace.user.trust(OWN)
    verifier, shelf = workspace.rye().verifier, Shelf(workspace.project.space)
    body = f"```xml\n{DIRECTIVE_BLOCK}\n```\n\nDo it.\n" if kind is Kind.DIRECTIVE else "a: 1\n"
    form, place = form_for(kind, suffix), f"x{suffix}"
    identity = Identity(kind.value, "x", suffix[1:], "1.0.0")
    text = KEY.signed_text(kind, split(body, form, place), form, place, identity)

    def read(given: str) -> object:
        item = verifier.verify(shelf.put(kind, suffix, given.encode()))
        return item.signature, item.data

    answered = answers(read, text, bad_texts(text)).replace(str(workspace.folder), "<tmp>")
    digest = f"sha256 {sha256_hex(text.encode())}"
    compare(f"records/signature_{kind.value}{suffix}", f"{text}\n{digest}\n\n{answered}")


def test_a_bundle_manifest_is_as_recorded() -> None:
    space = Space(f"{SYSTEM}:mine", Path("bundle"), version="1.0.0")
    files = {".ai/tools/a.py": {"sha256": ONE, "header": {"version": "1.0.0"}}}
    body = dump_manifest("mine", "1.0.0", files)
    text = KEY.signed_text(Kind.TOOL, split(body, MANIFEST_FORM, "m"), MANIFEST_FORM, "m")

    record_text(
        "bundle_manifest",
        text,
        lambda given: verify_manifest(space, given.encode(), OWN.public_pem).files,
    )


def test_framed_entries_are_as_recorded() -> None:
    entries = [
        ContentEntry(sha256_hex(b"text\n"), "blob", b"text\n"),
        ContentEntry(sha256_hex(BODY), "object", BODY),
    ]
    data = b"".join(framed(entries))

    def read(text: str) -> object:
        return list(read_entries(text.encode("latin-1")))

    text = data.decode("latin-1")
    answered = answers(read, text, bad_texts(text))
    compare("records/framed_entries", f"{b64encode(data).decode()}\n\n{answered}")


def test_the_log_of_a_graph_run_is_as_recorded(tmp_path: Path) -> None:
    path = tmp_path / "transcript.jsonl"
    log = Transcript(path, "mine-1", key=KEY, clock=fixed_clock)
    log.append([("graph_started", {"graph_id": "mine/flow", "inputs": {"a": 1}})])
    log.append_signed([("step_completed", {"node": "a", "step": 1})], 1)
    log.append([("graph_completed", {"status": "completed"})])
    log.checkpoint(2)
    log.close()
    keys = {KEY.fingerprint: OWN.public_pem}

    record_text(
        "run_log",
        path.read_text("utf-8"),
        lambda text: parse_transcript(text.encode(), "x.jsonl", "mine-1", keys.get),
    )


STARTED = Start(
    item="directive:mine/hello",
    integrity=ONE,
    inputs={"name": "Ada"},
    project=None,
    models=(
        {
            "provider": "local",
            "model": "small",
            "dialect": "openai-chat",
            "prices": {"free": True},
            "context": 8000,
            "max_output": 1000,
        },
    ),
    system="You are",
    question="Say hello",
    limits=Limits(),
    outputs={"greeting": True},
    grants=(("rye.execute.tool.mine.*",),),
)


def test_the_journal_of_a_thread_is_as_recorded(tmp_path: Path) -> None:
    folder = tmp_path / "key"
    save_keypair(folder, OWN)
    records = AgentRecords(tmp_path / ".ai", ReceiptKey(folder), fixed_clock)
    journal = records.begin("mine-1", STARTED.described())
    call = ToolCall(id="c1", name="echo", arguments='{"text": "hello"}')
    reply = Answer(
        blocks=({"type": "text", "text": "hello"},),
        text="hello",
        calls=(call,),
        end=End.TOOL_CALLS,
        usage=Usage(input_tokens=3, output_tokens=4),
        model="small",
    )
    returned = {"call_id": "c1", "name": "echo", "text": "hello", "is_error": False}
    ended = Ended(state="completed", text="hello", outputs={"greeting": "hello"})
    journal.write(("asked", {"input_tokens": 3, "output_tokens": 5, "sha256": TWO}))
    journal.write(("answered", described_answer(reply)), ("called", {"call_id": "c1"}))
    journal.write(("returned", returned))
    journal.write(("ended", ended.described()), force=True)
    journal.close()
    path = records.folder_of("mine-1") / "journal.jsonl"

    def read(text: str) -> object:
        path.write_text(text, "utf-8")
        return records.read("mine-1")

    text = path.read_text("utf-8")
    answered = answers(read, text, bad_texts(text)).replace(str(tmp_path), "<tmp>")
    compare("records/thread_journal", f"{text}\nsha256 {sha256_hex(text.encode())}\n\n{answered}")


def test_the_log_of_receipts_is_as_recorded(tmp_path: Path) -> None:
    folder = tmp_path / "key"
    save_keypair(folder, OWN)
    log = ReceiptLog(tmp_path / "receipts", ReceiptKey(folder))
    for name in ("one", "two"):
        log.append({**PREDICATE, "item": f"tool:mine/{name}"}, [subject_of("result", THREE)])
    files = {name: (log.folder / name).read_text("utf-8") for name in ("log.jsonl", "head.json")}

    def read(text: str, name: str) -> object:
        for other, good in files.items():
            (log.folder / other).write_text(text if other == name else good, "utf-8")
        return [f"{one.line}: {one.text}" for one in log.verify()[1]]

    parts = [json.dumps(slsa_statement(next(log.receipts()), "mine"), indent=1)]
    for name, text in files.items():
        parts.append(f"# {name}\n{text}")
        for what, form in bad_texts(text):
            try:
                problems = str(read(form, name))
            except RecursionError as error:  # of json, which this reader lets pass
                problems = f"RecursionError: {error}"
            parts.append(f"{what}: {problems}")
    compare("records/receipt_log", "\n".join(parts).replace(str(tmp_path), "<tmp>"))


def test_pins_of_a_server_and_their_bad_forms_are_as_recorded() -> None:
    parts = []
    for name, read in (("pins", read_pins), ("package", lambda one: read_package(one, "x"))):
        forms = (one for one in bad_values(SERVER) if isinstance(one[1], dict))
        answered = answers(read, SERVER, forms)
        parts.append(f"# {name}\n{answered}")

    compare("records/server_pins", "\n\n".join(parts))
