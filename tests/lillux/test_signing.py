import base64
import json
import os
import string
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from threading import Barrier, Thread

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nacl.bindings import crypto_sign_seed_keypair

from lillux import ed25519
from lillux.errors import ConfigurationError, FileSystemError, LilluxError
from lillux.files import FileTooLargeError
from lillux.key_files import (
    KeyExistsError,
    KeyLockedError,
    KeyNotFoundError,
    exposed_key_files,
    load_keypair,
    save_keypair,
    unprotected,
)
from lillux.pem import PemError, decode_private, encode_private
from lillux.signing import (
    KeyMismatchError,
    KeyPair,
    SignatureVerifier,
    canonical_public_pem,
    compute_key_fingerprint,
    generate_keypair,
    public_pem_of,
    sign_hash,
    verify_signature,
)

ROOT = Path(__file__).resolve().parent.parent.parent
POSIX = pytest.mark.skipif(os.name != "posix", reason="permissions are in the mode only on POSIX")


def public_pem(body: str) -> bytes:
    return f"-----BEGIN PUBLIC KEY-----\n{body}\n-----END PUBLIC KEY-----\n".encode()


# The key of the seed 00 01 .. 1f, and its signature over one hash: docs/trust.md.
SEED = bytes(range(32))
PRIVATE_PEM = encode_private(SEED)
PUBLIC_PEM = public_pem("MCowBQYDK2VwAyEAA6EHv/POEL4dcN0Y50vAmWfk1jCbpQ1fHdyGZBJVMbg=")
FINGERPRINT = "f0ff50dacf109dea"
HASH = "61a0a341ba5987c0739b53c96d1edb02673d22d453f5411cd03e29bc252532e7"
SIGNATURE = (
    "oJkKAkTvGVvvh9xRgSV7ob-11tKxAtJ7sVIfTd8nSlUZLynYBwqUktONM2vBk4BgTYrTaIl9qckwn1v6NCX-AA=="
)

OTHER_PRIVATE_PEM = encode_private(bytes(32))
OTHER_PUBLIC_PEM = public_pem_of(OTHER_PRIVATE_PEM)
OTHER_FINGERPRINT = compute_key_fingerprint(OTHER_PUBLIC_PEM)

# Keys that published items are signed with, and one such signature.
PUBLISHED_KEYS = {
    "4b987fd4e40303ac": "MCowBQYDK2VwAyEAgc0X8VKJuKzFh/aSw/XeYEdp3keIqncwu9ySd81Y69g=",
    "9fbfabe975fa5a7f": "MCowBQYDK2VwAyEAY24FNlBttfGlH91xaEe4Ms0Meu5kvHL8L8W6w9lVyLU=",
    "6ea18199041a1ea8": "MCowBQYDK2VwAyEAUbAHc8d2KetZE2I9eb+VaUpTLkNsDJtFaAsY0nTEm7I=",
}
PUBLISHED_HASH = "605b33d92fe736f889659588b1ff96b11c713fd81a91dee7bfb066b4fe769d88"
PUBLISHED_SIGNATURE = (
    "05W3v-hIaQYx4S195-JZLFd1ByQocgumlkgbiwecGJfKrpBjvZ5Ix5MOFGNhcYD2W1B0fWa4nSk0OM5-1MPtBg=="
)

seeds = st.binary(min_size=32, max_size=32)
hashes = st.text("0123456789abcdef", min_size=64, max_size=64)


def version_2(seed: bytes, public_key: bytes) -> bytes:
    """A private key as other programs write it, with the public key behind the seed."""
    prefix, half = "3051020101300506032b657004220420", "812100"
    body = base64.b64encode(bytes.fromhex(prefix) + seed + bytes.fromhex(half) + public_key)
    lines = (b"-----BEGIN PRIVATE KEY-----", body[:64], body[64:], b"-----END PRIVATE KEY-----")
    return b"\n".join(lines) + b"\n"


def run_python(code: str, *options: str) -> str:
    """The output of the code in a fresh interpreter with the checkout on its path."""
    prelude = f"import sys; sys.path.insert(0, {str(ROOT)!r})\n"
    command = [sys.executable, *options, "-c", prelude + code]
    return subprocess.run(command, check=True, capture_output=True, encoding="utf-8").stdout


