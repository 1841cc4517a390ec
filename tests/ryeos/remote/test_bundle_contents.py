import unicodedata
from pathlib import Path

import pytest

from ryeos.items.errors import RyeError
from ryeos.remote.registry_bundles import (
    RESERVED_CONFIG,
    BundlePinMismatchError,
    verify_bundle_files,
)
from ryeos.remote.registry_errors import RegistryIdError
from tests.support.bundles import Publisher, echo_tool
from tests.support.errors import coded

MANIFEST = ".ai/bundles/acme/files.manifest"
TOOL = ".ai/tools/acme/greet.yaml"


@pytest.fixture
def publisher(tmp_path: Path) -> Publisher:
    """A publisher of bundles."""
    return Publisher.at(tmp_path)


def refusal(files: dict[str, bytes], bundle_id: str = "acme", version: str = "") -> str:
    """The reason why files are refused as a bundle."""
    with pytest.raises(RyeError, check=coded("INTEGRITY")) as error:
        verify_bundle_files(files, bundle_id, version=version)
    return str(error.value).removeprefix(f"bundle {bundle_id}: ")


def test_a_bundle_signed_by_its_publisher_is_accepted(publisher: Publisher) -> None:
    bundle = verify_bundle_files(
        publisher.files("acme"), "acme", version="1.0.0", expected=publisher.fingerprint
    )

    assert (bundle.version, bundle.fingerprint) == ("1.0.0", publisher.fingerprint)


def test_another_key_is_refused(publisher: Publisher) -> None:
    with pytest.raises(BundlePinMismatchError) as error:
        verify_bundle_files(publisher.files("acme"), "acme", expected="0" * 16)

    assert error.value.found == publisher.fingerprint


@pytest.mark.parametrize("bundle_id", ["ryeos", "ryeos-core", "A", "../x", "a/b", "a", ""])
def test_an_id_that_no_bundle_has_is_refused(publisher: Publisher, bundle_id: str) -> None:
    with pytest.raises(RegistryIdError):
        verify_bundle_files(publisher.files("acme"), bundle_id)


@pytest.mark.parametrize("bundle_id", sorted(RESERVED_CONFIG - {"rye"}))
def test_a_bundle_id_that_names_settings_of_rye_is_refused(
    publisher: Publisher, bundle_id: str
) -> None:
    problem = refusal(publisher.files(bundle_id), bundle_id)

    assert problem == "expected an id that is no name of Rye's own settings"


@pytest.mark.parametrize(
    "path",
    [
        "../outside",
        "/etc/passwd",
        ".ai/../../x",
        ".ai/tools/a\\b.py",
        ".ai/tools/con.py",
        ".ai/tools/a:b.py",
        ".ai/tools//b.py",
        ".ai/tools/a\x00b",
        "rye.pyz",
        ".ai",
        ".ai/tools/" + "x" * 600,
    ],
)
def test_an_unsafe_path_is_refused(publisher: Publisher, path: str) -> None:
    files = publisher.files("acme") | {path: b"x"}

    assert refusal(files)


def test_paths_that_are_equal_on_some_disks_are_refused(publisher: Publisher) -> None:
    upper = {".ai/tools/acme/GREET.yaml": b"x"}
    umlaut = unicodedata.normalize("NFC", ".ai/tools/acme/ü.py")
    forms = {umlaut: b"x", unicodedata.normalize("NFD", umlaut): b"x"}

    for more in (upper, forms):
        assert "are one file on some disks" in refusal(publisher.files("acme") | more)


def test_a_path_below_a_file_is_refused(publisher: Publisher) -> None:
    files = publisher.files("acme") | {".ai/tools/acme/greet.yaml/more.py": b"x"}

    assert refusal(files).endswith("its folder is a file as well")


def test_a_changed_file_is_refused(publisher: Publisher) -> None:
    files = publisher.files("acme") | {TOOL: b"changed"}

    assert refusal(files) == "'tools/acme/greet.yaml': not what its publisher signed"


def test_a_file_that_is_not_listed_is_refused(publisher: Publisher) -> None:
    files = publisher.files("acme") | {".ai/tools/acme/more.py": b"x"}

    assert refusal(files) == "'tools/acme/more.py': not listed in its manifest"


def test_a_listed_file_that_is_missing_is_refused(publisher: Publisher) -> None:
    files = publisher.files("acme")
    del files[TOOL]

    assert refusal(files) == "'tools/acme/greet.yaml': listed in its manifest, not there"


def test_a_bundle_without_key_or_manifest_is_refused(publisher: Publisher) -> None:
    whole = publisher.files("acme")

    assert refusal({p: d for p, d in whole.items() if p != "public_key.pem"}).startswith(
        "expected public_key.pem"
    )
    assert refusal({p: d for p, d in whole.items() if p != MANIFEST}) == (
        f"expected its manifest, {MANIFEST}"
    )


def test_the_manifest_of_another_bundle_is_refused(publisher: Publisher) -> None:
    files = publisher.files("acme")
    files[".ai/bundles/other/files.manifest"] = files.pop(MANIFEST)

    assert "another bundle, 'acme'" in refusal(files, "other")


def test_another_version_is_refused(publisher: Publisher) -> None:
    assert refusal(publisher.files("acme"), version="2.0.0") == (
        "expected version 2.0.0, found '1.0.0'"
    )


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("tools/rye/core/evil.yaml", "ids below rye/ are rye's own"),
        ("tools/RYE/core/evil.yaml", "ids below rye/ are rye's own"),
        ("config/rye/aliases.yaml", "expected configuration below config/acme/ only"),
        ("config/remotes/remotes.yaml", "expected configuration below config/acme/ only"),
        ("config/file-system/access.yaml", "expected configuration below config/acme/ only"),
    ],
)
def test_items_outside_of_the_bundles_namespace_are_refused(
    publisher: Publisher, path: str, problem: str
) -> None:
    category = path.partition("/")[2].rpartition("/")[0]
    text = echo_tool(category, "evil") if path.startswith("tools") else config(category)

    assert refusal(publisher.files("acme", {path: text})) == f"{path!r}: {problem}"


def test_a_bundle_configures_itself(publisher: Publisher) -> None:
    files = publisher.files("acme", {"config/acme/settings.yaml": config("acme")})

    assert verify_bundle_files(files, "acme").version == "1.0.0"


def test_a_bundle_over_the_limits_is_refused(publisher: Publisher) -> None:
    many = {f".ai/tools/acme/f{number}.py": b"" for number in range(10_001)}
    large = {".ai/tools/acme/large.py": b"x" * (8 * 1024 * 1024 + 1)}

    assert refusal(many).startswith("expected at most 10000 files")
    assert refusal(publisher.files("acme") | large).endswith("expected at most 8388608 bytes")


def config(category: str) -> str:
    """A small file of configuration."""
    return f'version: "1.0.0"\ncategory: {category}\n'
