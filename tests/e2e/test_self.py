"""``rye self``: the built file about itself."""

import json
import shutil
from hashlib import sha256
from pathlib import Path
from zipfile import ZipFile

import pytest

from lillux.signing import compute_key_fingerprint, generate_keypair
from packing.crates import NOTICES
from tests.support.built import BASE_PYTHON, Machine, run
from tests.support.environments import mounted
from tests.support.programs import require_program

pytestmark = pytest.mark.e2e

ECHO = ("run", "rye/bash/bash", "command=echo hi")
BESIDE = (".sha256", ".sig")


@pytest.fixture
def machine(new_machine: Machine) -> Machine:
    return new_machine


@pytest.fixture
def downloaded(machine: Machine, built_pyz: Path) -> Path:
    """A copy of the built file with the files beside it, which runs from now on."""
    folder = machine.home / "downloads"
    folder.mkdir()
    for suffix in ("", *BESIDE, ".cdx.json"):
        shutil.copy(f"{built_pyz}{suffix}", folder)
    machine.rye = (BASE_PYTHON, folder / "rye.pyz")
    return folder / "rye.pyz"


def beside(path: Path, suffix: str) -> Path:
    """``rye.pyz.sig`` for ``rye.pyz``."""
    return path.with_name(path.name + suffix)


# --- rye self where -------------------------------------------------------------------------------


def test_where_lists_the_file_its_cache_and_its_compiled_modules(
    machine: Machine, built_pyz: Path
) -> None:
    report = json.loads(machine.ask("self", "where", "--json"))

    cache = str(machine.cache)
    assert {name: report[name] for name in ("program", "modules", "cache", "start")} == {
        "program": str(built_pyz),
        "modules": str(built_pyz),
        "cache": cache,
        "start": "code",
    }
    assert report["bundle"].startswith(f"{cache}/bundle/")
    assert report["cache_folders"] == {kind: f"{cache}/{kind}" for kind in ("bundle", "native")}
    assert [native["loaded"].startswith(cache) for native in report["natives"].values()] == [
        True
    ] * 3


# --- verify ---------------------------------------------------------------------------------------


def test_a_file_is_verified_with_the_files_beside_it(machine: Machine, downloaded: Path) -> None:
    ended = machine.run("self", "verify", "--json")

    answer = json.loads(ended.stdout)
    assert (answer["status"], answer["path"]) == ("success", str(downloaded))
    assert answer["sha256"] == beside(downloaded, ".sha256").read_text("utf-8").split()[0]
    assert answer["sha256_file"] == str(beside(downloaded, ".sha256"))
    assert ended.returncode == 0


def test_a_file_verified_by_its_own_key_gets_a_warning(machine: Machine, downloaded: Path) -> None:
    ended = machine.run("self", "verify")

    assert ended.stderr.startswith("this file was checked with the key that it carries itself;")
    assert ended.returncode == 0


def test_another_copy_is_checked_with_the_key_of_this_one(
    machine: Machine, downloaded: Path
) -> None:
    other = machine.home / "other" / "rye"
    other.parent.mkdir()
    for suffix in ("", *BESIDE, ".cdx.json"):
        shutil.copy(beside(downloaded, suffix), beside(other, suffix))

    ended = machine.run("self", "verify", str(other))

    assert (ended.stderr, ended.returncode) == ("", 0)
    assert ended.stdout.startswith(f"valid    {other}\n")


@pytest.mark.parametrize("position", [0, 100, -1])
def test_one_changed_byte_is_reported(position: int, machine: Machine, downloaded: Path) -> None:
    changed = machine.home / "rye.pyz"
    for suffix in BESIDE:
        shutil.copy(beside(downloaded, suffix), beside(changed, suffix))
    data = bytearray(downloaded.read_bytes())
    data[position] ^= 1
    changed.write_bytes(data)

    with_digest = machine.run("self", "verify", str(changed))
    beside(changed, ".sha256").unlink()
    with_signature = machine.run("self", "verify", str(changed))

    assert "is not the one in rye.pyz.sha256" in with_digest.stderr
    assert "does not hold" in with_signature.stderr
    assert (with_digest.returncode, with_signature.returncode) == (4, 4)


def test_a_file_without_a_signature_is_reported(machine: Machine, downloaded: Path) -> None:
    beside(downloaded, ".sig").unlink()

    ended = machine.run("self", "verify")

    assert ended.returncode == 4
    assert ended.stderr == (
        f"error: no rye.pyz.sig beside the file, so it cannot be verified: {downloaded}\n"
        "  hint: get that file too, from where the program came\n"
    )


