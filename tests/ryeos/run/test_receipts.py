"""Receipts: their content, verification by other programs, and detection of changes."""

import json
import os
import threading
from base64 import b64decode, b64encode
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import load_pem_public_key
from google.protobuf.json_format import ParseDict
from in_toto_attestation.v1.statement import Statement
from in_toto_attestation.v1.statement_pb2 import Statement as StatementMessage
from securesystemslib.dsse import Envelope
from securesystemslib.exceptions import VerificationError
from securesystemslib.signer._key import SSlibKey

from lillux import dsse
from lillux.attempts import MAX_REFUSED, UNHEARD, Attempt, Attempts, Hearers
from lillux.errors import LilluxError
from lillux.sandbox import Confinement, Mediation, obstacle
from lillux.signing import compute_key_digest, generate_keypair
from ryeos.items.errors import Answer, RyeError
from ryeos.items.refs import parse_reference
from ryeos.run.functions import FunctionHost
from ryeos.run.heard_refusals import refusals_of_receipt
from ryeos.run.model import ExecutionRequest
from ryeos.run.programs import program_at
from ryeos.run.receipt_key import ReceiptKey
from ryeos.run.receipt_log import HEAD, LOG, Receipt, ReceiptLog
from ryeos.run.receipt_statements import HEAD_TYPE, PAYLOAD_TYPE, START_TYPE, Evidence
from ryeos.run.slsa import slsa_statement
from tests.support.workspace import Workspace

BODY = """
def execute(params, project_path):
    open(project_path + "/out/made.txt", "w").write("made")
    return {"n": params.get("n", 0)}
"""
held = pytest.mark.skipif(
    bool(obstacle(Confinement(mediated=Mediation(()), is_hardened=True))),
    reason="Linux has a supervisor",
)
FUNCTION = "rye/core/runtimes/python/function"


def test_of_many_that_make_the_key_at_once_each_has_the_same_one(tmp_path: Path) -> None:
    for number in range(20):
        keys, together = tmp_path / str(number), threading.Barrier(8)

        def made(keys: Path = keys, together: threading.Barrier = together) -> bytes:
            together.wait(10)
            return ReceiptKey(keys).pair().private_pem

        with ThreadPoolExecutor(8) as pool:
            pairs = {one.result() for one in [pool.submit(made) for _ in range(8)]}

        assert pairs == {ReceiptKey(keys).pair().private_pem}


@pytest.fixture
def log(tmp_path: Path) -> ReceiptLog:
    return ReceiptLog(tmp_path / "receipts", ReceiptKey(tmp_path / "key"))


def write(log: ReceiptLog, count: int = 3) -> list[str]:
    return [log.append({"item": f"tool:a/{n}"}, [{"name": "result"}]) for n in range(count)]


def run(workspace: Workspace, receipts: str = "on", **parameters: object) -> Receipt:
    """The receipt of one run."""
    workspace.project.signed_tool(
        "mine/make",
        BODY,
        executor=FUNCTION,
        extra='SANDBOX = {"write": ["{project}/out"], "env": ["TOKEN"]}\n',
    )
    rye = workspace.rye(receipts=receipts)
    request = ExecutionRequest(item_id="mine/make", parameters=parameters)
    answer = rye.execute(parse_reference("tool:mine/make"), request)
    assert answer.envelope["status"] == "success", answer.envelope
    return rye.receipts.log.find(answer.envelope["metadata"]["receipt"])


def validate(statement: dict[str, object]) -> None:
    """Let in-toto read a statement. An invalid one fails the test."""
    Statement.copy_from_pb(ParseDict(statement, StatementMessage())).validate()


def test_a_receipt_records_chain_rights_and_result(
    workspace: Workspace,
) -> None:
    workspace.env["TOKEN"] = "secret"

    receipt = run(workspace, n=3)

    predicate = receipt.predicate
    assert predicate["item"] == "tool:mine/make"
    chain = [
        (one["id"], one["version"], len(one["sha256"]), len(one["signer"]))
        for one in predicate["chain"]
    ]
    assert chain[0] == ("mine/make", "1.0.0", 64, 64)
    assert [one[0] for one in chain[1:]] == [FUNCTION, "rye/core/primitives/execute"]
    assert predicate["rights"]["write"] == [str(workspace.project_path / "out")]
    assert predicate["rights"]["network"] == "none"
    assert "TOKEN" in predicate["environment"]
    assert len(predicate["interpreter"]["sha256"]) == 64
    assert predicate["caller"] == {"kind": "cli"}
    assert (
        predicate["status"],
        predicate["exitCode"],
        predicate["number"],
        predicate["previous"],
    ) == ("success", 0, 2, predicate["start"])
    assert predicate["filesObserved"] == "all"
    observed, unobserved = predicate["refusalsObserved"], predicate["refusalsNotObserved"]
    assert not {*observed} & {*unobserved}
    assert "refused" not in predicate
    made = [one["name"] for one in receipt.statement["subject"]]
    assert made == ["result", str(workspace.project_path / "out/made.txt")]
    text = json.dumps(receipt.statement)
    assert '"n"' not in text
    assert "secret" not in text