def run_python_without_packages(code: str) -> str:
    """The same, and PyNaCl is not installed."""
    return run_python(code, "-I", "-S")


# --- signing --------------------------------------------------------------------------------------


def test_the_example_of_the_document_is_signed_as_written_there() -> None:
    assert sign_hash(HASH, PRIVATE_PEM) == SIGNATURE


def test_a_private_key_of_either_version_gives_the_same_signature() -> None:
    public_key, _ = crypto_sign_seed_keypair(SEED)

    assert sign_hash(HASH, version_2(SEED, public_key)) == SIGNATURE


@pytest.mark.parametrize(
    "content_hash",
    ["", "0" * 63, "0" * 65, HASH.upper(), "g" * 64, "\u0660" * 64, HASH[:-1] + "\n"],
)
def test_only_a_lower_case_hex_hash_is_signed(content_hash: str) -> None:
    with pytest.raises(ConfigurationError) as error:
        sign_hash(content_hash, PRIVATE_PEM)

    assert str(error.value) == "content_hash: expected 64 lower-case hex digits"


def test_a_private_key_with_the_public_half_of_another_signs_nothing() -> None:
    public_key, _ = crypto_sign_seed_keypair(bytes(32))

    with pytest.raises(KeyMismatchError) as error:
        sign_hash(HASH, version_2(SEED, public_key))

    assert str(error.value) == (
        f"private key: expected the public key {FINGERPRINT} of the private key, "
        f"found {OTHER_FINGERPRINT}"
    )


@pytest.mark.property
@given(seed=seeds, content_hash=hashes)
def test_a_signed_hash_verifies(seed: bytes, content_hash: str) -> None:
    private_pem = encode_private(seed)

    signature = sign_hash(content_hash, private_pem)

    assert len(signature) == 88
    assert signature.endswith("==")
    assert verify_signature(content_hash, signature, public_pem_of(private_pem))


# --- verifying ------------------------------------------------------------------------------------


def test_a_published_signature_verifies() -> None:
    key = public_pem(PUBLISHED_KEYS["4b987fd4e40303ac"])

    assert verify_signature(PUBLISHED_HASH, PUBLISHED_SIGNATURE, key)


def test_the_padding_may_be_missing() -> None:
    assert verify_signature(HASH, SIGNATURE, PUBLIC_PEM)
    assert verify_signature(HASH, SIGNATURE.rstrip("="), PUBLIC_PEM)


def test_a_copy_of_the_key_with_windows_line_ends_verifies_too() -> None:
    assert verify_signature(HASH, SIGNATURE, PUBLIC_PEM.replace(b"\n", b"\r\n"))


@pytest.mark.parametrize(
    "signature",
    [
        "",
        "==",
        SIGNATURE[:-1],
        SIGNATURE + "=",
        SIGNATURE[:-3] + "==",
        SIGNATURE[:-2] + "A==",
        SIGNATURE.replace("-", "+"),
        SIGNATURE.replace("-AA", "-AB"),
        " " + SIGNATURE,
        SIGNATURE + "\n",
        SIGNATURE[:40] + "\n" + SIGNATURE[40:],
        SIGNATURE[:40] + "=" + SIGNATURE[40:],
        SIGNATURE[:40] + "!" + SIGNATURE[40:],
        SIGNATURE * 2,
        "é" * 88,
        "\ud800" * 88,
        "A" * 10_000_000,
    ],
)
def test_a_signature_has_one_text_with_and_one_without_padding(signature: str) -> None:
    assert not verify_signature(HASH, signature, PUBLIC_PEM)


def test_a_signature_with_a_slash_of_the_standard_alphabet_is_refused() -> None:
    content_hash = next(h for i in range(99) if "_" in sign_hash(h := f"{i:064x}", PRIVATE_PEM))
    signature = sign_hash(content_hash, PRIVATE_PEM)

    assert verify_signature(content_hash, signature, PUBLIC_PEM)
    assert not verify_signature(content_hash, signature.replace("_", "/"), PUBLIC_PEM)


def test_no_character_of_a_signature_can_be_exchanged() -> None:
    verifying = [
        changed
        for position, letter in enumerate(SIGNATURE)
        for other in string.printable
        if other != letter
        and verify_signature(
            HASH, changed := SIGNATURE[:position] + other + SIGNATURE[position + 1 :], PUBLIC_PEM
        )
    ]

    assert verifying == []