@pytest.mark.parametrize("text", ["", "nonsense\n", "rye:signed:x\n", "x" * 2000])
def test_an_invalid_signature_file_is_reported(
    text: str, machine: Machine, downloaded: Path
) -> None:
    beside(downloaded, ".sig").write_text(text, "utf-8")

    ended = machine.run("self", "verify")

    assert ended.returncode == 4
    assert ended.stderr.startswith("error: expected one rye:signed line: ")


def test_a_named_key_decides_alone(machine: Machine, downloaded: Path) -> None:
    own = machine.home / "own"
    machine.ask("self", "extract", str(own))
    stranger = machine.home / "stranger.pem"
    stranger.write_bytes(generate_keypair().public_pem)

    by_own = machine.run("self", "verify", "--key", str(own / "bundle" / "public_key.pem"))
    by_stranger = machine.run("self", "verify", "--key", str(stranger), "--json")

    assert (by_own.stderr, by_own.returncode) == ("", 0)
    answer = json.loads(by_stranger.stdout)
    assert (answer["code"], by_stranger.returncode) == ("UNTRUSTED_KEY", 4)
    assert compute_key_fingerprint(stranger.read_bytes()) in answer["hint"]


def test_a_missing_file_is_reported(machine: Machine) -> None:
    ended = machine.run("self", "verify", "no such file")

    assert ended.stderr.startswith("error: no such file: no such file or directory\n")
    assert ended.returncode == 1


# --- extract --------------------------------------------------------------------------------------


def test_extract_writes_the_bundle_the_sources_and_the_programs(
    machine: Machine, built_pyz: Path
) -> None:
    machine.ask("self", "extract", "inside")

    inside = machine.project / "inside"
    bundle = Path(json.loads(machine.ask("self", "where", "--json"))["bundle"])
    programs = inside / "programs"
    assert {path.name for path in inside.iterdir()} - {"programs"} == {"bundle", "sources"}
    assert (inside / "sources" / "ryeos" / "cli" / "entry.py").is_file()
    assert (inside / "sources" / "LICENSE").is_file()
    assert _contents(inside / "bundle") == _contents(bundle)
    listed = json.loads(beside(built_pyz, ".cdx.json").read_text("utf-8"))["components"]
    hashes = {one["name"]: one["hashes"] for one in listed if one["type"] == "application"}
    assert hashes == {
        name: [{"alg": "SHA-256", "content": sha256(data).hexdigest()}]
        for name, data in _contents(programs).items()
    }


def test_the_programs_inside_run_and_their_licences_are_there(machine: Machine) -> None:
    require_program("cargo")

    machine.ask("self", "extract", "inside")

    proc = machine.project / "inside" / "programs" / "lillux-proc"
    assert json.loads(run([proc, "exec", "--cmd", "true"]).stdout)["success"] is True
    notices = machine.project / "inside" / "sources" / NOTICES
    assert "lexopt 0." in notices.read_text("utf-8")


