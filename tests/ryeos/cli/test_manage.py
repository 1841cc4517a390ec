"""``rye list``, ``info``, ``edit``, ``mv``, ``rm``, ``status``."""

import hashlib
from pathlib import Path

import pytest

from ryeos.cli.manage import moved_text
from ryeos.items.refs import ItemRef, Kind
from tests.support.command_line import CommandLine
from tests.support.replaced import kept_copies

GRAPH = """\
version: "1.0.0"
tool_type: graph
executor_id: rye/core/runtimes/state-graph/runtime
category: mine
description: Uses a tool
permissions: [rye.execute.tool.mine.hello]
config:
  start: a
  nodes:
    a: {action: {item_id: "tool:mine/hello", params: {name: Ada}}, next: b}
    b: {type: return}
"""


@pytest.fixture
def shop(signer: CommandLine) -> CommandLine:
    """A project with a signed tool, a graph that uses it, and a directive."""
    signer("init", "--project")
    for arguments in (["tool", "mine/hello", "--language", "yaml"], ["directive", "mine/review"]):
        assert signer("new", *arguments).status == 0
    flow = signer.project / ".ai/tools/mine/flow.yaml"
    flow.write_text(GRAPH, encoding="utf-8")
    assert signer("sign", "tool:mine/**", "directive:mine/review", "--yes").status == 0
    return signer


def tools(shop: CommandLine) -> Path:
    return shop.project / ".ai/tools"


def test_items_are_listed_with_their_state(shop: CommandLine) -> None:
    (tools(shop) / "mine/hello.yaml").write_text("changed", encoding="utf-8")

    rows = shop.json("list")["items"]

    assert [(row["ref"], row["state"]) for row in rows] == [
        ("tool:mine/flow", "signed"),
        ("tool:mine/hello", "unsigned"),
        ("directive:mine/review", "signed"),
    ]
    assert shop.json("list", "nowhere")["items"] == []
    assert len(shop.json("list", "--all", "--type", "tool")["items"]) > 20


def test_a_list_shows_who_signed_and_can_be_of_one_signer(shop: CommandLine) -> None:
    (tools(shop) / "mine/hello.yaml").write_text("changed", encoding="utf-8")
    own = shop.json("keys", "show")["fingerprint"]

    shown = shop("list", "mine", "--signer").stdout.splitlines()
    of_one = shop.json("list", "--signer", f"fp:{own}")["items"]

    assert [line.split()[3] for line in shown] == [own, "-", own]
    assert [row["ref"] for row in of_one] == ["tool:mine/flow", "directive:mine/review"]
    assert of_one[0]["fingerprint"] == own
    assert [r["ref"] for r in shop.json("list", "--signer", "local")["items"]] == [
        "tool:mine/flow",
        "directive:mine/review",
    ]
    assert shop.json("list", "--signer", "0" * 16)["items"] == []
    assert len(shop.json("list", "--all", "--type", "tool", "--signer", "ryeos")["items"]) > 20


def test_info_says_which_digest_is_of_the_file_and_which_of_the_signed_text(
    shop: CommandLine,
) -> None:
    data = (tools(shop) / "mine/hello.yaml").read_bytes()
    found = shop.json("info", "mine/hello")

    text = shop("info", "mine/hello").stdout

    assert found["file_sha256"] == hashlib.sha256(data).hexdigest()
    assert f"sha256:   {found['file_sha256']}  (of the file)\n" in text
    assert f"signed:   {found['sha256']}  (sha256 of the signed text)\n" in text
    assert found["file_sha256"] != found["sha256"]


def test_a_folder_without_a_project_says_so_first(cli: CommandLine) -> None:
    assert cli("status", cwd=cli.home).stdout.startswith("no project here: ")
    assert "no project here" in cli("list", cwd=cli.home).stderr


def test_one_item_is_shown_with_its_signer_rights_and_inputs(shop: CommandLine) -> None:
    text = shop("info", "mine/hello").stdout

    assert text.startswith("ref:      tool:mine/hello\n")
    assert "network  none" in text
    assert '- name (string, optional, default "world"): Who is greeted' in text


