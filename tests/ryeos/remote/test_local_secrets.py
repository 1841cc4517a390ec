import os
import stat
from pathlib import Path
from threading import Thread

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lillux.sealing import encrypt
from lillux.signing import generate_keypair
from ryeos.items.errors import RyeError
from ryeos.remote.local_secrets import LocalSecrets, read_env_file
from ryeos.remote.secret_names import SecretNameError, SecretValuesError
from tests.support.errors import coded

PRIVATE_PEM = generate_keypair().private_pem
INFO = b"ryeos-secret-store-v1"


@pytest.fixture
def secrets(tmp_path: Path) -> LocalSecrets:
    return LocalSecrets(tmp_path, PRIVATE_PEM)


def test_a_missing_store_has_no_secrets(secrets: LocalSecrets) -> None:
    assert secrets.values() == {}
    assert not secrets.delete("A")
    assert not secrets.path.exists()


def test_secrets_are_added_replaced_and_removed(secrets: LocalSecrets, tmp_path: Path) -> None:
    secrets.set({"B": "1", "A": "2"})
    secrets.set({"B": "3"})

    assert LocalSecrets(tmp_path, PRIVATE_PEM).values() == {"A": "2", "B": "3"}
    assert secrets.names() == ("A", "B")
    assert secrets.delete("A")
    assert secrets.values() == {"B": "3"}


def test_the_file_shows_neither_name_nor_value_of_a_secret(
    secrets: LocalSecrets, tmp_path: Path
) -> None:
    secrets.set({"TOKEN_NAME": "token value"})

    data = (tmp_path / ".ai/secrets/store.enc").read_bytes()
    assert b"TOKEN" not in data
    assert b"token" not in data
    if os.name == "posix":
        assert stat.S_IMODE(secrets.path.stat().st_mode) == 0o600
        assert stat.S_IMODE(secrets.path.parent.stat().st_mode) == 0o700


def test_a_store_of_another_program_opens(secrets: LocalSecrets) -> None:
    secrets.path.parent.mkdir(parents=True)
    secrets.path.write_bytes(encrypt(PRIVATE_PEM, b'{ "A" : "1" }', info=INFO))

    assert secrets.values() == {"A": "1"}


def test_another_key_does_not_open_it(secrets: LocalSecrets, tmp_path: Path) -> None:
    secrets.set({"A": "1"})
    data = secrets.path.read_bytes()
    other = LocalSecrets(tmp_path, generate_keypair().private_pem)

    for use in (other.values, lambda: other.set({"B": "2"}), lambda: other.delete("A")):
        with pytest.raises(RyeError, check=coded("INTEGRITY")) as error:
            use()

    assert str(error.value) == (
        f"{secrets.path}: sealed bytes: made for another key, or changed since"
    )
    assert secrets.path.read_bytes() == data


@pytest.mark.parametrize("text", [b"", b"[]", b"no", b'{"A": 1}', b'{"A": "\\u0000"}'])
def test_a_store_that_holds_something_else_is_reported(secrets: LocalSecrets, text: bytes) -> None:
    secrets.path.parent.mkdir(parents=True)
    secrets.path.write_bytes(encrypt(PRIVATE_PEM, text, info=INFO))

    with pytest.raises(RyeError, check=coded("INTEGRITY")):
        secrets.values()


@pytest.mark.parametrize("name", ["PATH", "aws_key", "1A", ""])
def test_a_name_that_is_never_injected_is_not_stored(secrets: LocalSecrets, name: str) -> None:
    with pytest.raises(SecretNameError):
        secrets.set({"GOOD": "1", name: "2"})

    assert secrets.values() == {}


def test_secrets_over_the_limits_of_a_node_are_not_stored(secrets: LocalSecrets) -> None:
    secrets.set({f"A{number}": "x" for number in range(256)})

    with pytest.raises(SecretValuesError):
        secrets.set({"B": "x"})

    assert len(secrets.values()) == 256


def test_simultaneous_writers_lose_no_secret(tmp_path: Path) -> None:
    def write(number: int) -> None:
        LocalSecrets(tmp_path, PRIVATE_PEM).set({f"A{number}": "x"})

    threads = [Thread(target=write, args=[number]) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert LocalSecrets(tmp_path, PRIVATE_PEM).names() == tuple(f"A{n}" for n in range(8))


# --- files of variables -----------------------------------------------------------------------


def test_a_file_of_variables_is_read_as_it_stands(tmp_path: Path) -> None:
    path = tmp_path / "x.env"
    path.write_bytes(
        b'\xef\xbb\xbf# comment\r\n\r\nA=1\r\n  B = two words \nC="quoted"\nD=$A # kept\n'
        b"E=a=b\nF=\nA=2\n"
    )

    assert read_env_file(path) == {
        "A": "2",
        "B": "two words",
        "C": '"quoted"',
        "D": "$A # kept",
        "E": "a=b",
        "F": "",
    }


def test_reserved_names_are_read_for_the_caller_to_filter(tmp_path: Path) -> None:
    path = tmp_path / "x.env"
    path.write_text("PATH=/x\n", encoding="utf-8")

    assert read_env_file(path) == {"PATH": "/x"}


@pytest.mark.parametrize(
    "line", ["export A=secret", "A secret", "1A=secret", "=secret", "Ä=secret"]
)
def test_an_invalid_line_is_reported_without_its_value(tmp_path: Path, line: str) -> None:
    path = tmp_path / "x.env"
    path.write_text(f"# one\nGOOD=1\n{line}\n", encoding="utf-8")

    with pytest.raises(RyeError, check=coded("VALIDATION_FAILED")) as error:
        read_env_file(path)

    assert str(error.value) == f"{path}:3: expected NAME=VALUE"


def test_a_file_that_is_not_utf_8_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "x.env"
    path.write_bytes(b"A=\xff\n")

    with pytest.raises(RyeError, check=coded("VALIDATION_FAILED")) as error:
        read_env_file(path)

    assert str(error.value) == f"{path}: expected UTF-8"


def test_a_value_over_the_limits_of_a_node_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "x.env"
    path.write_text(f"A={'x' * 65_537}\n", encoding="utf-8")

    with pytest.raises(RyeError, check=coded("VALIDATION_FAILED")) as error:
        read_env_file(path)

    assert str(error.value) == f"{path}: 'A': expected at most 65536 bytes, found 65537"


values = st.text(st.characters(codec="utf-8", exclude_characters="\0\n"), max_size=20)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.dictionaries(st.sampled_from(["A", "b_1", "_C"]), values))
def test_values_without_surrounding_blanks_are_read_back(
    tmp_path: Path, secrets: dict[str, str]
) -> None:
    stripped = {name: value.strip() for name, value in secrets.items()}
    path = tmp_path / "x.env"
    path.write_bytes("".join(f"{name}={value}\n" for name, value in stripped.items()).encode())

    assert read_env_file(path) == stripped
