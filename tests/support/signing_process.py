"""Signing in a separate process, for tests that limit, race or kill it."""

import subprocess
import sys
from pathlib import Path

from ryeos.items.refs import Space
from tests.support.workspace import ROOT, Workspace

# argv: user base, project base, private key file, item path, how often, limit of file sizes
_PROGRAM = """
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from lillux.errors import LilluxError
from lillux.key_files import load_keypair
from ryeos.trust.store import Approvals
from ryeos.items.refs import PROJECT, USER, Space, Spaces
from ryeos.trust.sign import Signer
from ryeos.trust.sign_targets import target_of_path
from ryeos.trust.signing_key import SigningKey
from ryeos.trust.store import TrustStore
from ryeos.trust.verify import Verifier

user, project, keys, item = map(Path, sys.argv[1:5])
times, limit = map(int, sys.argv[5:7])
spaces = Spaces(project=Space(PROJECT, project), user=Space(USER, user))
verifier = Verifier(spaces, TrustStore(spaces, Approvals(spaces.user.ai)))
seconds = iter(range(10**9))

def clock():
    if times == 0:  # the parent does something now, between our reading and our writing
        print("reading", flush=True)
        sys.stdin.readline()
    return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=next(seconds))

key = SigningKey(load_keypair(keys), clock)
target = target_of_path(item, spaces)
if limit:
    import resource
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
print("ready", flush=True)
if times != 0:
    sys.stdin.readline()
try:
    for _ in range(times or 1):
        Signer(key, verifier).sign(target, force=True)
        print("signed", flush=True)
except LilluxError as error:
    print(f"{type(error).__name__}: {error}", flush=True)
    print(error.hint, flush=True)
    sys.exit(error.exit_status)
"""


class SigningProcess:
    """A process that signs one file ``times`` times, and says so each time.

    It waits for `start`. With ``times`` 0 it signs once, says that it has read the file, and waits
    then. ``max_file_bytes`` makes larger writes fail as on a full disk.
    """

    def __init__(
        self,
        workspace: Workspace,
        path: Path,
        *,
        times: int = 1,
        max_file_bytes: int = 0,
        project: Space | None = None,
    ) -> None:
        space = project or workspace.project.space
        self._process = subprocess.Popen(
            [
                sys.executable,
                "-c",
                _PROGRAM,
                str(workspace.home),
                str(space.base),
                str(_key_folder(workspace)),
                str(path),
                str(times),
                str(max_file_bytes),
            ],
            cwd=ROOT,
            env=workspace.env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
        )
        assert self.line() == "ready"

    def line(self) -> str:
        """The next line that it says, ``""`` when it is gone."""
        assert self._process.stdout
        return self._process.stdout.readline().rstrip("\n")

    def start(self) -> None:
        """Let it go on."""
        assert self._process.stdin
        self._process.stdin.write("\n")
        self._process.stdin.flush()

    def kill(self) -> None:
        """Kill it."""
        self._process.kill()
        self._process.communicate()

    def finish(self) -> tuple[int, list[str]]:
        """Its status and the rest of its output."""
        output, _ = self._process.communicate()
        return self._process.returncode, output.splitlines()


def _key_folder(workspace: Workspace) -> Path:
    folder = workspace.home / ".ai" / "config" / "keys" / "signing"
    if not folder.exists():
        from lillux.key_files import save_keypair

        save_keypair(folder, workspace.keypair)
    return folder
