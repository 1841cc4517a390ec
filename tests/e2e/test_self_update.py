"""``rye self update``: the built file looks for another one, and puts it in its place."""

import json
from hashlib import sha256
from pathlib import Path

import pytest

from lillux.signing import generate_keypair
from ryeos import __version__
from ryeos.trust.signing_key import SigningKey
from tests.support.built import BASE_PYTHON, Machine
from tests.support.http_servers import Server

pytestmark = pytest.mark.e2e

NEWER = b'import sys\nprint("rye 99.0.0" if sys.argv[1:] == ["version"] else "new")\n'


@pytest.fixture
def own(new_machine: Machine, built_pyz: Path) -> Path:
    """A copy of the built file, which runs from now on."""
    path = new_machine.home / "bin" / "rye.pyz"
    path.parent.mkdir()
    path.write_bytes(built_pyz.read_bytes())
    new_machine.rye = (BASE_PYTHON, path)
    return path


class Release:
    """A folder with a release, and the publisher's key as a file."""

    def __init__(self, folder: Path) -> None:
        self.key = SigningKey(generate_keypair())
        self.folder, self.pem = folder, folder.with_suffix(".pem")
        folder.mkdir()
        self.pem.write_bytes(self.key.public_pem)

    def put(self, data: bytes, version: str) -> None:
        (self.folder / "rye.pyz").write_bytes(data)
        (self.folder / "rye.pyz.sig").write_text(self.key.detached_line(data), "utf-8")
        hashes = [{"alg": "SHA-256", "content": sha256(data).hexdigest()}]
        listed = {"metadata": {"component": {"version": version, "hashes": hashes}}}
        (self.folder / "rye.pyz.cdx.json").write_text(json.dumps(listed), "utf-8")

    @property
    def words(self) -> tuple[str, ...]:
        return ("self", "update", str(self.folder), "--key", str(self.pem))


@pytest.fixture
def release(tmp_path: Path) -> Release:
    return Release(tmp_path / "release")


def test_a_newer_version_is_named_and_nothing_changes(
    new_machine: Machine, own: Path, release: Release
) -> None:
    release.put(NEWER, "99.0.0")
    before = own.read_bytes()

    answer = json.loads(new_machine.ask(*release.words, "-q", "--check", "--json"))
    said = new_machine.ask(*release.words, "-q", "--check")

    assert (answer["is_newer"], answer["offered_version"]) == (True, "99.0.0")
    assert said == f"rye 99.0.0 is there; this is {__version__}\n"
    assert own.read_bytes() == before


def test_the_same_file_is_nothing_newer(new_machine: Machine, own: Path, release: Release) -> None:
    release.put(own.read_bytes(), __version__)

    assert new_machine.ask(*release.words) == f"rye {__version__} is what {release.folder} has\n"


def test_an_address_is_a_place_of_releases_too(
    new_machine: Machine, own: Path, release: Release
) -> None:
    release.put(NEWER, "99.0.0")
    with Server(
        lambda asked: (
            asked.answer(200, file.read_bytes())
            if (file := release.folder / asked.path.rpartition("/")[2]).is_file()
            else asked.answer(404)
        )
    ) as server:
        words = ("self", "update", f"{server.url}/latest", "--key", str(release.pem))
        answer = json.loads(new_machine.ask(*words, "-q", "--check", "--json"))

    assert answer["is_newer"] is True
    assert own.is_file()


def test_an_update_takes_the_place_of_the_file_and_keeps_the_old_one(
    new_machine: Machine, own: Path, release: Release
) -> None:
    release.put(NEWER, "99.0.0")
    before = own.read_bytes()
    own.chmod(0o755)

    unasked = new_machine.run(*release.words)
    untouched = own.read_bytes()
    answer = json.loads(new_machine.ask(*release.words, "-q", "--yes", "--json"))

    assert (unasked.returncode, untouched) == (4, before)
    assert (answer["updated"], own.read_bytes()) == (True, NEWER)
    assert Path(answer["kept"]).read_bytes() == before
    signed = (release.folder / "rye.pyz.sig").read_bytes()
    assert own.with_name("rye.pyz.sig").read_bytes() == signed
    assert own.stat().st_mode & 0o777 == 0o755
    assert sorted(path.name for path in own.parent.iterdir()) == [
        "rye.pyz",
        "rye.pyz.cdx.json",
        "rye.pyz.sha256",
        "rye.pyz.sig",
    ]
    assert own.with_name("rye.pyz.sha256").read_text("utf-8").split()[0] == answer["offered_sha256"]


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (NEWER.replace(b"99.0.0", b"0.0.1"), "ROLLBACK"),
        (b"import nothing_of_this_name\n", "EXECUTION_FAILED"),
        (b"print('something else')\n", "EXECUTION_FAILED"),
    ],
)
def test_a_file_that_is_older_or_does_not_start_is_not_put_in_place(
    new_machine: Machine, own: Path, release: Release, data: bytes, code: str
) -> None:
    release.put(data, "99.0.0")  # which nothing signs
    before = own.read_bytes()

    refused = new_machine.run(*release.words, "--yes", "--json")

    assert json.loads(refused.stdout)["code"] == code
    assert own.read_bytes() == before
    assert [path.name for path in own.parent.iterdir()] == ["rye.pyz"]


def test_what_the_publisher_did_not_sign_is_refused(
    new_machine: Machine, own: Path, release: Release, tmp_path: Path
) -> None:
    release.put(NEWER, "99.0.0")
    other = Release(tmp_path / "other")
    foreign = new_machine.run("self", "update", str(release.folder), "--yes", "--json")
    named = new_machine.run(*release.words[:3], "--key", str(other.pem), "--yes", "--json")
    (release.folder / "rye.pyz").write_bytes(NEWER + b"# changed\n")
    changed = new_machine.run(*release.words, "--yes", "--json")

    codes = [json.loads(one.stdout)["code"] for one in (foreign, named, changed)]
    assert codes == ["UNTRUSTED_KEY", "UNTRUSTED_KEY", "INTEGRITY"]
    assert own.read_bytes() != NEWER


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), f"this is rye {__version__}; expected where releases are"),
        (("http://mirror.example.com/rye",), "expected a folder or an https address"),
        (("no/such/folder",), "expected the signature of a release, found none"),
    ],
)
def test_a_place_that_is_none_is_named(
    new_machine: Machine, own: Path, words: tuple[str, ...], said: str
) -> None:
    refused = new_machine.run("self", "update", *words, "--check")

    assert refused.returncode in (2, 3)
    assert said in refused.stderr
    assert own.is_file()