def test_a_receipt_names_links_folders_and_what_was_removed(workspace: Workspace) -> None:
    out = workspace.project_path / "out"
    out.mkdir()
    (out / "old").write_text("old", encoding="utf-8")
    workspace.project.signed_yaml(
        "mine/x",
        'sandbox: {write: ["{project}/out"], programs: any}\n'
        "config: {script: 'ln -s /etc/passwd out/link; mkdir out/folder; mv out/old out/new'}\n",
    )
    rye = workspace.rye(receipts="on")

    answer = rye.execute(parse_reference("tool:mine/x"), ExecutionRequest(item_id="mine/x"))

    receipt = rye.receipts.log.find(answer.envelope["metadata"]["receipt"])
    assert receipt.predicate["changes"] == [
        {"path": f"{out}/folder", "kind": "folder", "change": "made"},
        {"path": f"{out}/link", "kind": "link", "change": "made", "target": "/etc/passwd"},
        {"path": f"{out}/old", "kind": "file", "change": "removed"},
    ]
    assert [one["name"] for one in receipt.statement["subject"]] == ["result", f"{out}/new"]
    validate(dict(receipt.statement))


@held
def test_refused_accesses_are_there_also_in_a_run_that_succeeds(workspace: Workspace) -> None:
    outside = workspace.folder / "outside"
    outside.mkdir()
    body = f"""
import os
def execute(params, project_path):
    for act in (lambda: open("{outside}/x", "w"), lambda: os.chmod("{outside}", 0o777)):
        for _ in range(2):
            try:
                act()
            except OSError:
                pass
    open(project_path + "/inside", "w").close()
    return {{}}
"""
    workspace.project.signed_tool("mine/x", body, executor=FUNCTION)
    with closing(FunctionHost()) as functions:
        for host in (None, functions):  # in a process of its own, and in a warm worker
            rye = workspace.rye(receipts="on", confines=True, functions=host)
            rye.caller = lambda: {"kind": "mcp", "client": "a"}

            answer = rye.execute(parse_reference("tool:mine/x"), ExecutionRequest(item_id="mine/x"))

            assert answer.envelope["status"] == "success", answer.envelope
            said = rye.receipts.log.find(answer.envelope["metadata"]["receipt"]).predicate
            # A shim of the interpreter is a shell, which looks for a terminal.
            found = [one for one in said["refused"] if not one["target"].startswith("/dev/tty")]
            assert found == [
                {"what": "write", "target": f"{outside}/x"},
                {"what": "metadata", "target": str(outside)},
            ]
            assert said["refusedCount"] >= 4
            assert {"write", "metadata", "connect"} <= {*said["refusalsObserved"]}
            assert {"read", "signal", "system-call"} <= {*said["refusalsNotObserved"]}


@held
def test_a_run_that_is_refused_very_much_has_a_receipt_all_the_same(workspace: Workspace) -> None:
    name = "\N{EURO SIGN}" * 80
    body = f"""
import os
def execute(params, project_path):
    for number in range(300):
        try:
            open("/" + str(number) + "{name}", "w")
        except OSError:
            pass
    return {{}}
"""
    workspace.project.signed_tool("mine/x", body, executor=FUNCTION)
    rye = workspace.rye(receipts="on", confines=True)
    rye.caller = lambda: {"kind": "mcp", "client": "a"}

    answer = rye.execute(parse_reference("tool:mine/x"), ExecutionRequest(item_id="mine/x"))

    said = rye.receipts.log.find(answer.envelope["metadata"]["receipt"]).predicate
    assert len(said["refused"]) == MAX_REFUSED
    assert said["refusedCount"] >= 300


def test_what_several_runs_of_a_worker_are_refused_is_marked_as_shared() -> None:
    hearers, one, other = Hearers(), Attempts(), Attempts()
    with hearers.heard_by(one.append):
        hearers(Attempt("write", "/a", was_refused=True))
        with hearers.heard_by(other.append):
            hearers(Attempt("write", "/b", was_refused=True))

    assert [(found.target, found.is_shared) for found in one] == [("/a", False), ("/b", True)]
    assert [(found.target, found.is_shared) for found in other] == [("/b", True)]


