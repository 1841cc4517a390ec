"""``rye sandbox``, ``--sandbox``, ``rye receipts`` and rights in the output of other commands."""

import json
from pathlib import Path

import pytest

from lillux.landlock import landlock_version
from lillux.seccomp import can_filter
from lillux.supervisor import can_supervise
from tests.support.command_line import CommandLine

linux = pytest.mark.skipif(
    not (landlock_version() and can_filter() and can_supervise()), reason="Linux holds rights"
)
HEADER = (
    'version: "1.0.0"\ntool_type: bash\nexecutor_id: rye/core/runtimes/bash/bash\ncategory: mine\n'
    "description: test\n"
)


@pytest.fixture
def project(cli: CommandLine) -> CommandLine:
    """A user with a key, and a project."""
    assert cli("keys", "generate").status == 0
    assert cli("init", "--project").status == 0
    return cli


@pytest.fixture
def tool(project: CommandLine) -> CommandLine:
    """A project with a tool that may write one folder, and start anything."""
    make(
        project,
        'sandbox: {write: ["{project}/out"], programs: any}\n',
        "echo x > out/made && ls out",
    )
    return project


def make(cli: CommandLine, block: str, script: str, name: str = "mine/make") -> None:
    path = cli.project / f".ai/tools/{name}.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{HEADER}{block}config: {{script: {json.dumps(script)}}}\n", "utf-8")
    done = cli("sign", f"tool:{name}", "--yes")
    assert done.status == 0, done.stderr


def test_rights_are_shown_by_every_command_that_shows_a_tool(tool: CommandLine) -> None:
    out = str(tool.project.resolve() / "out")
    effective = {"level": "declared", "read": "none", "write": [out], "network": "none"}
    effective |= {"programs": "any", "env": "none"}

    assert tool.json("sandbox", "show", "mine/make")["sandbox"] == effective
    assert tool.json("chain", "mine/make")["sandbox"] == effective
    assert tool.json("chain", "mine/make")["chain"][0]["sandbox"]["write"] == ["{project}/out"]
    assert tool.json("load", "tool:mine/make")["sandbox"]["write"] == ["{project}/out"]
    assert tool.json("run", "mine/make", "--dry-run")["metadata"]["sandbox"] == effective
    assert f"write    {out}" in tool("chain", "mine/make").stdout


def test_a_tool_without_a_block_is_shown_as_unrestricted(project: CommandLine) -> None:
    make(project, "", "true")

    assert "all that you may" in project("sandbox", "show", "mine/make").stdout


@linux
def test_folders_to_write_are_made_and_a_caller_can_only_narrow(tool: CommandLine) -> None:
    made = tool("run", "mine/make")
    narrowed = tool("run", "mine/make", "--sandbox", "write=none")
    by_object = tool("run", "mine/make", "--sandbox", '{"write": ["{tmp}/other"]}')
    off = tool("run", "mine/make", "--sandbox", "off")

    assert (made.status, off.status) == (0, 0)
    assert (tool.project / "out/made").read_text("utf-8") == "x\n"
    for refused in (narrowed, by_object):
        assert refused.status == 1
        assert "your policy or the caller refused: write " in refused.stderr


@pytest.mark.parametrize(
    ("word", "problem"),
    [
        ("loose", "--sandbox: expected off, declared, project, strict"),
        ("network", "--sandbox: expected off, declared"),
        ("network=some", "--sandbox.network: expected any, none, loopback"),
        ('{"netwrk": "none"}', "--sandbox.netwrk: no key of it; did you mean network?"),
        ("{", "--sandbox"),
    ],
)
def test_a_mistake_of_the_caller_runs_nothing(tool: CommandLine, word: str, problem: str) -> None:
    done = tool("run", "mine/make", "--sandbox", word)

    assert done.status in {2, 6}
    assert problem in done.stderr
    assert not (tool.project / "out").exists()


def test_levels_decide_about_items_without_a_block(project: CommandLine) -> None:
    make(project, "", "true")

    strict = project("run", "mine/make", "--sandbox", "strict")
    by_word = project.json("sandbox", "show", "mine/make", RYE_SANDBOX="project")

    assert strict.status == 4
    assert "rye sandbox suggest mine/make" in strict.stderr
    assert by_word["sandbox"]["network"] == "none"
    assert by_word["sandbox"]["write"][0] == str(project.project.resolve())


def policy(cli: CommandLine, text: str) -> None:
    path = cli.home / ".ai/config/sandbox/policy.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f'version: "1.0.0"\ncategory: sandbox\n{text}', "utf-8")


