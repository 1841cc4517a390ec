"""Three spaces, a key and a clock in a temporary folder, used by most tests."""

import os
import textwrap
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from lillux.process.model import Command, ProcessRunner
from lillux.signing import KeyPair, compute_key_fingerprint, generate_keypair
from lillux.values import replace
from ryeos.app.workspace import Rye
from ryeos.items.context import Context, LockMode, context_from
from ryeos.items.errors import Answer as Envelope
from ryeos.items.refs import PROJECT, USER, ItemRef, Kind, Space, parse_reference
from ryeos.run.functions import FunctionHost
from ryeos.run.model import ExecutionRequest, ExecutionResult
from ryeos.trust.approvals import parts_of
from ryeos.trust.bundles_publish import publish_bundle
from ryeos.trust.sign import Signer, SignReport
from ryeos.trust.sign_targets import SignTarget
from ryeos.trust.signature import SignedText, form_for
from ryeos.trust.signing_key import SigningKey
from ryeos.trust.store import document_path, write_key_document
from tests.support.scripted_process import Answer, ScriptedProcess

ROOT = Path(__file__).resolve().parents[2]
BUNDLE_SOURCE = ROOT / "bundle.ai"
NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
VERSION = "0.1.0"

# Variables that a tool needs, without those of this test process.
PLAIN_ENV = {name: os.environ[name] for name in ("PATH", "SYSTEMROOT") if name in os.environ}


def fixed_clock() -> datetime:
    """Always the same second."""
    return NOW


def publish(target: Path, source: Path = BUNDLE_SOURCE, bundle_id: str = "ryeos") -> Space:
    """A signed copy of a bundle's source, under a key of its own."""
    key = SigningKey(generate_keypair(), fixed_clock)
    return publish_bundle(source, target, bundle_id=bundle_id, version=VERSION, key=key)


class SpaceFolder:
    """Writes items into one space; every writer gives the file's path."""

    def __init__(self, workspace: "Workspace", space: Space) -> None:
        self.workspace = workspace
        self.space = space

    def write(self, relative: str, text: str | bytes) -> Path:
        """Write any file below ``.ai``."""
        path = self.space.ai / relative
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else textwrap.dedent(text).encode())
        return path

    def tool(
        self,
        item_id: str,
        body: str = "",
        *,
        executor: str | None = "rye/core/runtimes/python/script",
        tool_type: str = "python",
        version: str = "1.0.0",
        extra: str = "",
    ) -> Path:
        """Write a Python tool with a valid header."""
        category, _, name = item_id.rpartition("/")
        header = (
            f'"""Test tool {name}."""\n\n__version__ = "{version}"\n'
            f'__tool_type__ = "{tool_type}"\n__executor_id__ = {executor!r}\n'
            f'__category__ = "{category}"\n__description__ = "test tool"\n'
        )
        return self.write(f"tools/{item_id}.py", header + textwrap.dedent(extra + body))

    def yaml_tool(self, item_id: str, body: str, *, executor: str | None = None) -> Path:
        """Write a YAML tool; a shell command unless ``executor`` says otherwise."""
        category = item_id.rpartition("/")[0]
        executor = "rye/core/runtimes/bash/bash" if executor is None else executor
        header = (
            f'version: "1.0.0"\ntool_type: bash\nexecutor_id: {executor}\n'
            f'category: "{category}"\ndescription: test tool\n'
        )
        return self.write(f"tools/{item_id}.yaml", header + textwrap.dedent(body))

    def runtime(self, item_id: str, *, command: str = "${RYE_PYTHON}", extra: str = "") -> Path:
        """Write a runtime that runs a file with a command."""
        category = item_id.rpartition("/")[0]
        text = (
            f'version: "1.0.0"\ntool_type: runtime\nexecutor_id: rye/core/primitives/execute\n'
            f'category: "{category}"\ndescription: test runtime\n'
            "env_config:\n  interpreter:\n"
            "    {type: system_binary, binary: python3, var: RYE_PYTHON}\n"
            f'config:\n  command: "{command}"\n  args: ["{{tool_path}}"]\n'
        )
        return self.write(f"tools/{item_id}.yaml", text + textwrap.dedent(extra))

    def directive(self, item_id: str, body: str = "Do it.", inputs: str = "") -> Path:
        """Write a directive with a valid header."""
        category, _, name = item_id.rpartition("/")
        text = (
            f"# {name}\n\n```xml\n"
            f'<directive name="{name}" version="1.0.0">\n<metadata>\n'
            f"<description>test</description>\n<category>{category}</category>\n"
            f"<author>tester</author>\n</metadata>\n{inputs}\n</directive>\n```\n\n{body}\n"
        )
        return self.write(f"directives/{item_id}.md", text)

    def knowledge(self, item_id: str, body: str = "A fact.") -> Path:
        """Write a knowledge item with a valid header."""
        category, _, name = item_id.rpartition("/")
        text = (
            f"```yaml\nname: {name}\ntitle: {name}\nentry_type: reference\n"
            f'category: "{category}"\nversion: "1.0.0"\n```\n\n{body}\n'
        )
        return self.write(f"knowledge/{item_id}.md", text)

    def sign(self, path: Path, keypair: KeyPair | None = None) -> SignReport:
        """Sign one file of this space, with the workspace's key unless another is given."""
        return self.workspace.signer(keypair).sign(self.target(path), force=True)

    def sign_unchecked(self, path: Path, keypair: KeyPair | None = None) -> Path:
        """Sign a file without validation, like another program."""
        key = SigningKey(keypair or self.workspace.keypair, fixed_clock)
        kind = self.target(path).kind
        form = form_for(kind, path.suffix)
        body = SignedText(shebang="", signature=None, covers=None, body=path.read_text("utf-8"))
        path.write_text(key.signed_text(kind, body, form, str(path)), encoding="utf-8")
        return path

    def signed(self, relative: str, text: str | bytes) -> Path:
        """Write any file below ``.ai`` and sign it."""
        path = self.write(relative, text)
        self.sign(path)
        return path

    def signed_yaml(self, item_id: str, body: str = "", **header: Any) -> Path:  # noqa: ANN401
        """Write a YAML tool, a shell command, and sign it."""
        path = self.yaml_tool(item_id, body, **header)
        self.sign(path)
        return path

    def target(self, path: Path) -> SignTarget:
        """The file as something to sign."""
        kind = next(k for k in Kind if path.is_relative_to(self.space.directory(k)))
        relative = path.relative_to(self.space.directory(kind)).with_suffix("").as_posix()
        is_item = path.suffix in kind.suffixes
        ref = ItemRef(kind, relative) if is_item else None
        return SignTarget(path=path, kind=kind, space=self.space, ref=ref)

    def signed_tool(self, item_id: str, body: str = "", **header: Any) -> Path:  # noqa: ANN401
        """Write a Python tool and sign it."""
        path = self.tool(item_id, body, **header)
        self.sign(path)
        return path

    def trust(self, keypair: KeyPair, *, owner: str = "friend", covers_all: bool = False) -> Path:
        """Write a key document signed by the key itself."""
        key = SigningKey(keypair, fixed_clock)
        text = write_key_document(keypair.public_pem, owner, covers_all=covers_all)
        body = SignedText(shebang="", signature=None, covers=None, body=text)
        form = form_for(Kind.CONFIG, ".toml")
        path = document_path(self.space, compute_key_fingerprint(keypair.public_pem))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(key.signed_text(Kind.CONFIG, body, form, str(path)), encoding="utf-8")
        return path