def test_without_a_supervisor_no_kind_is_said_to_be_observed() -> None:
    attempts = Attempts()
    attempts.append(Attempt(UNHEARD, ""))

    said = refusals_of_receipt(attempts, Confinement(is_hardened=True, watches=True), ())

    assert said["refusalsObserved"] == []
    assert "system-call" in said["refusalsNotObserved"]


def test_a_full_receipt_has_the_values_of_the_parameters(workspace: Workspace) -> None:
    assert run(workspace, "full", n=3).predicate["parameters"]["values"] == {"n": 3}


def test_other_programs_verify_the_envelope_and_read_the_statement(workspace: Workspace) -> None:
    receipt = run(workspace)
    pem = workspace.rye().receipts.log.key.public_pem()
    key_id = compute_key_digest(pem)
    key = SSlibKey.from_crypto(load_pem_public_key(pem), keyid=key_id)
    other_pem = generate_keypair().public_pem
    other = SSlibKey.from_crypto(load_pem_public_key(other_pem), keyid=key_id)

    envelope = Envelope.from_dict(json.loads(json.dumps(receipt.envelope)))

    assert list(envelope.verify([key], 1)) == [key_id]
    with pytest.raises(VerificationError):
        envelope.verify([other], 1)
    statement = json.loads(envelope.payload)
    validate(statement)
    assert statement["_type"] == "https://in-toto.io/Statement/v1"


def test_a_run_with_outputs_gives_slsa_provenance(workspace: Workspace) -> None:
    statement = slsa_statement(run(workspace), "https://rye.dev/key/x")

    validate(statement)
    definition = statement["predicate"]["buildDefinition"]
    assert definition["externalParameters"]["item"] == "tool:mine/make"
    assert definition["resolvedDependencies"][0]["name"] == "mine/make"


def test_a_failed_run_gives_no_provenance() -> None:
    failed = Receipt(1, "0" * 64, {}, {"predicate": {"status": "error"}})

    with pytest.raises(RyeError, match="provenance is of what was made"):
        slsa_statement(failed, "x")


def test_a_graph_leaves_a_receipt_of_its_own_and_of_each_step(workspace: Workspace) -> None:
    workspace.project.signed_tool(
        "mine/step", "def execute(params):\n    return {}\n", executor=FUNCTION
    )
    workspace.project.sign(
        workspace.project.write(
            "tools/mine/flow.yaml",
            'version: "1.0.0"\ntool_type: graph\ncategory: mine\ndescription: t\n'
            "executor_id: rye/core/runtimes/state-graph/runtime\n"
            'permissions: ["rye.execute.tool.mine.*"]\n'
            "config:\n  start: one\n  nodes:\n"
            "    one: {action: {item_id: 'tool:mine/step'}, next: two}\n"
            "    two: {action: {item_id: 'tool:mine/step'}, next: end}\n"
            "    end: {type: return}\n",
        )
    )
    rye = workspace.rye()

    answer = rye.execute(parse_reference("tool:mine/flow"), ExecutionRequest(item_id="mine/flow"))
    rye.close()

    receipts = list(rye.receipts.log.runs())
    assert [one.predicate["item"] for one in receipts] == [
        *["tool:mine/step"] * 2,
        "tool:mine/flow",
    ]
    graph = receipts[-1].predicate
    assert graph["steps"] == [one.id for one in receipts[:2]]
    callers = [one.predicate["caller"] for one in receipts[:2]]
    assert callers == [{"kind": "graph", "run": graph["run"], "step": s} for s in ("one", "two")]
    assert answer.envelope["metadata"]["receipt"] == receipts[-1].id


def test_runs_of_a_person_write_no_receipt_by_default(workspace: Workspace) -> None:
    workspace.project.signed_yaml("mine/x", "config: {script: echo x}\n")
    rye = workspace.rye()

    answer = rye.execute(parse_reference("tool:mine/x"), ExecutionRequest(item_id="mine/x"))

    assert "receipt" not in answer.envelope["metadata"]
    assert list(rye.receipts.log.receipts()) == []


# --- tampering ------------------------------------------------------------------------------------


def lines_of(log: ReceiptLog) -> list[bytes]:
    return (log.folder / LOG).read_bytes().splitlines(keepends=True)


def put(log: ReceiptLog, lines: list[bytes]) -> None:
    (log.folder / LOG).write_bytes(b"".join(lines))


def problems(log: ReceiptLog) -> list[str]:
    return [f"{one.line}: {one.text}" for one in log.verify()[1]]