def test_the_policy_of_user_space_limits_all_items_and_some_more(tool: CommandLine) -> None:
    policy(
        tool,
        'limits: {network: ["*.corp.example:443"]}\n'
        'rules:\n  - {items: "rye/bash/*", limits: {write: ["{project}"]}}\n',
    )

    of_bash = tool.json("sandbox", "show", "rye/bash/bash")["sandbox"]
    of_make = tool.json("sandbox", "show", "mine/make")["sandbox"]

    assert of_bash["network"] == ["*.corp.example:443"]
    assert of_bash["write"] == [str(tool.project.resolve())]
    assert (of_make["network"], of_make["programs"]) == ("none", "any")


@pytest.mark.parametrize(
    "text",
    [
        "level: loose\n",
        "levels: strict\n",
        "limits: {network: [x]}\n",
        "rules: {items: x}\n",
        "rules: [{item: x}]\n",
        "rules: [{items: x, limit: {}}]\n",
    ],
)
def test_a_broken_policy_runs_nothing_and_is_not_signed(tool: CommandLine, text: str) -> None:
    policy(tool, text)

    ran = tool("run", "mine/make")
    path = tool.home / ".ai/config/sandbox/policy.yaml"
    signed = tool("sign", path, "--yes")

    assert ran.status in {2, 6}
    assert "sandbox/policy.yaml" in ran.stderr
    assert signed.status != 0


def test_doctor_reports_that_the_sandbox_is_off(project: CommandLine) -> None:
    policy(project, 'level: "off"\n')

    checks = {one["name"]: one for one in project.json("doctor")["checks"]}

    assert checks["rights"]["status"] == "warn"
    assert "not held" in checks["rights"]["message"]


def test_more_than_a_runtime_gives_is_not_signed(project: CommandLine) -> None:
    runtime = project.project / ".ai/tools/mine/quiet.yaml"
    runtime.parent.mkdir(parents=True)
    runtime.write_text(
        'version: "1.0.0"\ntool_type: runtime\nexecutor_id: rye/core/primitives/execute\n'
        "category: mine\ndescription: t\nsandbox: {network: none}\n"
        "config: {command: sh, args: [-c, 'true']}\n",
        "utf-8",
    )
    assert project("sign", "tool:mine/quiet", "--yes").status == 0
    tool = project.project / ".ai/tools/mine/loud.yaml"
    text = (
        'version: "1.0.0"\ntool_type: x\nexecutor_id: mine/quiet\ncategory: mine\ndescription: t\n'
    )
    tool.write_text(f"{text}sandbox: {{network: any}}\n", "utf-8")

    done = project("sign", "tool:mine/loud", "--yes")

    assert done.status == 6
    assert "sandbox.network: asks for more than mine/quiet gives" in done.stderr


@linux
def test_a_suggestion_lists_the_accesses_of_the_run(project: CommandLine) -> None:
    (project.project / "in.txt").write_text("text", "utf-8")
    (project.project / "out").mkdir()
    make(project, "", "cat in.txt > out/copy; echo $DEPLOY_TOKEN", "mine/copy")

    said = project.json("sandbox", "suggest", "mine/copy", DEPLOY_TOKEN="x")
    make(project, f"{said['block']}\n", "cat in.txt > out/copy; echo $DEPLOY_TOKEN", "mine/copy")
    (project.project / "out/copy").unlink()
    again = project("run", "mine/copy", DEPLOY_TOKEN="x")

    assert said["sandbox"] == {
        "read": ["{project}/in.txt"],
        "write": ["{project}/out"],
        "network": "none",
        "programs": ["cat"],
        "env": ["DEPLOY_TOKEN"],
    }
    assert (again.status, again.stdout) == (0, "x\n")
    assert (project.project / "out/copy").read_text("utf-8") == "text"


@linux
def test_a_trace_lists_all_refused_accesses(project: CommandLine) -> None:
    secret = project.home / "secret"
    secret.write_text("x", "utf-8")
    make(project, "sandbox: {programs: any}\n", f"cat {secret}; echo > {project.home}/new; true")

    events = project.json("run", "mine/make", "--trace")["trace"]

    refused = {
        (one["what"], Path(one["target"]).name) for one in events if one["step"] == "refused"
    }
    assert refused == {("read", "secret"), ("write", "new")}


# --- receipts -------------------------------------------------------------------------------------


def test_a_run_writes_a_receipt_on_request(tool: CommandLine) -> None:
    first = tool.json("run", "mine/make", "--receipt", "on")["metadata"]["receipt"]
    second = tool.json("run", "mine/make", RYE_RECEIPTS="full")["metadata"]["receipt"]
    none = tool.json("run", "mine/make")["metadata"]

    listed = tool.json("receipts", "list")
    assert [one["id"] for one in listed["receipts"]] == [second, first]
    assert "receipt" not in none
    assert tool.json("receipts", "list", "--item", "mine/other")["receipts"] == []
    assert tool.json("receipts", "list", "--limit", "1")["total"] == 2