def _contents(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


@pytest.mark.parametrize("kind", ["folder", "file"])
def test_extract_overwrites_no_file(kind: str, machine: Machine) -> None:
    path = machine.project / "inside"
    if kind == "folder":
        path.mkdir()
        (path / "mine").touch()
    else:
        path.touch()

    ended = machine.run("self", "extract", "inside")

    assert ended.returncode == 1
    assert ended.stderr.startswith("error: inside: something is already there\n")


# --- clean ----------------------------------------------------------------------------------------


@pytest.fixture
def filled(machine: Machine) -> Machine:
    """A machine whose cache has something of every kind, and things of other people."""
    machine.ask(*ECHO)
    machine.ask("self", "where")
    machine.ask(*ECHO, environ=machine.environ(RYE_BOOT="shiv"))
    (machine.cache / "trees").mkdir(mode=0o700, exist_ok=True)
    (machine.cache / "trees" / ("0" * 64)).write_text("digests of files", "utf-8")
    for folder in (machine.cache, machine.cache / "bundle"):
        (folder / "my notes").mkdir()
        (folder / "my notes" / "text").write_text("mine", "utf-8")
    return machine


def _left(machine: Machine) -> set[str]:
    return {path.name for path in machine.cache.rglob("*") if path.is_file()}


@pytest.mark.heavy
def test_a_dry_run_of_clean_lists_the_files_to_remove(filled: Machine) -> None:
    before = _contents(filled.cache)

    report = json.loads(filled.ask("self", "clean", "--dry-run", "--json"))

    kinds = {Path(entry["path"]).parent.name for entry in report["removed"]}
    assert kinds == {"bundle", "native", "programs", "trees", "unpacked"}
    own = {name: data for name, data in before.items() if "my notes" not in name}
    assert report["bytes"] == sum(map(len, own.values()))
    assert _contents(filled.cache) == before


@pytest.mark.heavy
def test_clean_removes_only_files_of_the_program(filled: Machine) -> None:
    report = json.loads(filled.ask("self", "clean", "--json"))

    assert (report["status"], report["left"], report["dry_run"]) == ("success", [], False)
    assert report["cache"] == str(filled.cache)
    assert _left(filled) == {"text"}
    assert filled.ask(*ECHO) == "hi\n"


@pytest.mark.heavy
def test_an_unpacked_program_can_remove_itself(filled: Machine) -> None:
    filled.ask("self", "clean", environ=filled.environ(RYE_BOOT="shiv"))

    assert _left(filled) == {"text"}


def test_a_home_without_a_cache_has_nothing_to_remove(machine: Machine) -> None:
    report = json.loads(
        machine.ask("self", "clean", "--json", environ=machine.environ(HOME="/dev/null"))
    )

    assert (report["cache"], report["removed"], report["bytes"]) == (None, [], 0)


@pytest.mark.heavy
def test_a_file_that_cannot_be_removed_is_reported(filled: Machine) -> None:
    busy = filled.cache / "bundle" / "0123456789abcdef"
    with mounted(busy, "size=64k"):
        ended = filled.run("self", "clean", "--json")

    answer = json.loads(ended.stdout)
    assert (answer["status"], answer["code"], ended.returncode) == ("error", "FILE_SYSTEM_ERROR", 1)
    assert [left["path"] for left in answer["left"]] == [str(busy)]
    assert _left(filled) == {"text"}


def test_the_files_beside_the_program_are_those_of_the_usual_tools(built_pyz: Path) -> None:
    contents = json.loads(beside(built_pyz, ".cdx.json").read_text("utf-8"))
    digest, name = beside(built_pyz, ".sha256").read_text("utf-8").split("  ")

    assert (contents["bomFormat"], contents["specVersion"]) == ("CycloneDX", "1.6")
    assert contents["metadata"]["component"]["hashes"] == [{"alg": "SHA-256", "content": digest}]
    assert name == "rye.pyz\n"
    with ZipFile(built_pyz) as archive:
        assert archive.testzip() is None


def test_the_list_of_contents_has_the_crates_that_are_linked_into_each_program(
    built_pyz: Path,
) -> None:
    require_program("cargo")
    contents = json.loads(beside(built_pyz, ".cdx.json").read_text("utf-8"))

    crates = {
        one["name"]: one for one in contents["components"] if _purl(one).startswith("pkg:cargo/")
    }
    uses = {one["ref"]: one["dependsOn"] for one in contents["dependencies"]}
    assert all(one["version"] and one["licenses"] and one["hashes"] for one in crates.values())
    assert _purl(crates["rusqlite"]) in uses["lillux-watch"]
    assert _purl(crates["rusqlite"]) not in uses["lillux-proc"]
    assert {ref for refs in uses.values() for ref in refs} <= {
        one["bom-ref"] for one in contents["components"]
    }


def _purl(component: dict[str, str]) -> str:
    return component.get("purl", "")


def test_the_list_of_contents_has_each_library_with_version_licence_and_digest(
    built_pyz: Path,
) -> None:
    contents = json.loads(beside(built_pyz, ".cdx.json").read_text("utf-8"))

    components = contents["components"]
    of_python = [one for one in components if one.get("purl", "").startswith("pkg:pypi/")]
    listed = {library["name"]: library for library in of_python}

    names = ["cffi", "packaging", "pynacl", "python-dotenv", "pyyaml", "shiv"]
    names += ["shtab", "tomlkit", "urllib3"]
    assert sorted(listed) == names
    assert [name for name in names if not listed[name]["version"]] == []
    licences = {name: listed[name]["licenses"][0]["expression"] for name in names}
    assert "NOASSERTION" not in licences.values()
    assert [name for name in names if "hashes" not in listed[name]] == ["shiv"]
    sodium = listed["pynacl"]["components"]
    assert tuple(part["name"] for part in sodium[:2]) == ("libsodium", "_sodium.abi3.so")


def test_a_list_of_contents_of_another_file_is_reported(machine: Machine, downloaded: Path) -> None:
    beside(downloaded, ".cdx.json").write_text("[]", "utf-8")

    done = machine.run("self", "verify", str(downloaded))

    assert done.returncode == 4
    assert "rye.pyz.cdx.json is not the list of contents of this file" in done.stderr


def test_a_link_to_the_program_is_checked_where_it_leads(
    machine: Machine, downloaded: Path, tmp_path: Path
) -> None:
    link = tmp_path / "rye"
    link.symlink_to(downloaded)

    answer = json.loads(machine.ask("self", "verify", str(link), "--json"))

    assert answer["path"] == str(downloaded.resolve())
