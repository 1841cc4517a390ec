"""A user whose key is always the same, and names for what differs between two runs.

Golden files hold for the Python and the system that they were recorded on: argparse, tomllib and
the operating system have other words elsewhere.
"""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from lillux.signing import compute_key_fingerprint
from rye_services.operations.cli import main as node_main
from ryeos.items.refs import Space
from ryeos.trust.bundles import BundleFolder
from tests.support.command_line import CommandLine, Done, run_here
from tests.support.golden import Names
from tests.support.signed_files import seed_keypair

OWN = seed_keypair(0)
IS_RECORDED_HERE = sys.platform == "linux" and sys.version_info[:2] == (3, 11)


def pytest_runtest_setup() -> None:
    """Skip where the words of other programs differ."""
    if not IS_RECORDED_HERE:
        pytest.skip("golden files are of Python 3.11 on Linux")


@pytest.fixture
def cli(tmp_path: Path, bundle: Space) -> CommandLine:
    """The command line of a user without a key, in an empty folder, 80 columns wide."""
    made = CommandLine(tmp_path, bundle)
    made.env |= {"COLUMNS": "80", "TZ": "UTC", "LANG": "C.UTF-8", "USER": "ada"}
    return made


@pytest.fixture
def signer(cli: CommandLine, tmp_path: Path) -> CommandLine:
    """The same, with a key that is always the same."""
    pem = tmp_path / "own.pem"
    pem.write_bytes(OWN.private_pem)
    pem.chmod(0o600)
    done = cli("keys", "import", pem, "--owner", "ada")
    assert done.status == 0, done.stderr
    return cli


@pytest.fixture
def names(cli: CommandLine, tmp_path: Path, bundle: Space) -> Names:
    """Names for the folders and keys of this test."""
    return Names(
        {
            cli.project: "<project>",
            cli.home: "<home>",
            tmp_path: "<tmp>",
            bundle.base: "<bundle>",
            compute_key_fingerprint(bundle.pinned_pem or b""): "<bundle key>",
            compute_key_fingerprint(OWN.public_pem): "<own key>",
        }
    )


@pytest.fixture
def node(cli: CommandLine, tmp_path: Path) -> Callable[..., Done]:
    """The program ``rye-node``, in an empty folder."""

    def run(*words: str) -> Done:
        def program() -> int:
            return node_main(list(words), BundleFolder(cli.bundle.base))

        return run_here(program, ["rye-node", *words], cli.env, tmp_path, b"")

    return run
