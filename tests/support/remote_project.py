"""Projects that are pushed to a node in memory."""

from collections.abc import Mapping
from pathlib import Path

from ryeos.remote.apply import AppliedChanges
from ryeos.remote.conflicts import ConflictFolder, project_store
from ryeos.remote.link import Link
from ryeos.remote.local_heads import LocalHeads
from ryeos.remote.node import Node
from ryeos.remote.pins import Pins
from ryeos.remote.working_tree import WorkingTree
from tests.support.memory_node import MemoryNode

RULES = "sync: {include: ['src/', '*.txt']}\n"


class RemoteProject:
    """A project on a machine of its own, with a user space, and the link to a node."""

    def __init__(self, folder: Path, node: MemoryNode, *, name: str = "project") -> None:
        self.root, self.user = folder / name, folder / "home"
        self.memory = node
        self.name = "project"  # on the node
        self.progress: list[tuple[str, int, int]] = []
        self.warnings: list[str] = []
        self.reported: list[tuple[str, AppliedChanges]] = []
        (self.root / ".ai").mkdir(parents=True)
        (self.user / ".ai").mkdir(parents=True)
        self.write({".ai/config/cas/manifest.yaml": RULES})

    def write(self, files: Mapping[str, str | bytes | None]) -> None:
        """Write files, or remove them."""
        for path, content in files.items():
            target = self.root / path
            if content is None:
                target.unlink()
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content if isinstance(content, bytes) else content.encode())

    def write_user(self, path: str, text: str) -> None:
        """Write a file of the user space."""
        target = self.user / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")

    def read(self, path: str) -> str | None:
        """The text of a file, None if it is missing."""
        target = self.root / path
        return target.read_text(encoding="utf-8") if target.is_file() else None

    def files(self) -> dict[str, bytes]:
        """All files except the state."""
        return {
            path.relative_to(self.root).as_posix(): path.read_bytes()
            for path in sorted(self.root.rglob("*"))
            if path.is_file() and ".ai/state/" not in path.as_posix()
        }

    @property
    def link(self) -> Link:
        """The link to the node, as in a new process."""
        store = project_store(self.root / ".ai")
        return Link(
            node=Node(self.memory, Pins(self.user)),
            working_tree=WorkingTree(project=self.root, user=self.user, warn=self.warnings.append),
            store=store,
            heads=LocalHeads(store),
            conflicts=ConflictFolder(self.root / ".ai", self.memory.name),
            project_path=self.name,
            url="https://node.test",
            progress=lambda *step: self.progress.append(step),
            report_merged=lambda *merged: self.reported.append(merged),
        )