class Workspace:
    """A user, a project and the standard bundle; the user's key is trusted in user space."""

    def __init__(
        self, folder: Path, bundles: tuple[Space, ...], env: Mapping[str, str] | None = None
    ) -> None:
        self.folder = folder
        self.home = folder / "home"
        self.project_path = folder / "project"
        (self.home / ".ai").mkdir(parents=True)
        (self.project_path / ".ai").mkdir(parents=True)
        self.bundles = bundles
        self.env = {**PLAIN_ENV, "HOME": str(self.home), **(env or {})}
        self.keypair = generate_keypair()
        self.warnings: list[str] = []
        self._opened: list[Rye] = []
        self.user = SpaceFolder(self, Space(USER, self.home))
        self.project = SpaceFolder(self, Space(PROJECT, self.project_path))
        self.user.trust(self.keypair, owner="local", covers_all=True)

    @property
    def fingerprint(self) -> str:
        """The fingerprint of the user's own key."""
        return compute_key_fingerprint(self.keypair.public_pem)

    def context(self, **changes: Any) -> Context:  # noqa: ANN401 - fields of Context
        """The context of this workspace."""
        context = context_from(
            self.env,
            cwd=self.project_path,
            project=str(self.project_path),
            bundles=self.bundles,
        )
        return replace(context, **changes)

    def rye(
        self,
        *,
        runner: ProcessRunner | None = None,
        functions: FunctionHost | None = None,
        **changes: Any,  # noqa: ANN401 - fields of Context
    ) -> Rye:
        """A fresh public API, as a new process would have it."""
        context = self.context(**changes)
        opened = Rye(context, runner=runner, functions=functions, warn=self.warnings.append)
        self._opened.append(opened)
        return opened

    def close(self) -> None:
        """End the warm workers of all that was opened, as the end of a process does."""
        for one in self._opened:
            one.close()

    @cached_property
    def warm(self) -> Rye:
        """One public API that is kept, as a server would have it."""
        return self.rye()

    def signer(self, keypair: KeyPair | None = None) -> Signer:
        """A signer with the user's key, or another."""
        key = SigningKey(keypair or self.keypair, fixed_clock)
        return Signer(key, self.rye().verifier)

    def run(self, item_id: str, **options: Any) -> ExecutionResult:  # noqa: ANN401
        """Run a tool in a fresh process's state; ``params`` are its parameters."""
        parameters = options.pop("params", {})
        lock_mode = options.pop("lock_mode", LockMode.STRICT)
        request = ExecutionRequest(item_id=item_id, parameters=parameters, **options)
        return self.rye(lock_mode=lock_mode).executor.execute(request)

    def approve(self) -> None:
        """Approve the keys and configuration of the project, like `rye trust`."""
        parts = tuple(parts_of(self.project_path, ("bin",)))
        key = SigningKey(self.keypair, fixed_clock)
        self.rye().approval.approve(parts, key, "2026-01-02T03:04:05Z")

    def command(self, item_id: str, **options: Any) -> Command:  # noqa: ANN401 - as `run`
        """The command of a run of a tool; no process is started, and no lockfile written."""
        scripted = ScriptedProcess(Answer(stdout=b"{}"))
        options.setdefault("use_lockfile", False)
        request = ExecutionRequest(item_id=item_id, parameters=options.pop("params", {}), **options)
        result = self.rye(runner=scripted).executor.execute(request)
        assert result.error is None, result.error
        return scripted.commands[-1]

    def render(self, ref: str, **params: Any) -> Envelope:  # noqa: ANN401 - inputs
        """Render a directive or a knowledge item."""
        reference = parse_reference(ref)
        return self.rye().execute(
            reference, ExecutionRequest(item_id=reference.id, parameters=params)
        )


MakeWorkspace = Callable[..., Workspace]
