"""The command line, run in this process with a folder, an environment and input of its own."""

import io
import json
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from lillux.signing import KeyPair, compute_key_fingerprint, generate_keypair
from packing.checkout import tool_programs
from ryeos.cli.entry import main
from ryeos.items.refs import PROJECT, USER, Kind, Space
from ryeos.trust.bundles import BundleFolder
from ryeos.trust.signature import SignedText, form_for
from ryeos.trust.signing_key import SigningKey
from ryeos.trust.store import document_path, write_key_document
from tests.support.executables import make_program
from tests.support.workspace import PLAIN_ENV

ROOT = Path(__file__).resolve().parents[2]


def _programs() -> str | None:
    """The helper programs of the checkout, for the PATH of tools."""
    return tool_programs(ROOT)


@dataclass(frozen=True, slots=True)
class Done:
    """The result of a command."""

    status: int
    stdout: str
    stderr: str

    @property
    def json(self) -> Any:  # noqa: ANN401 - JSON
        """The one document on standard output."""
        return json.loads(self.stdout)


def run_here(
    program: Callable[[], int], argv: Sequence[str], env: Mapping[str, str], cwd: Path, stdin: bytes
) -> Done:
    """Run the ``main`` of a program to its end, in this process."""
    stdout = io.TextIOWrapper(io.BytesIO(), "utf-8")
    stderr = io.TextIOWrapper(io.BytesIO(), "utf-8", errors="backslashreplace")  # as Python's
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("os.environ", dict(env))
        patch.setattr(sys, "argv", list(argv))
        patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin), "utf-8"))
        patch.setattr(sys, "stdout", stdout)
        patch.setattr(sys, "stderr", stderr)
        patch.chdir(cwd)
        try:
            status = program()
        except SystemExit as ended:  # argparse ends `--help` and `--version` like this
            status = int(ended.code or 0)
    return Done(status, _written(stdout), _written(stderr))


class CommandLine:
    """``cli("keys", "show")`` is ``rye keys show`` in ``project``, for the user of ``home``.

    There is no key, and no ``.ai``, until a command or a test makes them.
    """

    def __init__(self, folder: Path, bundle: Space) -> None:
        self.home = folder / "home"
        self.project = folder / "project"
        self.home.mkdir(exist_ok=True)
        self.project.mkdir(exist_ok=True)
        self.bundle = bundle
        self.env = {**PLAIN_ENV, "HOME": str(self.home)}

    def __call__(
        self, *argv: str | Path, cwd: Path | None = None, stdin: bytes = b"", **env: str
    ) -> Done:
        """Run a command to its end."""

        def program() -> int:
            return main(bundle=BundleFolder(self.bundle.base, _programs))

        given = ["rye", *map(str, argv)]
        return run_here(program, given, {**self.env, **env}, cwd or self.project, stdin)

    def json(self, *argv: str | Path, **options: Any) -> Any:  # noqa: ANN401 - JSON
        """The envelope of a command that succeeds."""
        done = self(*argv, "--json", **options)
        assert done.status == 0, done.stdout
        return done.json

    @property
    def user_space(self) -> Space:
        """The user space."""
        return Space(USER, self.home)

    @property
    def project_space(self) -> Space:
        """The project space."""
        return Space(PROJECT, self.project)

    @property
    def key_directory(self) -> Path:
        """The folder of the private key."""
        return self.user_space.ai / "config" / "keys" / "signing"


_PROGRAM = """\
import sys
sys.path.insert(0, {root!r})
from pathlib import Path
from ryeos.trust.bundles import BundleFolder
from ryeos.cli.entry import main
sys.exit(main(bundle=BundleFolder(Path({bundle!r}))))
"""


def program_of(cli: CommandLine, folder: Path) -> Path:
    """A program ``rye`` in a folder ``bin``: a process of its own, for what has a terminal."""
    source = folder / "rye.py"
    source.write_text(_PROGRAM.format(root=str(ROOT), bundle=str(cli.bundle.base)), "utf-8")
    # No first line could name an interpreter whose path has a blank.
    command = f'exec {shlex.quote(sys.executable)} {shlex.quote(str(source))} "$@"\n'
    return make_program(folder / "bin" / "rye", command)


def _written(stream: io.TextIOWrapper) -> str:
    stream.flush()
    buffer = stream.buffer
    assert isinstance(buffer, io.BytesIO)
    return buffer.getvalue().decode("utf-8")


def key_document(
    keypair: KeyPair, signer: KeyPair | None, *, owner: str = "ada", covers_all: bool = False
) -> str:
    """The text of a key's document, signed by ``signer`` or unsigned."""
    text = write_key_document(keypair.public_pem, owner, covers_all=covers_all)
    if signer is None:
        return text
    body = SignedText(shebang="", signature=None, covers=None, body=text)
    return SigningKey(signer).signed_text(Kind.CONFIG, body, form_for(Kind.CONFIG, ".toml"), "")


def place_document(space: Space, keypair: KeyPair, text: str) -> Path:
    """Write a key's document into a space."""
    path = document_path(space, compute_key_fingerprint(keypair.public_pem))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


@dataclass(frozen=True, slots=True)
class Stranger:
    """Another person, with a separate key."""

    keypair: KeyPair

    @classmethod
    def appear(cls) -> "Stranger":
        """A new stranger."""
        return cls(generate_keypair())

    @property
    def fingerprint(self) -> str:
        """The fingerprint of their key."""
        return compute_key_fingerprint(self.keypair.public_pem)

    def pem_file(self, folder: Path) -> Path:
        """Their public key in a file."""
        path = folder / "stranger.pem"
        path.write_bytes(self.keypair.public_pem)
        return path