def test_an_untouched_log_has_no_problems(log: ReceiptLog) -> None:
    write(log)

    assert log.verify() == (3, [])


def with_other_payload(line: bytes) -> bytes:
    envelope = json.loads(line)
    statement = json.loads(b64decode(envelope["payload"]))
    statement["predicate"]["item"] = "tool:evil"
    return (
        json.dumps(
            envelope | {"payload": b64encode(json.dumps(statement).encode()).decode()}
        ).encode()
        + b"\n"
    )


def by_another_key(line: bytes) -> bytes:
    pair = generate_keypair()
    payload = b64decode(json.loads(line)["payload"])
    key_id = compute_key_digest(pair.public_pem)
    return json.dumps(dsse.signed(PAYLOAD_TYPE, payload, pair.private_pem, key_id)).encode() + b"\n"


@pytest.mark.parametrize(
    ("tamper", "problem"),
    [
        (lambda n: [n[0], with_other_payload(n[1]), n[2]], "2: the signature of the key"),
        (lambda n: [n[0], by_another_key(n[1]), n[2]], "2: expected a signature of the key"),
        (lambda n: [n[0], b"{}\n", n[2]], "2: expected a payload of type"),
        (lambda n: [n[0], b"\xff\n", n[2]], "2: expected JSON"),
        (lambda n: [n[0], n[2]], "2: expected number 2, found 3: one is missing or moved"),
        (lambda n: [n[1], n[0], n[2]], "1: expected number 1, found 2: one is missing or moved"),
        (lambda n: n[:2], "0: cut off: expected 3 receipts, found 2"),
        (lambda _: [], "0: cut off: expected 3 receipts, found 0"),
        (lambda n: [*n, n[2]], "4: expected number 4, found 3: one is missing or moved"),
        (lambda n: [n[0], n[1], n[2][:40]], "3: expected JSON"),
    ],
)
def test_every_change_of_the_log_is_detected(
    log: ReceiptLog, tamper: Callable[[list[bytes]], list[bytes]], problem: str
) -> None:
    write(log)

    put(log, tamper(lines_of(log)))

    assert any(one.startswith(problem) for one in problems(log)), problems(log)


def test_an_older_log_and_a_missing_head_are_detected(log: ReceiptLog) -> None:
    write(log, 2)
    before = lines_of(log)
    write(log, 1)
    after = lines_of(log)

    (log.folder / HEAD).unlink()
    without = problems(log)
    head = dsse.signed(
        HEAD_TYPE, b'{"count": 2, "sha256": "", "size": 0}', generate_keypair().private_pem, "x"
    )
    (log.folder / HEAD).write_text(json.dumps(head), "utf-8")
    forged = problems(log)
    put(log, before)

    assert without == [f"0: {HEAD}: expected it beside the log, found none"]
    assert forged[0].startswith(f"0: {HEAD}: expected a signature of the key")
    assert len(after) == 3


def test_a_gap_stays_detectable_after_further_writes(log: ReceiptLog) -> None:
    write(log)
    put(log, lines_of(log)[:2])

    write(log, 1)

    assert problems(log)


def test_simultaneous_writers_extend_one_chain(log: ReceiptLog) -> None:
    threads = [threading.Thread(target=lambda: write(log, 5)) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert log.verify() == (30, [])


@pytest.mark.parametrize("rest", [b'{"half', b"whole but none of ours\n", b"a\nb\n"])
def test_an_incomplete_line_of_a_killed_process_is_set_aside(log: ReceiptLog, rest: bytes) -> None:
    write(log, 2)
    with (log.folder / LOG).open("ab") as file:
        file.write(rest)

    write(log, 1)

    assert log.verify() == (3, [])
    assert (log.folder / "broken.jsonl").read_bytes() == rest


def test_a_receipt_without_its_head_update_is_valid(log: ReceiptLog) -> None:
    write(log, 2)
    head = (log.folder / HEAD).read_bytes()
    write(log, 1)
    (log.folder / HEAD).write_bytes(head)  # as if its process had been ended in between

    write(log, 1)

    assert log.verify() == (4, [])


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="Linux has a disk that is always full")
def test_a_full_disk_leaves_no_half_line_and_no_lost_run(workspace: Workspace) -> None:
    workspace.project.signed_yaml("mine/x", "config: {script: echo x}\n")
    rye = workspace.rye(receipts="on")
    rye.receipts.log.append({"item": "tool:a"}, [])
    path = rye.receipts.log.folder / LOG
    kept = path.read_bytes()
    path.unlink()
    path.symlink_to("/dev/full")

    answer = rye.execute(parse_reference("tool:mine/x"), ExecutionRequest(item_id="mine/x"))

    assert answer.envelope["status"] == "success"
    warnings = answer.envelope["metadata"]["warnings"]
    assert any("no receipt was written" in one and "space" in one.lower() for one in warnings)
    assert kept


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="Linux has a disk that is always full")
def test_without_a_start_in_the_log_nothing_starts_for_an_agent(workspace: Workspace) -> None:
    workspace.project.signed_yaml("mine/x", "config: {script: touch started}\n")
    rye = workspace.rye(receipts="on")
    rye.caller = lambda: {"kind": "mcp", "client": "a"}
    rye.receipts.log.append({"item": "tool:a"}, [])
    path = rye.receipts.log.folder / LOG
    path.unlink()
    path.symlink_to("/dev/full")

    answer = rye.execute(parse_reference("tool:mine/x"), ExecutionRequest(item_id="mine/x"))

    assert answer.envelope["code"] == "FILE_SYSTEM_ERROR"
    assert "nothing was started" in answer.envelope["error"]
    assert not (workspace.project_path / "started").exists()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the program is forked")
