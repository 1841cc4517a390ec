import json
from hashlib import sha256
from pathlib import Path

import pytest

from lillux.signing import KeyPair
from ryeos.items.errors import ItemValidationError, RyeError
from ryeos.items.refs import Space
from ryeos.trust.bundles import manifest_path
from ryeos.trust.bundles_publish import publish_bundle
from ryeos.trust.signing_key import SigningKey
from ryeos.trust.store import document_path, parse_key_document
from tests.support.errors import coded
from tests.support.signed_files import SEED_FINGERPRINT, seed_keypair
from tests.support.workspace import fixed_clock

TOOL = 'version: "1.0.0"\ntool_type: bash\ncategory: acme\ndescription: greets\n'
KNOWLEDGE = '```yaml\nname: k\ntitle: K\nentry_type: fact\nversion: "1.0.0"\n```\n'


@pytest.fixture
def keypair() -> KeyPair:
    return seed_keypair()


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """The content of an ``.ai`` folder, unsigned."""
    folder = tmp_path / "source"
    write(folder / "tools" / "acme" / "greet.yaml", TOOL)
    write(folder / "knowledge" / "k.md", KNOWLEDGE)
    return folder


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def publish(source: Path, target: Path, keypair: KeyPair) -> Space:
    key = SigningKey(keypair, fixed_clock)
    return publish_bundle(source, target, bundle_id="acme", version="1.2.3", key=key)


def files_below(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_a_bundle_is_the_signed_items_the_key_and_the_list(
    source: Path, tmp_path: Path, keypair: KeyPair
) -> None:
    space = publish(source, tmp_path / "out", keypair)

    assert (space.label, space.version) == ("system:acme", "1.2.3")
    assert space.pinned_pem == keypair.public_pem
    assert list(files_below(tmp_path / "out")) == [
        ".ai/bundles/acme/files.manifest",
        f".ai/config/keys/trusted/{SEED_FINGERPRINT}.toml",
        ".ai/knowledge/k.md",
        ".ai/tools/acme/greet.yaml",
        "public_key.pem",
    ]
    text = (space.ai / "tools" / "acme" / "greet.yaml").read_text(encoding="utf-8")
    assert text.startswith("# rye:signed:2026-01-02T03:04:05Z:")
    assert text.endswith(TOOL)


def test_the_source_is_not_changed(source: Path, tmp_path: Path, keypair: KeyPair) -> None:
    before = files_below(source)

    publish(source, tmp_path / "out", keypair)

    assert files_below(source) == before


def test_the_same_source_key_and_time_give_the_same_bytes(
    source: Path, tmp_path: Path, keypair: KeyPair
) -> None:
    publish(source, tmp_path / "one", keypair)
    publish(source, tmp_path / "two", keypair)

    assert files_below(tmp_path / "one") == files_below(tmp_path / "two")


def test_the_manifest_lists_every_file_with_its_digest_and_headers_of_tools(
    source: Path, tmp_path: Path, keypair: KeyPair
) -> None:
    space = publish(source, tmp_path / "out", keypair)

    text = manifest_path(space).read_text(encoding="utf-8")
    listed = json.loads(text.partition("\n")[2])["files"]
    files = files_below(space.ai)
    del files["bundles/acme/files.manifest"]
    assert {path: entry["sha256"] for path, entry in listed.items()} == {
        path: sha256(data).hexdigest() for path, data in files.items()
    }
    assert listed["tools/acme/greet.yaml"]["header"]["tool_type"] == "bash"
    assert "header" not in listed["knowledge/k.md"]


def test_the_bundle_contains_the_document_of_its_key(
    source: Path, tmp_path: Path, keypair: KeyPair
) -> None:
    space = publish(source, tmp_path / "out", keypair)

    document = parse_key_document(document_path(space, SEED_FINGERPRINT).read_bytes(), "x")

    assert (document.owner, document.covers_all) == ("acme", True)
    assert document.signature
    assert document.signature.fingerprint == SEED_FINGERPRINT


@pytest.mark.parametrize(
    "name", [".hidden", "__pycache__/x.pyc", "tools/.git/config", "tools/acme/x.pyc"]
)
def test_files_outside_of_items_are_left_out(
    source: Path, tmp_path: Path, keypair: KeyPair, name: str
) -> None:
    write(source / name, "")

    space = publish(source, tmp_path / "out", keypair)

    assert not (space.ai / name).exists()


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("readme.md", "a bundle holds only tools, directives, knowledge and config"),
        ("state/x.yaml", "a bundle holds only tools, directives, knowledge and config"),
        ("tools/x.txt", "a bundle holds only tools, directives, knowledge and config"),
        ("tools/x.json", "a bundle holds only files with a signature line of their own"),
    ],
)
def test_a_file_that_cannot_be_signed_stops_publishing(
    source: Path, tmp_path: Path, keypair: KeyPair, name: str, problem: str
) -> None:
    write(source / name, "{}")

    with pytest.raises(RyeError, check=coded("CONFIG_ERROR")) as error:
        publish(source, tmp_path / "out", keypair)

    path = tmp_path / "out" / ".ai" / name
    assert str(error.value) == f"bundle {path}: {problem}"


def test_an_item_that_breaks_a_rule_stops_publishing(
    source: Path, tmp_path: Path, keypair: KeyPair
) -> None:
    write(source / "tools" / "other" / "greet.yaml", TOOL)

    with pytest.raises(ItemValidationError, match="must match path category 'other'"):
        publish(source, tmp_path / "out", keypair)


def test_an_existing_folder_is_not_written_into(
    source: Path, tmp_path: Path, keypair: KeyPair
) -> None:
    publish(source, tmp_path / "out", keypair)
    before = files_below(tmp_path / "out")

    with pytest.raises(FileExistsError):
        publish(source, tmp_path / "out", keypair)

    assert files_below(tmp_path / "out") == before


def test_a_source_that_was_signed_before_is_signed_afresh(
    source: Path, tmp_path: Path, keypair: KeyPair
) -> None:
    once = publish(source, tmp_path / "one", seed_keypair(1))
    for extra in ("bundles", "config"):
        for path in sorted((once.ai / extra).rglob("*"), reverse=True):
            path.unlink() if path.is_file() else path.rmdir()

    again = publish(once.ai, tmp_path / "two", keypair)
    plain = publish(source, tmp_path / "three", keypair)

    assert files_below(again.ai) == files_below(plain.ai)
