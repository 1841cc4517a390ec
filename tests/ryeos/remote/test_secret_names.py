import pytest

from ryeos.remote.secret_names import SecretValuesError, injectable, valid_secrets, why_unsafe


@pytest.mark.parametrize(
    "name", ["API_KEY", "api_key", "_A", "OPENAI_API_KEY", "NODE_API_KEY", "CIPHER", "LDAP"]
)
def test_an_ordinary_name_is_safe(name: str) -> None:
    assert why_unsafe(name) is None


@pytest.mark.parametrize(
    "name",
    [
        *("PATH", "HOME", "USER", "SHELL", "LANG", "TERM", "PYTHONPATH", "PYTHONHOME"),
        *("PYTHON_PATH", "TMPDIR", "TEMP", "TMP", "RYE_SIGNING_KEY_DIR", "RYE_KERNEL_PYTHON"),
        *("RYE_REMOTE_NAME", "RYE_NODE_CONFIG", "USER_SPACE", "VIRTUAL_ENV", "CONDA_PREFIX"),
        *("LD_LIBRARY_PATH", "LD_PRELOAD", "DYLD_LIBRARY_PATH", "DYLD_INSERT_LIBRARIES"),
        *("LC_ALL", "LC_CTYPE", "BASH_ENV", "ENV", "IFS", "NODE_OPTIONS", "PERL5LIB", "RUBYOPT"),
        *("SUPABASE_X", "MODAL_X", "LD_X", "SSL_X", "AWS_X", "GOOGLE_X", "AZURE_X", "GITHUB_X"),
        *("CI_X", "DOCKER_X", "RYE_INTERNAL_X", "DYLD_X", "GIT_SSH", "GIT_SSH_COMMAND"),
        *("PYTHONSTARTUP", "PYTHONX", "RYE_DEV_MODE", "BASH_FUNC_X"),
    ],
)
def test_a_reserved_name_is_unsafe_in_any_case(name: str) -> None:
    assert why_unsafe(name)
    assert why_unsafe(name.lower())
    assert why_unsafe(name.title())


@pytest.mark.parametrize("name", ["", "1A", "A-B", "A B", "É", "A\n", "A=B", "A\0", "A" * 257])
def test_an_invalid_name_is_unsafe(name: str) -> None:
    assert why_unsafe(name)


def test_unsafe_names_are_left_out_and_the_others_kept() -> None:
    values = {"API_KEY": "1", "PATH": "/evil", "aws_x": "2", "OTHER": "3"}

    assert injectable(values) == ({"API_KEY": "1", "OTHER": "3"}, ("PATH", "aws_x"))


def test_values_within_the_limits_stay_as_they_are() -> None:
    values = {f"A{number}": "x" for number in range(256)}

    assert valid_secrets(values) == values
    assert valid_secrets({"A": "é" * 32_768}) == {"A": "é" * 32_768}


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ({"A": 1}, "'A': expected text, found int"),
        ({"A": None}, "'A': expected text, found NoneType"),
        ({"A": "s\0"}, "'A': expected no NUL character"),
        ({"A": "é" * 32_769}, "'A': expected at most 65536 bytes, found 65538"),
        ({"A=": "s"}, "'A=': expected a name of an environment variable"),
        ({"": "s"}, "'': expected a name of an environment variable"),
        ({"A": "\udc80"}, "expected text, found half of a surrogate pair"),
        ({f"A{n}": "" for n in range(257)}, "expected at most 256, found 257"),
    ],
    ids=range(8),
)
def test_one_value_over_a_limit_fails_all(values: dict[str, object], problem: str) -> None:
    with pytest.raises(SecretValuesError) as error:
        valid_secrets({"GOOD": "x", **values} if len(values) == 1 else values)

    assert str(error.value) == f"secrets: {problem}"