@pytest.mark.parametrize("content_hash", ["", HASH.upper(), HASH[:-1], HASH[:-1] + "8", "é" * 64])
def test_another_hash_is_refused(content_hash: str) -> None:
    assert not verify_signature(content_hash, SIGNATURE, PUBLIC_PEM)


@pytest.mark.parametrize("key", [b"", b"\xff" * 113, PRIVATE_PEM, OTHER_PUBLIC_PEM])
def test_another_key_verifies_no_signature(key: bytes) -> None:
    assert not verify_signature(HASH, SIGNATURE, key)


@pytest.mark.property
@given(
    content_hash=st.text() | hashes,
    signature=st.text() | st.text(string.ascii_letters + string.digits + "-_", max_size=90),
    key=st.binary() | st.just(PUBLIC_PEM),
)
def test_arbitrary_input_is_refused_without_an_error(
    content_hash: str, signature: str, key: bytes
) -> None:
    assert not verify_signature(content_hash, signature, key)


# --- the two routes -------------------------------------------------------------------------------


with_libsodium = SignatureVerifier(pure_verifications=0).verify


def test_the_route_through_libsodium_has_the_verdicts_of_wycheproof_too() -> None:
    groups = json.loads((ROOT / "tests/vectors/wycheproof-ed25519.json").read_bytes())["testGroups"]
    cases = [(bytes.fromhex(group["publicKey"]["pk"]), group["tests"]) for group in groups]

    verdicts = [
        (
            with_libsodium(key, bytes.fromhex(case["msg"]), bytes.fromhex(case["sig"])),
            case["result"],
        )
        for key, tests in cases
        for case in tests
    ]

    assert len(verdicts) == 151
    assert set(verdicts) == {(True, "valid"), (False, "invalid")}


@pytest.mark.parametrize("route", [ed25519.verify, with_libsodium], ids=["pure", "libsodium"])
@pytest.mark.parametrize(
    ("key_size", "signature_size"), [(0, 64), (31, 64), (33, 64), (32, 0), (32, 63), (32, 65)]
)
def test_neither_route_reads_a_key_or_signature_of_another_size(
    route: Callable[[bytes, bytes, bytes], bool], key_size: int, signature_size: int
) -> None:
    assert not route(bytes(key_size), b"text", bytes(signature_size))


ROUTES = (
    "from lillux.signing import PURE_VERIFICATIONS, verify_signature\n"
    f"case = ({HASH!r}, {SIGNATURE!r}, {PUBLIC_PEM!r})\n"
    f"wrong = ({HASH[::-1]!r}, {SIGNATURE!r}, {PUBLIC_PEM!r})\n"
)


def test_a_few_verifications_do_not_load_libsodium_and_more_do() -> None:
    printed = run_python(
        ROUTES + "for _ in range(PURE_VERIFICATIONS): assert verify_signature(*case)\n"
        "print('nacl' in sys.modules)\n"
        "print(verify_signature(*case), 'nacl.bindings' in sys.modules, verify_signature(*wrong))"
    )

    assert printed == "False\nTrue True False\n"


def test_libsodium_is_used_at_once_where_it_is_loaded_already() -> None:
    printed = run_python(
        "import nacl.bindings\n"
        + ROUTES
        + "print(verify_signature(*case), verify_signature(*wrong))\n"
        "from lillux import signing\n"
        "print(signing._verifier._settled is signing._verify_with_libsodium)"
    )

    assert printed == "True False\nTrue\n"


def test_a_platform_without_libsodium_goes_on_in_pure_python() -> None:
    printed = run_python_without_packages(
        ROUTES + "for _ in range(2 * PURE_VERIFICATIONS):\n"
        "    assert verify_signature(*case) and not verify_signature(*wrong)\n"
        "print('went on')"
    )

    assert printed == "went on\n"