def test_an_item_moves_with_its_category_and_its_references(shop: CommandLine) -> None:
    assert shop("run", "mine/hello", "-q").status == 0  # it has a lockfile now
    locked = shop.project / ".ai/lockfiles/tools/mine/hello.lock.json"
    assert locked.is_file()

    moved = shop.json("mv", "mine/hello", "shop/greet")

    text = (tools(shop) / "shop/greet.yaml").read_text("utf-8")
    assert 'category: "shop"' in text
    assert "rye:signed" not in text
    assert Path(moved["kept"]).read_text("utf-8").startswith("# rye:signed:")
    assert not locked.exists()
    followed = shop.project / ".ai/lockfiles/tools/shop/greet.lock.json"
    assert '"shop/greet"' in followed.read_text("utf-8")
    flow = (tools(shop) / "mine/flow.yaml").read_text("utf-8")
    assert '"tool:shop/greet"' in flow
    assert "rye.execute.tool.shop.greet" in flow
    assert "mine/hello" not in flow
    assert len(kept_copies(shop.user_space.ai, tools(shop) / "mine/flow.yaml")) == 1
    assert shop("sign", "tool:shop/greet", "tool:mine/flow").status == 0
    locks = shop.json("lock", "list")["lockfiles"]
    assert ("shop/greet", True) in [(one["item_id"], one["holds"]) for one in locks]
    assert shop("run", "mine/flow", "-q").status == 0


def test_a_moved_item_that_hides_one_of_a_bundle_is_reported(shop: CommandLine) -> None:
    done = shop("mv", "mine/hello", "rye/bash/bash")

    assert done.status == 0
    assert "tool:rye/bash/bash of system:ryeos is hidden by it from now on" in done.stderr


def test_an_empty_part_of_a_list_does_not_say_that_there_are_no_items(
    shop: CommandLine,
) -> None:
    for words in (("nowhere",), ("--space", "user"), ("--type", "knowledge")):
        assert "no items there; all of them: rye list" in shop("list", *words).stderr


def test_the_cases_and_the_packages_of_a_tool_move_with_it(shop: CommandLine) -> None:
    for name, text in (
        ("hello.test", "category: mine\ndescription: Cases of tool:mine/hello\n"),
        ("hello.packages", "category: mine\ndescription: The packages of tool:mine/hello\n"),
    ):
        head = 'version: "1.0.0"\ntool_type: library\nexecutor_id: null\n'
        (tools(shop) / f"mine/{name}.yaml").write_text(head + text, "utf-8")

    assert shop("mv", "mine/hello", "shop/greet").status == 0

    moved = {path.name for path in (tools(shop) / "shop").iterdir()}
    assert moved == {"greet.yaml", "greet.test.yaml", "greet.packages.yaml"}
    listed = (tools(shop) / "shop/greet.packages.yaml").read_text("utf-8")
    assert "category: shop" in listed
    assert "tool:shop/greet" in listed
    assert shop("rm", "shop/greet", "--yes").status == 0
    assert list((tools(shop) / "shop").iterdir()) == []
    for name in moved:
        assert len(kept_copies(shop.user_space.ai, tools(shop) / "shop" / name)) == 1


def test_no_file_moves_where_the_place_of_the_cases_is_taken(shop: CommandLine) -> None:
    text = 'version: "1.0.0"\ntool_type: library\nexecutor_id: null\ncategory: mine\n'
    for path in (tools(shop) / "mine/hello.test.yaml", tools(shop) / "shop/greet.test.yaml"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, "utf-8")

    done = shop("mv", "mine/hello", "shop/greet")

    assert (done.status, "an item of this id" in done.stderr) == (1, True)
    assert (tools(shop) / "mine/hello.yaml").is_file()
    assert [path.name for path in (tools(shop) / "shop").iterdir()] == ["greet.test.yaml"]


def test_a_dry_run_moves_nothing(shop: CommandLine) -> None:
    report = shop.json("mv", "mine/hello", "shop/greet", "--dry-run")

    assert len(report["references"]) == 1
    assert (tools(shop) / "mine/hello.yaml").is_file()
    assert not (tools(shop) / "shop").exists()


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["mine/hello", "mine/flow"], 1, "an item of this id"),
        (["mine/hello", "mine/hello"], 2, "that is its name"),
        (["mine/hello", "directive:mine/x"], 2, "expected a tool"),
        (["mine/hello", "../out"], 2, ""),
        (["rye/bash/bash", "mine/bash"], 2, ""),
        (["mine/nowhere", "mine/x"], 3, "not found"),
    ],
)
def test_an_impossible_move_is_refused_and_changes_nothing(
    arguments: list[str], status: int, said: str, shop: CommandLine
) -> None:
    before = {path: path.read_bytes() for path in (shop.project / ".ai").rglob("*.yaml")}

    refused = shop("mv", *arguments)

    assert refused.status == status, refused.stderr
    assert said in refused.stderr
    assert {p: p.read_bytes() for p in (shop.project / ".ai").rglob("*.yaml")} == before


def test_an_item_that_is_removed_keeps_its_text(shop: CommandLine) -> None:
    refused = shop("rm", "mine/hello", "--no-input")
    removed = shop.json("rm", "mine/hello", "--yes")

    assert refused.status == 4
    assert removed["named_by"] == ["tool:mine/flow"]
    assert Path(removed["kept"]).is_file()
    assert not (tools(shop) / "mine/hello.yaml").exists()
    assert shop("rm", "rye/bash/bash", "--yes").status == 2


