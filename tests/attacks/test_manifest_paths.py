"""Foreign manifests, whose paths would become files outside of the tree, or of other users."""

from pathlib import Path

import pytest

from lillux.canonical_json import compute_integrity
from ryeos.sync.objects import SourceManifest
from ryeos.sync.paths import UnsafeManifestError, require_safe_paths, safe_target
from tests.support.node import Node
from tests.support.node_sync import history, push, push_tree, tree

pytest_plugins = ("tests.support.node",)
FILES = {".ai/tools/probe/echo.py": b"print(1)\n", "src/x.py": b"x = 1\n"}

HOSTILE = {
    "nothing": "",
    "absolute": "/etc/passwd",
    "up": "../x",
    "up from within": "a/../../x",
    "up at the end": "a/..",
    "here": "./x",
    "an empty segment": "a//b",
    "a slash at the end": "a/",
    "a null": "a\0b",
    "a line feed": "a\nb",
    "an escape": "a\x1b[2Jb",
    "a control character of C1": "a\x9bb",
    "a backslash": "..\\x",
    "a drive": "C:/x",
    "a drive in the middle": "a/C:x",
    "a stream": "x.py:hidden",
    "a share": "//server/share/x",
    "a device": "NUL",
    "a device with a suffix": "a/con.txt",
    "a device with a blank": "aux .py",
    "a dot at the end": "a./b",
    "a blank at the end": "a /b",
    "three dots": ".../x",
    "the state of runs": ".ai/state/objects/refs/graphs/x.json",
    "the folder of the state itself": ".ai/state",
    "the state in other case": ".AI/State/x",
    "the state under its short name": "AI~1/state/x",
    "the state with something unseen in it": ".ai/sta\u200cte/x",
    "hooks of the repository": ".git/hooks/pre-commit",
    "the repository in other case": ".GIT/config",
    "the repository under its short name": "GIT~1/config",
    "text that runs backwards": "a\u202egpj.py",
    "half a character": "a\ud800",
    "a line separator": "a\u2028b",
    "a name too long": "x" * 256,
    "a name too long in bytes": "\u00e9" * 128,
    "a path too long": "/".join(["d"] * 1500),
}


@pytest.mark.parametrize("path", HOSTILE.values(), ids=HOSTILE.keys())
def test_no_manifest_may_have_an_unsafe_path(path: str) -> None:
    with pytest.raises(UnsafeManifestError):
        require_safe_paths(["fine", path])


@pytest.mark.parametrize("path", HOSTILE.values(), ids=HOSTILE.keys())
def test_no_file_is_written_to_an_unsafe_path(tmp_path: Path, path: str) -> None:
    with pytest.raises(UnsafeManifestError):
        safe_target(tmp_path, path)


@pytest.mark.parametrize(
    "changes",
    [
        {"files": {"../../evil": "1" * 64}},
        {"files": {".git/hooks/post-checkout": "1" * 64}},
        {"items": {".ai/config/keys/signing/private_key.pem": "1" * 64}},
        {"files": {"a": "1" * 63}},
        {"files": {"a": "../" * 21 + "a"}},
    ],
)
def test_no_change_of_a_manifest_brings_an_unsafe_path(
    shared_node: Node, changes: dict[str, dict[str, str]]
) -> None:
    user = shared_node.user()
    snapshot = push_tree(user, FILES)
    made = SourceManifest(
        "project",
        {**tree(FILES).manifest.items, **changes.get("items", {})},
        {**tree(FILES).manifest.files, **changes.get("files", {})},
    )

    reply = push(user, compute_integrity(made.as_object()), snapshot, changes=changes)

    assert reply.status == 400, reply.json
    assert history(user)[0]["_hash"] == snapshot