@pytest.mark.parametrize(
    "call",
    [
        "generate_keypair()",
        f"sign_hash({HASH!r}, {PRIVATE_PEM!r})",
        f"public_pem_of({PRIVATE_PEM!r})",
    ],
)
def test_a_platform_without_libsodium_says_that_it_cannot_use_private_keys(call: str) -> None:
    printed = run_python_without_packages(
        "from lillux.signing import *\n"
        f"try: {call}\n"
        "except NativeCryptoMissingError as error: print(error, error.hint, sep='\\n')"
    )

    assert printed == (
        "private keys need libsodium, which cannot be loaded: "
        "No module named 'nacl'\n"
        "install PyNaCl, or sign on a platform it was built for; verifying works here too\n"
    )


def test_many_threads_get_right_verdicts_while_the_route_changes() -> None:
    printed = run_python(
        "from threading import Barrier, Thread\n" + ROUTES + "start, verdicts = Barrier(16), []\n"
        "def work():\n"
        "    start.wait()\n"
        "    for _ in range(5):\n"
        "        verdicts.append((verify_signature(*case), verify_signature(*wrong)))\n"
        "threads = [Thread(target=work) for _ in range(16)]\n"
        "for thread in threads: thread.start()\n"
        "for thread in threads: thread.join()\n"
        "print(len(verdicts), set(verdicts))"
    )

    assert printed == "80 {(True, False)}\n"


# --- keys and fingerprints ------------------------------------------------------------------------


def test_a_new_key_pair_belongs_together_and_is_new() -> None:
    first, second = generate_keypair(), generate_keypair()

    assert public_pem_of(first.private_pem) == first.public_pem
    assert first.private_pem == encode_private(decode_private(first.private_pem))
    assert first.private_pem != second.private_pem


def test_the_public_key_is_derived_from_the_private_one() -> None:
    assert public_pem_of(PRIVATE_PEM) == PUBLIC_PEM


@pytest.mark.parametrize(("fingerprint", "body"), PUBLISHED_KEYS.items())
def test_published_keys_have_their_published_fingerprints(fingerprint: str, body: str) -> None:
    assert compute_key_fingerprint(public_pem(body)) == fingerprint


@pytest.mark.parametrize(
    "text",
    [
        PUBLIC_PEM,
        PUBLIC_PEM.strip(),
        PUBLIC_PEM.replace(b"\n", b"\r\n"),
        b"\n" + PUBLIC_PEM + b"\n\n",
    ],
    ids=["canonical", "no final newline", "crlf", "blank lines"],
)
def test_copies_of_a_key_have_one_fingerprint(text: bytes) -> None:
    assert canonical_public_pem(text) == PUBLIC_PEM
    assert compute_key_fingerprint(text) == FINGERPRINT


def test_a_private_key_has_no_fingerprint() -> None:
    with pytest.raises(PemError) as error:
        compute_key_fingerprint(PRIVATE_PEM)

    assert str(error.value) == (
        "public key: expected -----BEGIN PUBLIC KEY-----, found -----BEGIN PRIVATE KEY-----"
    )


def test_a_key_pair_does_not_show_its_private_key() -> None:
    pair = KeyPair(PRIVATE_PEM, PUBLIC_PEM)

    assert repr(pair) == str(pair) == f"KeyPair(public_pem={PUBLIC_PEM!r})"


# --- key pairs on disk ----------------------------------------------------------------------------


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "config" / "keys" / "signing"