def test_a_receipt_is_shown_and_exported(tool: CommandLine, tmp_path: Path) -> None:
    receipt = tool.json("run", "mine/make", "--receipt", "on")["metadata"]["receipt"]

    shown = tool("receipts", "show", receipt[:8])
    exported = tool("receipts", "export", receipt, "--out", tmp_path / "run.json")
    again = tool("receipts", "export", receipt, "--out", tmp_path / "run.json")
    slsa = tool.json("receipts", "export", receipt, "--format", "slsa")

    assert "item     tool:mine/make\n" in shown.stdout
    assert f"write    {tool.project.resolve() / 'out'}" in shown.stdout
    assert exported.status == 0
    assert json.loads((tmp_path / "run.json").read_text("utf-8"))["signatures"]
    assert (
        (tmp_path / "run.json.pub.pem").read_text("utf-8").startswith("-----BEGIN PUBLIC KEY-----")
    )
    assert again.status == 1
    assert slsa["envelope"]["payloadType"] == "application/vnd.in-toto+json"


def test_a_changed_log_is_reported_with_status_4(tool: CommandLine) -> None:
    assert tool("receipts", "verify").status == 0
    tool("run", "mine/make", "--receipt", "on")
    assert tool.json("receipts", "verify")["receipts"] == 1
    log = tool.home / ".ai/state/receipts/log.jsonl"
    log.write_bytes(log.read_bytes().replace(b'"sig":"', b'"sig":"AAAA'))

    done = tool("receipts", "verify")

    assert done.status == 4
    assert "line 1: " in done.stdout


def test_unknown_actions_and_ids_are_refused(tool: CommandLine) -> None:
    assert tool("run", "mine/make", "--receipt", "maybe").status == 2
    assert tool("receipts", "show", "ffff").status == 3


def exported(tool: CommandLine, tmp_path: Path) -> Path:
    receipt = tool.json("run", "mine/make", "--receipt", "on")["metadata"]["receipt"]
    path = tmp_path / "run.json"
    assert tool("receipts", "export", receipt, "--out", path).status == 0
    return path


def test_an_exported_receipt_is_verified_with_the_identity_of_its_signer(
    tool: CommandLine, tmp_path: Path
) -> None:
    path = exported(tool, tmp_path)
    signer = tool.json("receipts", "verify")["signed_by"][0]

    named = tool.json("receipts", "verify", path, "--key", signer)
    short = tool("receipts", "verify", path, "--key", signer[:16])
    known = tool.json("receipts", "verify", path)

    assert named["item"] == "tool:mine/make"
    assert named["signed_by"] == known["signed_by"] == signer
    assert f"key      {signer}" in short.stdout


def test_a_receipt_of_another_key_or_with_a_changed_byte_is_refused(
    tool: CommandLine, tmp_path: Path
) -> None:
    path = exported(tool, tmp_path)
    signer = tool.json("receipts", "verify")["signed_by"][0]
    statement = tmp_path / "run.json.key.json"
    kept, kept_statement = path.read_bytes(), statement.read_bytes()

    other = tool("receipts", "verify", path, "--key", "f" * 64)
    vague = tool("receipts", "verify", path, "--key", "abc")
    path.write_bytes(kept.replace(b'"payload": "e', b'"payload": "f'))
    changed = tool("receipts", "verify", path, "--key", signer)
    path.write_bytes(kept)
    statement.write_bytes(kept_statement.replace(b"signed_at", b"signed_by", 1))
    forged = tool("receipts", "verify", path, "--key", signer)
    statement.unlink()
    without = tool("receipts", "verify", path, "--key", signer)

    assert (other.status, "expected a receipt of the key" in other.stderr) == (4, True)
    assert vague.status == 2
    assert changed.status == 4
    assert (forged.status, "not valid" in forged.stderr) == (4, True)
    assert without.status == 4


def test_a_stranger_learns_the_key_of_a_receipt(tool: CommandLine, tmp_path: Path) -> None:
    path = exported(tool, tmp_path)
    signer = tool.json("receipts", "verify")["signed_by"][0]

    elsewhere = tool("receipts", "verify", path, "--user-space", tmp_path / "other")

    assert elsewhere.status == 4
    assert f"--key {signer}" in elsewhere.stderr


def test_a_chain_names_the_digest_of_the_file_and_of_the_signed_text(tool: CommandLine) -> None:
    first = tool.json("chain", "mine/make")["chain"][0]
    receipt = tool.json("run", "mine/make", "--receipt", "on")["metadata"]["receipt"]
    shown = tool("receipts", "show", receipt).stdout

    assert f"file sha256 {first['sha256']}" in shown
    assert f"signed text {first['integrity']}" in shown
    assert first["sha256"] != first["integrity"]
    text = tool("chain", "mine/make").stdout
    assert f"sha256  {first['sha256']}  (of the file)" in text
    assert f"signed  {first['integrity']}  (sha256 of the signed text)" in text