def test_a_run_that_kills_its_engine_leaves_its_start(workspace: Workspace) -> None:
    workspace.project.signed_yaml("mine/x", "config: {script: kill -9 $PPID}\n")
    rye = workspace.rye(receipts="on")

    pid = os.fork()
    if pid == 0:
        try:
            rye.execute(parse_reference("tool:mine/x"), ExecutionRequest(item_id="mine/x"))
        finally:
            os._exit(1)
    _, status = os.waitpid(pid, 0)

    assert os.waitstatus_to_exitcode(status) == -9
    runs = list(rye.receipts.log.runs())
    assert [(one.predicate["item"], one.is_start) for one in runs] == [("tool:mine/x", True)]


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root writes everywhere")
def test_an_unwritable_folder_loses_only_the_receipt(workspace: Workspace, tmp_path: Path) -> None:
    folder = workspace.home / ".ai/state"
    folder.mkdir(parents=True)
    folder.chmod(0o500)
    workspace.project.signed_yaml("mine/x", "config: {script: echo x}\n")

    rye = workspace.rye(receipts="on")
    answer = rye.execute(parse_reference("tool:mine/x"), ExecutionRequest(item_id="mine/x"))
    folder.chmod(0o700)

    assert answer.envelope["status"] == "success"


def test_without_a_home_no_file_is_written_at_the_root(
    workspace: Workspace,
) -> None:
    workspace.project.signed_yaml("mine/x", "config: {script: echo x}\n")
    workspace.env["HOME"] = ""
    before = Path("/.ai").exists()

    rye = workspace.rye(receipts="on")
    rye.receipts.leave(
        Evidence(
            item_id="mine/x",
            chain=(),
            is_locked=False,
            parameters={},
            environment=(),
            rights={},
            program=program_at("/bin/sh"),
        ),
        answer := Answer({"status": "success", "data": {}}),
        0,
        {"kind": "cli"},
    )

    assert rye.context.spaces.user.base == Path("/")
    assert Path("/.ai").exists() is before
    assert answer.envelope == {"status": "success", "data": {}}


def test_ids_are_found_by_their_beginning(log: ReceiptLog) -> None:
    ids = write(log)

    assert log.find(ids[1][:10]).number == 2
    with pytest.raises(LilluxError):
        log.find("zz")
    with pytest.raises(LilluxError):
        log.find("")


def test_a_receipt_without_its_head_update_is_valid_also_of_several_lines(log: ReceiptLog) -> None:
    write(log, 2)
    head = (log.folder / HEAD).read_bytes()
    write(log, 3)
    (log.folder / HEAD).write_bytes(head)  # as if the disk had had no place for another file

    write(log, 1)

    assert log.verify() == (6, [])


def test_a_start_without_an_end_is_listed_as_a_run(log: ReceiptLog) -> None:
    start = log.append({"item": "tool:a"}, [], START_TYPE)
    other = log.append({"item": "tool:b"}, [], START_TYPE)
    log.append({"item": "tool:b", "start": other}, [])

    runs = list(log.runs())

    assert [(one.predicate["item"], one.is_start) for one in runs] == [
        ("tool:b", False),
        ("tool:a", True),
    ]
    assert runs[1].digest == start
    assert log.verify() == (2, [])


def test_the_encoding_that_is_signed_is_that_of_the_specification() -> None:
    encoded = dsse.encoded("http://example.com/HelloWorld", b"hello world")

    assert encoded == b"DSSEv1 29 http://example.com/HelloWorld 11 hello world"