def files_in(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def test_a_saved_key_pair_is_loaded(directory: Path) -> None:
    pair = generate_keypair()

    save_keypair(directory, pair)

    assert load_keypair(directory) == pair
    assert files_in(directory) == {
        "private_key.pem": pair.private_pem,
        "public_key.pem": pair.public_pem,
    }


@POSIX
@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_only_the_owner_can_read_a_saved_private_key(directory: Path, umask: int) -> None:
    # In a process of its own: the umask belongs to all threads of this one.
    run_python(
        "import os; from pathlib import Path\n"
        "from lillux.key_files import save_keypair; from lillux.signing import KeyPair\n"
        f"os.umask({umask})\n"
        f"save_keypair(Path({str(directory)!r}), KeyPair({PRIVATE_PEM!r}, {PUBLIC_PEM!r}))"
    )

    paths = (directory, directory / "private_key.pem", directory / "public_key.pem")
    modes = [path.stat().st_mode & 0o777 for path in paths]
    assert modes == [0o700, 0o600, 0o644 & ~umask]


@POSIX
def test_a_directory_that_exists_keeps_its_mode(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)

    save_keypair(tmp_path, KeyPair(PRIVATE_PEM, PUBLIC_PEM))

    assert tmp_path.stat().st_mode & 0o777 == 0o755


@pytest.mark.parametrize("name", ["private_key.pem", "public_key.pem"])
def test_a_key_is_never_overwritten_and_no_temporary_file_is_left(
    directory: Path, name: str
) -> None:
    directory.mkdir(parents=True)
    (directory / name).write_bytes(b"precious")

    with pytest.raises(KeyExistsError) as error:
        save_keypair(directory, KeyPair(PRIVATE_PEM, PUBLIC_PEM))

    assert str(error.value) == f"{directory / name}: expected no key file, found one"
    assert files_in(directory) == {name: b"precious"}


@POSIX
def test_a_key_is_not_written_through_a_link(directory: Path, tmp_path: Path) -> None:
    directory.mkdir(parents=True)
    (directory / "private_key.pem").symlink_to(tmp_path / "elsewhere")

    with pytest.raises(KeyExistsError):
        save_keypair(directory, KeyPair(PRIVATE_PEM, PUBLIC_PEM))

    assert not (tmp_path / "elsewhere").exists()


@POSIX
@pytest.mark.parametrize("size_limit", [0, 50, 118])
def test_a_full_disk_leaves_no_half_of_a_key(directory: Path, size_limit: int) -> None:
    printed = run_python(
        "import resource; from pathlib import Path\n"
        "from lillux.errors import FileSystemError\n"
        "from lillux.key_files import save_keypair; from lillux.signing import KeyPair\n"
        f"resource.setrlimit(resource.RLIMIT_FSIZE, ({size_limit}, resource.RLIM_INFINITY))\n"
        "try:\n"
        f"    save_keypair(Path({str(directory)!r}), KeyPair({PRIVATE_PEM!r}, {PUBLIC_PEM!r}))\n"
        "except FileSystemError as error: print(error)"
    )

    assert printed == f"{directory / 'private_key.pem'}: file too large\n"
    assert files_in(directory) == {}


def test_of_many_that_save_at_once_one_wins_whole(directory: Path) -> None:
    pairs = [generate_keypair() for _ in range(8)]
    start, refused = Barrier(len(pairs)), []

    def save(pair: KeyPair) -> None:
        start.wait()
        try:
            save_keypair(directory, pair)
        except KeyExistsError as error:
            refused.append(error)

    threads = [Thread(target=save, args=(pair,)) for pair in pairs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(refused) == len(pairs) - 1
    assert load_keypair(directory) in pairs


def test_a_missing_private_key_is_named(directory: Path) -> None:
    with pytest.raises(KeyNotFoundError) as error:
        load_keypair(directory)

    assert str(error.value) == (
        f"{directory / 'private_key.pem'}: expected a private key, found no such file"
    )
    assert (error.value.code, error.value.exit_status) == ("NO_SIGNING_KEY", 4)


def test_a_missing_public_key_is_derived(tmp_path: Path) -> None:
    (tmp_path / "private_key.pem").write_bytes(PRIVATE_PEM)

    assert load_keypair(tmp_path) == KeyPair(PRIVATE_PEM, PUBLIC_PEM)


def test_the_public_key_of_another_pair_is_refused(tmp_path: Path) -> None:
    (tmp_path / "private_key.pem").write_bytes(PRIVATE_PEM)
    (tmp_path / "public_key.pem").write_bytes(OTHER_PUBLIC_PEM)

    with pytest.raises(KeyMismatchError) as error:
        load_keypair(tmp_path)

    assert str(error.value) == (
        f"{tmp_path / 'public_key.pem'}: expected the public key {FINGERPRINT} "
        f"of the private key, found {OTHER_FINGERPRINT}"
    )


def test_a_key_pair_with_windows_line_ends_is_loaded_and_its_private_text_kept(
    tmp_path: Path,
) -> None:
    private_pem = PRIVATE_PEM.replace(b"\n", b"\r\n")
    (tmp_path / "private_key.pem").write_bytes(private_pem)
    (tmp_path / "public_key.pem").write_bytes(PUBLIC_PEM.replace(b"\n", b"\r\n"))

    assert load_keypair(tmp_path) == KeyPair(private_pem, PUBLIC_PEM)


@pytest.mark.parametrize("name", ["private_key.pem", "public_key.pem"])
def test_a_damaged_key_file_is_named(tmp_path: Path, name: str) -> None:
    save_keypair(tmp_path, KeyPair(PRIVATE_PEM, PUBLIC_PEM))
    (tmp_path / name).write_bytes(b"")

    with pytest.raises(PemError) as error:
        load_keypair(tmp_path)

    label = "PRIVATE" if name.startswith("private") else "PUBLIC"
    assert str(error.value) == (
        f"{tmp_path / name}: expected -----BEGIN {label} KEY-----, found nothing"
    )


def test_a_huge_key_file_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "private_key.pem").write_bytes(b"\n" * 4097)

    with pytest.raises(FileTooLargeError):
        load_keypair(tmp_path)


def test_a_key_file_that_is_a_directory_is_an_error_of_the_file_system(tmp_path: Path) -> None:
    (tmp_path / "private_key.pem").mkdir()

    with pytest.raises(FileSystemError) as error:
        load_keypair(tmp_path)

    assert str(error.value).startswith(f"{tmp_path / 'private_key.pem'}: ")


@POSIX
def test_key_files_that_others_can_read_are_found(tmp_path: Path) -> None:
    save_keypair(tmp_path, KeyPair(PRIVATE_PEM, PUBLIC_PEM))
    box_key = tmp_path / "box_key.pem"
    box_key.touch(mode=0o600)
    private_key = tmp_path / "private_key.pem"

    assert exposed_key_files(tmp_path) == ()
    for mode in (0o640, 0o604, 0o620, 0o601):
        private_key.chmod(mode)
        assert exposed_key_files(tmp_path) == (private_key,)
    box_key.chmod(0o644)
    assert exposed_key_files(tmp_path) == (private_key, box_key)
    assert load_keypair(tmp_path).public_pem == PUBLIC_PEM


def test_without_a_key_file_or_on_windows_no_key_file_is_exposed(tmp_path: Path) -> None:
    assert exposed_key_files(tmp_path / "missing") == ()

    (tmp_path / "private_key.pem").touch(mode=0o666)

    assert exposed_key_files(tmp_path, platform="nt") == ()


# --- secrets --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text[:-30],
        lambda text: text.replace(b"PRIVATE", b"PUBLIC"),
        lambda text: text.replace(b"\n", b""),
        lambda text: text.replace(b"MC4C", b"MC4D"),
        lambda text: text.replace(b"-----BEGIN PRIVATE KEY-----\n", b""),
    ],
    ids=["cut", "label", "one line", "der", "no armour"],
)
def test_no_error_about_a_private_key_shows_any_of_it(
    tmp_path: Path, damage: Callable[[bytes], bytes]
) -> None:
    secret = PRIVATE_PEM.split(b"\n")[1].decode()
    (tmp_path / "private_key.pem").write_bytes(damage(PRIVATE_PEM))

    with pytest.raises(LilluxError) as raised:
        load_keypair(tmp_path)

    error = raised.value
    shown = f"{error} {error!r} {error.hint} {vars(error)} {error.__context__!r}"
    assert [part for i in range(0, 56, 8) if (part := secret[i : i + 8]) in shown] == []


PROTECTED_BY_AN_EARLIER_VERSION = b"""-----BEGIN RYE PROTECTED KEY-----
nhSU0Dy2LyJRTVrk23K3YAAAAAAAAAADAAAAABAAAAAtv8qOGptS3j2obWLJ+0ve
+USwHLGZbI9nM+NzI9ASZeae1ABBmNK+RTcoukNiKes=
-----END RYE PROTECTED KEY-----
"""


def test_a_key_that_an_earlier_version_protected_opens() -> None:
    assert unprotected(PROTECTED_BY_AN_EARLIER_VERSION, b"pw", "key") == b"PEM text"


def test_a_protected_key_that_was_cut_is_refused() -> None:
    lines = PROTECTED_BY_AN_EARLIER_VERSION.splitlines(keepends=True)

    with pytest.raises(KeyLockedError, match="key: this is not its passphrase"):
        unprotected(b"".join([lines[0], lines[1], lines[3]]), b"pw", "key")