def test_an_editor_opens_the_file(shop: CommandLine, tmp_path: Path) -> None:
    editor = tmp_path / "editor"
    editor.write_text("#!/bin/sh\necho '# more' >> \"$1\"\n", encoding="utf-8")
    editor.chmod(0o755)

    report = shop.json("edit", "mine/hello", EDITOR=str(editor))
    signed = shop.json("edit", "mine/hello", "--sign", EDITOR=str(editor))
    without = shop("edit", "mine/hello", EDITOR="", VISUAL="")

    assert (report["changed"], signed["signed"]) == (True, True)
    assert shop("run", "mine/hello", "-q").status == 0
    assert without.status == 2
    assert "EDITOR=nano rye edit tool:mine/hello" in without.stderr


def test_status_lists_unsigned_items_proposals_and_runs(shop: CommandLine) -> None:
    (tools(shop) / "mine/hello.yaml").write_text("changed", encoding="utf-8")

    report = shop.json("status")

    assert report["not_signed"] == [{"ref": "tool:mine/hello", "state": "unsigned"}]
    assert (report["items"], report["proposals"], report["running"]) == (3, [], [])


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ('__category__ = "mine"\n', '__category__ = "shop/deep"\n'),
        ("# category: mine\n", "# category: shop/deep\n"),
        ('const __category__ = "mine";\n', 'const __category__ = "shop/deep";\n'),
        ("category: mine\nx: mine\n", "category: shop/deep\nx: mine\n"),
        ("category: mine/other\n", "category: mine/other\n"),
        ('"category": "mine",\n', '"category": "shop/deep",\n'),
    ],
)
def test_the_category_of_a_header_follows(text: str, wanted: str) -> None:
    old, new = ItemRef(Kind.TOOL, "mine/x"), ItemRef(Kind.TOOL, "shop/deep/y")

    assert moved_text(text, old, new) == wanted


def test_the_name_of_a_directive_follows() -> None:
    old, new = ItemRef(Kind.DIRECTIVE, "mine/old"), ItemRef(Kind.DIRECTIVE, "mine/new")

    text = '# old\n<directive name="old" version="1">\n<category>mine</category>\n'

    assert '<directive name="new" version="1">' in moved_text(text, old, new)


def test_pinned_tools_are_listed_and_pinned_again(shop: CommandLine) -> None:
    assert shop("run", "mine/flow", "-q").status == 0
    before = shop.json("lock", "list")["lockfiles"]
    path = tools(shop) / "mine/hello.yaml"
    path.write_text(path.read_text("utf-8") + "# more\n", encoding="utf-8")

    changed = shop.json("lock", "list")["lockfiles"]
    failed = shop("lock", "update", "--all", "--json")
    shop("sign", "tool:mine/hello")
    healed = shop.json("lock", "update", "--all")

    assert [(one["item_id"], one["holds"]) for one in before] == [
        ("mine/flow", True),
        ("mine/hello", True),
    ]
    assert [one["item_id"] for one in changed if not one["holds"]] == ["mine/hello"]
    assert (failed.status, failed.json["failed"]) == (5, ["mine/hello"])
    assert healed == {"status": "success", "updated": [], "failed": []}  # signing had done it
    assert shop("lock", "update").status == 2
    assert shop("lock", "update", "mine/hello", "--all").status == 2


def test_a_lockfile_of_an_older_program_is_listed_too(shop: CommandLine) -> None:
    older = shop.project / ".ai/lockfiles/mine/hello@1.0.0.lock.json"
    older.parent.mkdir(parents=True, exist_ok=True)
    older.write_text("{}", encoding="utf-8")

    assert [one["item_id"] for one in shop.json("lock", "list")["lockfiles"]] == ["mine/hello"]


def test_a_kept_text_is_never_written_over(shop: CommandLine) -> None:
    flow = tools(shop) / "mine/flow.yaml"
    signed = flow.read_bytes()

    shop.json("mv", "mine/hello", "shop/greet")
    between = flow.read_bytes()
    shop.json("mv", "shop/greet", "shop/hello")

    kept = kept_copies(shop.user_space.ai, flow)
    assert [one.read_bytes() for one in kept] == [signed, between]


@pytest.mark.parametrize("word", ["add", "create", "pull", "upgrade", "watch"])
def test_commands_of_other_programs_get_a_suggestion(word: str, cli: CommandLine) -> None:
    refused = cli(word)

    assert refused.status == 2
    assert f"unknown command '{word}'" in refused.stderr
    assert "did you mean: rye " in refused.stderr


@pytest.mark.parametrize("word", ["frobnicate", "xyz", "teleport"])
def test_a_word_that_is_like_no_command_gets_no_suggestion(word: str, cli: CommandLine) -> None:
    assert "did you mean" not in cli(word).stderr
