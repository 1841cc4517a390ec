"""Every write says from which folder it starts, or is in a module that writes elsewhere."""

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
WRITES = frozenset(
    {"write_atomic", "prepare_write", "create_file", "make_directory", "remove_file"}
    | {"open_file", "locked", "save_lockfile"}
)
PLAIN = frozenset(
    {"write_text", "write_bytes", "mkdir", "makedirs", "touch", "symlink_to", "hardlink_to"}
    | {"unlink", "rmdir", "rename", "rmtree", "copytree", "copyfile"}
)
USER, TEMPORARY, CACHE = "user space", "a new temporary folder", "the cache of the user"
ELSEWHERE: Mapping[str, str] = {
    "agent/ledger.py": USER,
    "agent/records.py": USER,
    "app/agent_setup.py": USER,
    "app/bundles.py": "the folder that a person named with --out",
    "app/imports.py": f"{USER}: .env",
    "app/scratch_projects.py": TEMPORARY,
    "app/script_help.py": TEMPORARY,
    "app/proposals.py": USER,
    "app/skills.py": "the folder that a person named with --to, then below it",
    "app/review.py": USER,
    "cli/keys.py": "the key folder, user space, a file that a person named",
    "cli/program.py": "the folder that a person named",
    "cli/receipts.py": "the file that a person named",
    "cli/remote_teams.py": "a project on a node, which has another name then",
    "cli/self_update.py": "beside the program itself",
    "cli/test.py": "the file that a person named with --junit",
    "graph/run_places.py": "the folder of user space, before anything below it",
    "items/context.py": CACHE,
    "items/places.py": USER,
    "items/replaced.py": USER,
    "items/path_links.py": CACHE,
    "remote/apply.py": "by descriptors of its own, from the project down",
    "remote/new_files.py": "by descriptors of its own, from the project down",
    "remote/conflicts.py": "removes what it wrote, below a folder that it has walked",
    "remote/incoming.py": "a folder that `own_folder` has walked; files named by digest",
    "remote/local_secrets.py": USER,
    "remote/pins.py": USER,
    "remote/bundle_installs.py": USER,
    "remote/settle.py": "removes empty folders",
    "run/engine.py": "the method of this name, which says it",
    "run/held_folder.py": "a private folder of one run",
    "run/installed.py": CACHE,
    "run/package_installer.py": CACHE,
    "run/programs.py": USER,
    "run/receipt_key.py": USER,
    "run/receipt_log.py": USER,
    "run/server_packages.py": CACHE,
    "run/threads/place.py": "the folder of user space, before anything below it",
    "run/threads/seals.py": "the key, in user space",
    "run/silent_servers.py": CACHE,
    "search/catalog.py": CACHE,
    "sync/checkout.py": "the workspace of a run on a node",
    "sync/stat_table.py": CACHE,
    "sync/tree_files.py": "the workspace of a run on a node",
    "trust/approvals.py": USER,
    "trust/installed_bundles.py": USER,
    "trust/bundles_publish.py": TEMPORARY,
    "trust/held_programs.py": CACHE,
    "trust/keys.py": "the key folder",
    "trust/skill_files.py": "by descriptors of its own, from the skill's folder down",
    "trust/user_config_file.py": f"{USER}: settings that are signed",
    "trust/store.py": USER,
    "trust/versions.py": USER,
}


def writes(path: Path) -> Iterator[tuple[int, str]]:
    """Calls that write by a path and do not say from which folder."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if not isinstance(node, ast.Call):
            continue
        called = node.func
        is_method = isinstance(called, ast.Attribute)
        name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
        says = any(keyword.arg == "within" for keyword in node.keywords)
        if (name in WRITES and not says) or (name in PLAIN and is_method):
            yield node.lineno, name


def test_a_write_starts_at_the_project_or_is_known_to_be_elsewhere() -> None:
    found = {
        path.relative_to(ROOT / "ryeos").as_posix(): list(writes(path))
        for path in sorted((ROOT / "ryeos").rglob("*.py"))
    }
    unknown = {name: calls for name, calls in found.items() if calls and name not in ELSEWHERE}

    assert unknown == {}, "pass within=space.within, or say above where the module writes"
    assert [name for name in ELSEWHERE if name in found and not found[name]] == []


def test_a_write_without_a_folder_is_found(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text(
        "write_atomic(path, b'')\nwrite_atomic(path, b'', within=root)\npath.unlink()\n", "utf-8"
    )

    assert list(writes(module)) == [(1, "write_atomic"), (3, "unlink")]
