"""Credentials: the value goes to its hosts, and is seen nowhere else."""

import logging
import pickle

import pytest

from lillux.process import ProcessManager
from lillux.values import replace
from ryeos.items.errors import RyeError, UnsignedError, UnsupportedError
from ryeos.items.refs import id_gives_rights
from ryeos.run.credentials import Credentials, Secret, without_variables
from ryeos.run.model import ExecutionRequest
from tests.support.workspace import Workspace

VALUE = "sk-very-secret-1234"


def file_text(source: str, *, hosts: str = '["api.example.com:443"]', more: str = "") -> str:
    return f'version: "1.0.0"\ncategory: credentials\nhosts: {hosts}\nsource: {source}\n{more}'


def credentials(workspace: Workspace) -> Credentials:
    rye = workspace.rye()
    return Credentials(rye.config, rye.context, ProcessManager)


def value_of(workspace: Workspace, source: str) -> str:
    workspace.user.signed("config/credentials/mine.yaml", file_text(source))
    found = credentials(workspace)
    return found.value(found.get("mine")).reveal()


def refused(workspace: Workspace, source: str) -> RyeError:
    with pytest.raises(RyeError) as error:
        value_of(workspace, source)
    assert VALUE not in f"{error.value}{error.value.hint}{error.value.facts}"
    return error.value


# --- sources --------------------------------------------------------------------------------------


def test_a_variable_holds_the_value(workspace: Workspace) -> None:
    workspace.env["MY_TOKEN"] = VALUE

    assert value_of(workspace, "{variable: MY_TOKEN}") == VALUE


def test_a_private_file_holds_the_value(workspace: Workspace) -> None:
    path = workspace.home / "token"
    path.write_text(f"{VALUE}\n", "utf-8")
    path.chmod(0o600)

    assert value_of(workspace, "{file: ~/token}") == VALUE


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o660])
def test_a_file_that_others_may_read_is_refused(workspace: Workspace, mode: int) -> None:
    path = workspace.home / "token"
    path.write_text(VALUE, "utf-8")
    path.chmod(mode)

    error = refused(workspace, "{file: ~/token}")

    assert f"expected the mode 0600, found {mode:04o}" in str(error)
    assert error.hint == f"chmod 600 {path}"


def test_a_file_of_a_project_is_refused(workspace: Workspace) -> None:
    path = workspace.project_path / "token"
    path.write_text(VALUE, "utf-8")
    path.chmod(0o600)

    assert "lies in a project" in str(refused(workspace, f"{{file: {path}}}"))


def test_a_folder_is_no_value(workspace: Workspace) -> None:
    assert "expected a regular file" in str(refused(workspace, "{file: ~/.ai}"))


def test_a_command_prints_the_value_without_a_shell(workspace: Workspace) -> None:
    assert value_of(workspace, f'{{command: [printf, "%s", "{VALUE}"]}}') == VALUE
    assert value_of(workspace, '{command: [printf, "%s", "$(id);x"]}') == "$(id);x"


def test_a_command_that_fails_says_nothing_of_what_it_printed(workspace: Workspace) -> None:
    error = refused(workspace, f'{{command: [sh, -c, "echo {VALUE}; echo {VALUE} >&2; exit 3"]}}')

    assert "ended with 3" in str(error)


@pytest.mark.parametrize(
    "source", ["{variable: UNSET_ONE}", "{file: ~/none}", '{command: ["true"]}']
)
def test_a_value_that_is_not_there_is_named_by_its_place(workspace: Workspace, source: str) -> None:
    error = refused(workspace, source)

    assert error.code == "CREDENTIAL_NOT_FOUND"
    assert str(error).startswith("credential mine: ")


@pytest.mark.parametrize("value", [f"{VALUE}\nX-Evil: 1", f"{VALUE}\r", f"{VALUE}\x00a", "süß"])
def test_a_value_that_is_no_header_is_refused(workspace: Workspace, value: str) -> None:
    path = workspace.home / "token"
    path.write_bytes(b"x" + value.encode() + b"x")
    path.chmod(0o600)

    assert "visible ASCII" in str(refused(workspace, "{file: ~/token}"))


def test_sources_of_later_are_named_as_such(workspace: Workspace) -> None:
    with pytest.raises(UnsupportedError):
        value_of(workspace, "{keychain: rye/mine}")


# --- the value is shown nowhere -------------------------------------------------------------------


def test_a_secret_is_neither_shown_nor_written(caplog: pytest.LogCaptureFixture) -> None:
    secret = Secret(VALUE)

    logging.getLogger("test").warning("%s %r", secret, secret)

    assert VALUE not in f"{secret}{secret!r}{[secret]}{caplog.text}"
    with pytest.raises(TypeError):
        pickle.dumps(secret)


# --- which file counts ----------------------------------------------------------------------------


def test_a_project_names_no_credential(workspace: Workspace) -> None:
    workspace.env["MY_TOKEN"] = VALUE
    workspace.project.signed("config/credentials/mine.yaml", file_text("{variable: MY_TOKEN}"))
    found = credentials(workspace)

    with pytest.raises(RyeError) as error:
        found.get("mine")

    assert error.value.code == "CREDENTIAL_NOT_FOUND"
    assert "mine" not in found.names()
    assert "MY_TOKEN" not in found.variables()


@pytest.mark.parametrize("name", ["../keys/x", "a/b", "", "A", "a" * 65, "a\n"])
def test_a_name_that_is_none_is_refused(workspace: Workspace, name: str) -> None:
    with pytest.raises(RyeError) as error:
        credentials(workspace).get(name)

    assert error.value.code == "CREDENTIAL_NOT_FOUND"


