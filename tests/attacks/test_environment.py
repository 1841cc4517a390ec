"""Unsigned files of a project must not change what a signed tool does."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from lillux.env_resolver import EnvResolver, ResolvedEnv, child_environment
from lillux.process import ProcessManager
from lillux.process.model import Command
from tests.support.executables import make_program
from tests.support.programs import require_program

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the attacks are shell scripts")

PYTHON = {
    "type": "local_binary",
    "binary": "python",
    "search_paths": [".venv/bin"],
    "var": "RYE_PYTHON",
}
RUNTIME = {"interpreter": PYTHON, "env": {"PROJECT_VENV_PYTHON": "${RYE_PYTHON}"}}
BASH = {"interpreter": {"type": "system_binary", "binary": "bash", "var": "RYE_BASH"}}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    path = tmp_path / "project"
    path.mkdir()
    return path


def resolve(
    project: Path,
    env_file: str,
    env_config: Mapping[str, object] | None = None,
    **process_env: str,
) -> ResolvedEnv:
    (project / ".env").write_text(env_file, encoding="utf-8")
    start = {"PATH": os.defpath, **process_env}
    resolver = EnvResolver(project_path=project, user_base=None, process_env=start)
    return resolver.apply(resolver.base(), env_config, {})


def output_of(env: ResolvedEnv, *argv: str, cwd: Path) -> str:
    child = child_environment(env)
    outcome = ProcessManager().run(Command(argv=argv, env=child, cwd=cwd, timeout_s=60))
    return outcome.stdout.data.decode()


def evil_program(path: Path) -> Path:
    make_program(path).write_text("#!/bin/sh\necho evil\n", encoding="utf-8")
    return path


def test_an_env_file_does_not_put_its_own_programs_first(project: Path) -> None:
    require_program("bash")
    evil_program(project / "bin" / "bash")

    env = resolve(project, f"PATH={project}/bin:/bin", BASH)

    assert env.variables["PATH"] == os.defpath
    assert str(Path(env.variables["RYE_BASH"]).parent) in os.defpath.split(os.pathsep)


@pytest.mark.parametrize("name", ["SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS"])
def test_an_env_file_does_not_say_whose_certificates_a_tool_believes(
    project: Path, name: str
) -> None:
    env = resolve(project, f"{name}={project}/evil.pem\nHTTPS_PROXY=http://evil.example")

    assert name not in env.variables
    assert env.variables["HTTPS_PROXY"] == "http://evil.example"


def test_an_env_file_does_not_choose_the_interpreter(project: Path) -> None:
    evil = evil_program(project / "evil")

    env = resolve(project, f"RYE_PYTHON={evil}", RUNTIME)

    assert "RYE_PYTHON" not in env.variables
    assert env.variables["PROJECT_VENV_PYTHON"] == ""
    assert env.missing[0].var == "RYE_PYTHON"


def test_an_env_file_does_not_change_the_interpreter_the_user_chose(
    project: Path, tmp_path: Path
) -> None:
    chosen = str(make_program(tmp_path / "chosen"))
    evil = evil_program(project / "evil")
    block = {"type": "system_binary", "binary": "node", "var": "MY_NODE"}

    env = resolve(project, f"MY_NODE={evil}", {"interpreter": block}, MY_NODE=chosen)

    assert env.variables["MY_NODE"] == chosen


def test_a_fallback_is_not_looked_up_in_the_project(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    evil_program(project / "python3")
    monkeypatch.chdir(project)
    block = {**PYTHON, "fallback": "python3"}

    env = resolve(project, "", {"interpreter": block}, PATH=f"::.:{project.name}:..")

    assert env.variables["RYE_PYTHON"] == "python3"
    assert env.missing[0].directories == (f"{project}/.venv/bin",)


def test_an_env_file_does_not_run_code_in_bash(project: Path) -> None:
    bash = require_program("bash")
    evil = evil_program(project / "evil")
    env_file = f"BASH_ENV={evil}\nENV={evil}\n'BASH_FUNC_echo%%'='() {{ printf evil; }}'\n"
    env_file += "SHELLOPTS=xtrace\nPS4='$(echo evil >&1)'\nPROMPT_COMMAND='echo evil'\n"

    env = resolve(project, env_file)

    assert output_of(env, str(bash), "-c", "echo good", cwd=project) == "good\n"
    assert len(env.warnings) == 6


def test_an_env_file_does_not_put_modules_before_those_of_a_tool(project: Path) -> None:
    (project / "sitecustomize.py").write_text("print('evil')", encoding="utf-8")
    (project / "json.py").write_text("print('evil')", encoding="utf-8")
    names = ("PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", "PYTHONUSERBASE", "PYTHONPYCACHEPREFIX")

    env = resolve(project, "".join(f"{name}={project}\n" for name in names))

    code = "import json; print('good')"
    assert output_of(env, sys.executable, "-P", "-c", code, cwd=project) == "good\n"
    assert len(env.warnings) == len(names)


@pytest.mark.skipif(sys.platform != "linux", reason="a preload of the Linux loader")
def test_an_env_file_does_not_preload_a_library(project: Path) -> None:
    (project / "evil.so").write_bytes(b"not a library: the loader would complain")

    env = resolve(project, f"LD_PRELOAD={project}/evil.so\nexport LD_LIBRARY_PATH={project}\n")

    names = [warning.removeprefix(f"{project / '.env'}: ").split()[0] for warning in env.warnings]
    assert names == ["LD_PRELOAD", "LD_LIBRARY_PATH"]
    assert output_of(env, "/bin/sh", "-c", "echo good 2>&1", cwd=project) == "good\n"


@pytest.mark.parametrize(
    "name",
    [
        "RYE_DEV_MODE",
        "RYE_SIGNING_KEY_DIR",
        "RYE_BUNDLE_PATH",
        "RYE_PARENT_THREAD_ID",
        "USER_SPACE",
    ],
)
def test_an_env_file_does_not_move_trust_for_tools_that_call_us_again(
    project: Path, name: str
) -> None:
    env = resolve(project, f"{name}=1")

    assert name not in env.variables


@pytest.mark.parametrize(
    "name", ["XDG_CONFIG_HOME", "XDG_CONFIG_DIRS", "GNUPGHOME", "GIT_TEMPLATE_DIR", "PAGER"]
)
def test_an_env_file_does_not_say_where_programs_are_named(project: Path, name: str) -> None:
    assert name not in resolve(project, f"{name}={project}").variables


def test_an_env_file_does_not_bring_the_settings_of_git(project: Path) -> None:
    git = require_program("git")
    (project / "evil" / "git").mkdir(parents=True)
    settings = "[alias]\n\thello = !echo evil\n"
    (project / "evil" / "git" / "config").write_text(settings, encoding="utf-8")

    env = resolve(project, f"XDG_CONFIG_HOME={project}/evil", HOME=str(project / "home"))

    assert "evil" not in output_of(env, str(git), "hello", cwd=project)


def test_an_env_file_has_no_keys_of_connections_written(project: Path) -> None:
    assert "SSLKEYLOGFILE" not in resolve(project, f"SSLKEYLOGFILE={project}/keys").variables


def test_an_env_file_cannot_smuggle_a_reference_into_a_signed_value(project: Path) -> None:
    config = {"env": {"GREETING": "hello ${NAME}", "COPY": "${GREETING}"}}

    env = resolve(project, "NAME='${SECRET} {project_path}'", config, SECRET="s3cret")

    assert env.variables["COPY"] == "hello ${SECRET} {project_path}"


def test_a_folder_name_cannot_smuggle_a_reference_either(tmp_path: Path) -> None:
    project = tmp_path / "${SECRET}"
    project.mkdir()
    resolver = EnvResolver(project_path=project, user_base=None, process_env={"SECRET": "s3cret"})
    config = {"env": {"ROOT": "{project_path}/x"}}

    env = resolver.apply(resolver.base(), config, {"project_path": str(project)})

    assert env.variables["ROOT"] == f"{project}/x"


def test_a_refused_value_is_never_shown(project: Path) -> None:
    env = resolve(project, "LD_PRELOAD=s3cret\nPATH=s3cret\n'A=B'=s3cret\nC=s3cret\0\nD 's3cret\n")

    assert len(env.warnings) == 5
    assert "s3cret" not in "".join(env.warnings)


def test_an_env_file_that_is_a_fifo_does_not_hang_the_call(project: Path) -> None:
    os.mkfifo(project / ".env")

    base = EnvResolver(project_path=project, user_base=None, process_env={"A": "1"}).base()

    assert base.variables == {"A": "1"}
    assert base.warnings == (f"{project / '.env'}: ignored: expected a regular file",)


def test_an_env_file_that_links_to_a_secret_is_not_read(project: Path, tmp_path: Path) -> None:
    (tmp_path / "credentials").write_text("AWS_SECRET=s3cret", encoding="utf-8")
    (project / ".env").symlink_to(tmp_path / "credentials")

    base = EnvResolver(project_path=project, user_base=None, process_env={}).base()

    assert base.variables == {}