def test_an_unsigned_credential_is_refused(workspace: Workspace) -> None:
    workspace.user.write("config/credentials/mine.yaml", file_text("{variable: MY_TOKEN}"))

    with pytest.raises(UnsignedError):
        credentials(workspace).get("mine")


@pytest.mark.parametrize(
    ("config_id", "is_closed"),
    [
        ("credentials/github", True),
        ("agent/agent", True),
        ("Agent/Providers/anthropic", True),
        ("agent/prices/openai", True),
        ("agent/hook_conditions", False),
        ("agent", False),
    ],
)
def test_agents_neither_sign_nor_copy_credentials_and_providers(
    config_id: str, *, is_closed: bool
) -> None:
    assert id_gives_rights(config_id) is is_closed


# --- hosts ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "is_served"),
    [
        ("https://api.example.com/v1", True),
        ("https://API.example.com:443/v1", True),
        ("https://api.example.com:444/v1", False),
        ("http://api.example.com/v1", False),
        ("https://api.example.com.evil.org/v1", False),
        ("https://evil.org/api.example.com", False),
        ("http://[::1]:8080/v1", True),
        ("http://[::1]:8081/v1", False),
    ],
)
def test_only_its_hosts_may_get_the_value(
    workspace: Workspace, url: str, *, is_served: bool
) -> None:
    hosts = '["Api.Example.com", "[::1]:8080"]'
    text = file_text("{variable: MY_TOKEN}", hosts=hosts)
    workspace.user.signed("config/credentials/mine.yaml", text)

    assert credentials(workspace).get("mine").serves(url) is is_served


# --- the environment of what a thread starts ------------------------------------------------------

_PRINTS = "import json, os\nprint(json.dumps(dict(os.environ)))\n"
_FUNCTION = "import os\n\ndef execute(params, project_path):\n    return dict(os.environ)\n"


def environment_of(workspace: Workspace, item_id: str) -> str:
    """What a tool prints that a thread starts."""
    rye = workspace.rye()
    kept = Credentials(rye.config, rye.context, ProcessManager).kept_from(rye.context)
    started = workspace.rye(process_env=kept.process_env, withheld=kept.withheld)
    result = started.executor.execute(ExecutionRequest(item_id=item_id))
    assert result.error is None, result.error
    return str(result.data)


@pytest.fixture
def with_keys(workspace: Workspace) -> Workspace:
    """A user whose keys stand in the environment, in `.env` files, and in both."""
    workspace.user.signed("config/credentials/mine.yaml", file_text("{variable: MY_TOKEN}"))
    workspace.env |= {"MY_TOKEN": VALUE, "ANTHROPIC_API_KEY": VALUE, "PLAIN": "seen"}
    dotenv = f"MY_TOKEN={VALUE}\nOPENAI_API_KEY={VALUE}\nOTHER=seen-too\n"
    for folder in (workspace.project_path, workspace.project_path / ".ai", workspace.home / ".ai"):
        (folder / ".env").write_text(dotenv, "utf-8")
    workspace.approve()
    return workspace


def test_no_program_that_a_thread_starts_gets_a_variable_of_a_credential(
    with_keys: Workspace,
) -> None:
    with_keys.project.signed_tool("mine/show", _PRINTS)

    shown = environment_of(with_keys, "mine/show")

    assert VALUE not in shown
    assert "seen" in shown
    assert "seen-too" in shown


def test_nor_does_a_function(with_keys: Workspace) -> None:
    with_keys.project.signed_tool(
        "mine/show", _FUNCTION, executor="rye/core/runtimes/python/function"
    )

    assert VALUE not in environment_of(with_keys, "mine/show")


def test_nor_does_a_tool_that_asks_for_it_by_a_template(with_keys: Workspace) -> None:
    with_keys.project.signed_yaml(
        "mine/show",
        'config: {command: "echo got-$COPY-${OPENAI_API_KEY}"}\n'
        "env_config: {env: {COPY: '${MY_TOKEN:-none}'}}\n",
    )

    shown = environment_of(with_keys, "mine/show")

    assert VALUE not in shown
    assert "got-none" in shown


def test_outside_of_threads_tools_get_what_they_got(with_keys: Workspace) -> None:
    with_keys.project.signed_tool("mine/show", _PRINTS)

    assert VALUE in str(with_keys.run("mine/show").data)


def test_a_variable_stays_away_where_another_file_took_the_place(workspace: Workspace) -> None:
    workspace.user.signed("config/credentials/anthropic.yaml", file_text("{file: ~/token}"))

    assert "ANTHROPIC_API_KEY" in credentials(workspace).variables()


def test_windows_does_not_mind_the_case_of_a_variable(workspace: Workspace) -> None:
    context = replace(
        workspace.context(), platform="win32", process_env={"My_Token": VALUE, "A": "b"}
    )

    kept = without_variables(context, frozenset({"MY_TOKEN"}))

    assert kept.process_env == {"A": "b"}


def test_a_credential_that_was_changed_stops_all_threads(workspace: Workspace) -> None:
    path = workspace.user.signed("config/credentials/mine.yaml", file_text("{variable: MY_TOKEN}"))
    path.write_text(path.read_text("utf-8").replace("MY_TOKEN", "HOME"), "utf-8")

    with pytest.raises(RyeError) as error:
        credentials(workspace).variables()

    assert error.value.code == "INTEGRITY"
