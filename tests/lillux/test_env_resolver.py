import logging
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lillux.env_resolver import EnvResolver, ResolvedEnv, _expand, child_environment
from lillux.errors import ConfigurationError
from lillux.interpreters import MissingInterpreter
from tests.support.executables import make_program
from tests.support.scripted_process import Answer, ScriptedProcess

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="programs here have mode bits")

NO_CONTEXT: Mapping[str, str] = {}
PYTHON: Mapping[str, object] = {
    "type": "local_binary",
    "binary": "python",
    "search_paths": [".venv/bin"],
    "var": "RYE_PYTHON",
}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    path = tmp_path / "project"
    path.mkdir()
    return path


def resolver(
    project: Path | None = None, *, platform: str = "linux", **process_env: str
) -> EnvResolver:
    return EnvResolver(
        project_path=project, user_base=None, process_env=process_env, platform=platform
    )


def apply(env_config: object, context: Mapping[str, str] = NO_CONTEXT, **start: str) -> ResolvedEnv:
    shapeless: Any = env_config
    return resolver().apply(ResolvedEnv(variables=start), shapeless, context)


# --- the base environment


def test_the_base_is_the_process_environment_with_the_env_file_over_it(project: Path) -> None:
    (project / ".env").write_text("A=file\nB=file\nPATH=/evil\n", encoding="utf-8")

    base = resolver(project, A="process", PATH="/bin").base()

    refusal = f"{project / '.env'}: PATH is not taken: it is protected and already set"
    assert base == ResolvedEnv(
        variables={"A": "file", "B": "file", "PATH": "/bin"},
        warnings=(refusal,),
        dotenv=("A", "B"),
    )


def test_the_env_file_is_read_once(project: Path) -> None:
    file = project / ".env"
    file.write_text("A=first", encoding="utf-8")
    subject = resolver(project)
    first = subject.base()

    file.write_text("A=second", encoding="utf-8")

    assert subject.base() is first
    assert first.variables == {"A": "first"}


def test_without_a_project_the_base_is_the_process_environment() -> None:
    assert resolver(None, A="1").base() == ResolvedEnv(variables={"A": "1"})


def test_the_environment_of_this_process_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_OF_THE_ENGINE", "1")

    assert resolver().resolve({"env": {"A": "${SECRET_OF_THE_ENGINE}"}}) == {"A": ""}


def test_a_relative_folder_is_refused() -> None:
    with pytest.raises(ConfigurationError) as project:
        EnvResolver(project_path=Path("here"), user_base=None, process_env={})
    with pytest.raises(ConfigurationError) as user:
        EnvResolver(project_path=None, user_base=Path("~"), process_env={})

    assert str(project.value) == "project_path: expected an absolute path, got 'here'"
    assert str(user.value) == "user_base: expected an absolute path, got '~'"


# --- static values


def test_static_values_see_the_ones_before_them() -> None:
    env = apply(
        {"env": {"A": "${HOME}/a", "B": "${A}/b", "HOME": "/other", "C": "${HOME}"}}, HOME="/h"
    )

    assert env.variables == {"HOME": "/other", "A": "/h/a", "B": "/h/a/b", "C": "/other"}
    assert env.contributed == ("A", "B", "C", "HOME")


def test_values_that_are_no_strings_are_written_out() -> None:
    env = apply({"env": {"A": 1, "B": 1.5, "C": True}})

    assert env.variables == {"A": "1", "B": "1.5", "C": "True"}


def test_the_tool_wins_over_runtime_process_and_env_file(project: Path) -> None:
    (project / ".env").write_text("FOO=file", encoding="utf-8")
    subject = resolver(project, PYTHONUNBUFFERED="process", FOO="process")
    runtime = {"env": {"PYTHONUNBUFFERED": "1", "FOO": "runtime", "BAR": "runtime"}}
    tool = {"env": {"PYTHONUNBUFFERED": "9", "FOO": "tool"}}

    env = subject.base()
    for env_config in (None, runtime, tool):
        env = subject.apply(env, env_config, {})

    assert env.variables == {"PYTHONUNBUFFERED": "9", "FOO": "tool", "BAR": "runtime"}
    assert env.contributed == ("BAR", "FOO", "PYTHONUNBUFFERED")


def test_accumulated_values_are_not_changed() -> None:
    start = ResolvedEnv(variables={"A": "1"})

    resolver().apply(start, {"env": {"A": "2"}, "interpreter": PYTHON}, {})

    assert start == ResolvedEnv(variables={"A": "1"})


# --- placeholders


def test_placeholders_are_filled_throughout(project: Path) -> None:
    program = make_program(project / "anchor" / ".venv" / "bin" / "python")
    context = {"anchor_path": str(project / "anchor"), "venv": ".venv"}
    env_config = {
        "interpreter": {
            **PYTHON,
            "search_roots": ["{anchor_path}"],
            "search_paths": ["{venv}/bin"],
            "fallback": "{anchor_path}/python",
        },
        "env": {"LIB": "{anchor_path}/lib", "CACHE": "${CACHE:-{anchor_path}/cache}!"},
    }

    unset = resolver(project).apply(ResolvedEnv(variables={}), env_config, context)
    is_set = resolver(project).apply(ResolvedEnv(variables={"CACHE": "/c"}), env_config, context)

    assert unset.variables == {
        "RYE_PYTHON": str(program),
        "LIB": f"{project}/anchor/lib",
        "CACHE": f"{project}/anchor/cache!",
    }
    assert is_set.variables["CACHE"] == "/c!"


@pytest.mark.parametrize("text", ["{unknown}", "{Tool_Path}", "{}", "{ name }", "${name}", "{{"])
def test_an_unknown_placeholder_stays(text: str) -> None:
    assert apply({"env": {"A": text}}, {"name": "x"}).variables == {"A": text}


def test_inserted_values_are_not_expanded_again() -> None:
    context = {"path": "/my ${SECRET} {other}", "other": "wrong"}
    env = apply(
        {"env": {"A": "{path}", "B": "${VALUE}", "C": "${A}"}},
        context,
        SECRET="secret",
        VALUE="${SECRET} {other}",
    )

    assert env.variables["A"] == env.variables["C"] == "/my ${SECRET} {other}"
    assert env.variables["B"] == "${SECRET} {other}"


# --- interpreter blocks


def test_an_interpreter_is_there_for_static_values(project: Path) -> None:
    program = make_program(project / ".venv" / "bin" / "python")
    env_config = {"env": {"PROJECT_VENV_PYTHON": "${RYE_PYTHON}"}, "interpreter": PYTHON}

    env = resolver(project).apply(ResolvedEnv(variables={}), env_config, {})

    both = {"RYE_PYTHON": str(program), "PROJECT_VENV_PYTHON": str(program)}
    assert env == ResolvedEnv(variables=both, contributed=("PROJECT_VENV_PYTHON", "RYE_PYTHON"))


def test_any_mapping_with_type_and_var_is_a_block_and_interpreter_comes_first(
    project: Path,
) -> None:
    unknown = {"type": "unknown", "var": "X"}
    env_config: dict[Any, object] = {
        "zebra": unknown,
        "mcp_runner": unknown,
        "interpreter": unknown,
        "only_type": {"type": "unknown"},
        "only_var": {"var": "X"},
        "text": "unknown",
        3: unknown,
    }

    env = resolver(project).apply(ResolvedEnv(variables={}), env_config, {})

    places = [warning.partition(":")[0] for warning in env.warnings]
    keys = ("interpreter", "zebra", "mcp_runner", "3")
    assert places == [f"env_config.{key}" for key in keys]


def test_a_missing_interpreter_stays_unset_and_is_reported(project: Path) -> None:
    env = resolver(project).apply(ResolvedEnv(variables={}), {"interpreter": PYTHON}, {})

    folder = f"{project}/.venv/bin"
    assert env == ResolvedEnv(
        variables={},
        warnings=(f"env_config.interpreter: RYE_PYTHON stays unset: no python in {folder}",),
        missing=(MissingInterpreter("RYE_PYTHON", ("python",), (folder,)),),
    )


def test_a_later_element_that_sets_the_variable_makes_good_for_a_missing_interpreter(
    project: Path,
) -> None:
    subject = resolver(project)
    missing = subject.apply(subject.base(), {"interpreter": PYTHON}, {})

    by_value = subject.apply(missing, {"env": {"RYE_PYTHON": "/opt/python"}}, {})
    make_program(project / ".venv" / "bin" / "python")
    by_search = subject.apply(missing, {"interpreter": PYTHON}, {})

    assert by_value.missing == by_search.missing == ()


def test_a_later_search_in_vain_keeps_the_result_of_an_earlier_element(project: Path) -> None:
    subject = resolver(project)
    found = subject.apply(subject.base(), {"env": {"RYE_PYTHON": "/opt/python"}}, {})

    env = subject.apply(found, {"interpreter": PYTHON}, {})

    assert env.variables == {"RYE_PYTHON": "/opt/python"}


def test_the_tools_interpreter_wins_over_the_runtimes(project: Path) -> None:
    runtimes = make_program(project / ".venv" / "bin" / "python")
    tools = make_program(project / "tool" / "bin" / "python")
    subject = resolver(project)

    first = subject.apply(subject.base(), {"interpreter": PYTHON}, {})
    env = subject.apply(first, {"interpreter": {**PYTHON, "search_paths": ["tool/bin"]}}, {})

    assert first.variables == {"RYE_PYTHON": str(runtimes)}
    assert env.variables == {"RYE_PYTHON": str(tools)}


def test_a_file_in_the_process_environment_is_kept_as_interpreter(
    project: Path, tmp_path: Path
) -> None:
    make_program(project / ".venv" / "bin" / "python")
    chosen = str(make_program(tmp_path / "chosen"))
    subject = resolver(project, RYE_PYTHON=chosen)

    env = subject.apply(subject.base(), {"interpreter": PYTHON}, {})

    assert env == ResolvedEnv(variables={"RYE_PYTHON": chosen}, contributed=("RYE_PYTHON",))


def test_path_of_the_resolved_environment_is_searched(tmp_path: Path) -> None:
    program = make_program(tmp_path / "bash")
    block = {"type": "system_binary", "binary": "bash", "var": "RYE_BASH"}
    subject = resolver(None, PATH="/bin:/usr/bin")
    env = subject.apply(subject.base(), {"env": {"PATH": f"{tmp_path}:${{PATH}}"}}, {})

    env = subject.apply(env, {"interpreter": block}, {})

    assert env.variables["RYE_BASH"] == str(program)


def test_a_command_sees_the_resolved_environment(project: Path) -> None:
    runner = ScriptedProcess(Answer(stdout=b"/bin/sh\n"))
    subject = EnvResolver(
        project_path=project, user_base=None, process_env={"PATH": "/bin"}, runner=runner
    )
    block = {"type": "command", "resolve_cmd": ["sh", "{tool_dir}"], "var": "RYE_SH"}
    env = subject.apply(subject.base(), {"env": {"A": "1"}}, {})

    env = subject.apply(env, {"interpreter": block}, {"tool_dir": "/tool"})

    (ran,) = runner.commands
    assert (ran.argv, ran.env, ran.cwd) == (
        ("/bin/sh", "/tool"),
        {"PATH": "/bin", "A": "1"},
        project,
    )
    assert env.variables["RYE_SH"] == "/bin/sh"


# --- Windows


def test_on_windows_a_name_has_one_spelling(tmp_path: Path) -> None:
    program = make_program(tmp_path / "node.exe")
    subject = resolver(None, platform="win32", Path=str(tmp_path), Home="/h")
    block = {"type": "system_binary", "binary": "node", "var": "Rye_Node"}

    env = subject.apply(subject.base(), {"interpreter": block, "env": {"home": "${HOME}/x"}}, {})

    assert env.variables == {"PATH": str(tmp_path), "HOME": "/h/x", "RYE_NODE": str(program)}
    assert child_environment(env, unset=["Home", "Path"], platform="win32") == {
        "RYE_NODE": str(program)
    }


# --- resolve


def test_resolve_takes_five_steps(project: Path) -> None:
    (project / ".env").write_text("A=file\nB=file\nC=file\nD=file", encoding="utf-8")
    program = make_program(project / ".venv" / "bin" / "python")
    env_config = {"interpreter": PYTHON, "env": {"C": "static", "D": "static", "E": "${A}"}}

    env = resolver(project, A="process", Z="process").resolve(env_config, {"D": "tool"})

    assert env == {
        "A": "file",
        "B": "file",
        "C": "static",
        "D": "tool",
        "E": "file",
        "RYE_PYTHON": str(program),
        "Z": "process",
    }


def test_resolve_without_elements_is_the_base(project: Path) -> None:
    (project / ".env").write_text("A=file", encoding="utf-8")

    assert resolver(project, A="process").resolve() == {"A": "file"}


def test_resolve_can_leave_the_env_file_out(project: Path) -> None:
    (project / ".env").write_text("A=file", encoding="utf-8")

    assert resolver(project, A="process").resolve(include_dotenv=False) == {"A": "process"}


def test_resolve_logs_its_warnings(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        resolver().resolve({"interpreter": PYTHON})

    assert caplog.messages == [
        "env_config.interpreter: RYE_PYTHON stays unset: no python in no folder at all"
    ]


def test_the_result_of_resolve_belongs_to_the_caller() -> None:
    subject = resolver(None, A="1")

    subject.resolve().clear()

    assert subject.resolve() == {"A": "1"}


# --- shapes


@pytest.mark.parametrize(
    ("env_config", "error"),
    [
        ([], "env_config: expected a mapping, got list"),
        ("x", "env_config: expected a mapping, got str"),
        ({"env": ["A=1"]}, "env_config.env: expected a mapping, got list"),
        ({"interpreter": "python"}, "env_config.interpreter: expected a mapping, got str"),
        (
            {"interpreter": {"type": "system_binary", "var": 3}},
            "env_config.interpreter.var: expected a string, got int",
        ),
        (
            {"runner": {"type": 1, "var": "X"}},
            "env_config.runner.type: expected a string, got int",
        ),
        ({"env": {True: "x"}}, "env_config.env: expected a string, got bool"),
        ({"env": {"": "x"}}, "env_config.env: expected the name of a variable, got ''"),
        ({"env": {"A=B": "x"}}, "env_config.env: expected the name of a variable, got 'A=B'"),
        ({"env": {"A": None}}, "env_config.env.A: expected a string or a number, got nothing"),
        ({"env": {"A": ["x"]}}, "env_config.env.A: expected a string or a number, got list"),
        ({"env": {"A": {}}}, "env_config.env.A: expected a string or a number, got dict"),
        ({"env": {"A": b"x"}}, "env_config.env.A: expected a string or a number, got bytes"),
        (
            {"env": {"A": 1 << 20_000}},
            "env_config.env.A: expected a number that can be written out",
        ),
        ({"env": {"A": "x\0"}}, "env_config.env.A: expected text without NUL characters"),
        (
            {"env": {"A": "\ud800"}},
            "env_config.env.A: expected text this system can encode, found '\\ud800'",
        ),
    ],
)
def test_a_wrong_shape_is_an_error_with_its_path(env_config: object, error: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        apply(env_config)

    assert str(raised.value) == error


@pytest.mark.parametrize("env_config", [None, {}, {"env": None, "interpreter": None}])
def test_an_empty_block_changes_nothing(env_config: object) -> None:
    assert apply(env_config, A="1") == ResolvedEnv(variables={"A": "1"})


def test_a_list_that_holds_itself_ends() -> None:
    endless: list[object] = []
    endless.append(endless)
    block: dict[str, object] = {**PYTHON, "candidates": endless}

    with pytest.raises(ConfigurationError) as error:
        apply({"interpreter": block, "other": endless})

    where = "env_config.interpreter.candidates[0]"
    assert str(error.value) == f"{where}: expected a string, got list"


# --- variables in text


def expand_variables(text: str, variables: Mapping[str, str]) -> str:
    """The value of a text in ``env`` of a tool, before any context."""
    return _expand(text, variables, {})


VARIABLES = {"A": "a", "B_2": "b", "_": "u", "EMPTY": "", "LOOP": "${LOOP}${A}"}


@pytest.mark.parametrize(
    ("text", "expanded"),
    [
        ("${A}", "a"),
        ("x${A}y${B_2}${_}", "xaybu"),
        ("${A}${A}", "aa"),
        ("${MISSING}", ""),
        ("${EMPTY}", ""),
        ("${MISSING:-default}", "default"),
        ("${EMPTY:-default}", "default"),
        ("${A:-default}", "a"),
        ("${MISSING:-}", ""),
        ("${MISSING:-a:-b c}", "a:-b c"),
        ("${MISSING:-{project_path}/x}", "{project_path}/x"),
        ("${A:-{project_path}/x}y", "ay"),
        ("${MISSING:-{}}", "{}"),
        ("${MISSING:-${A}}", "${A}"),
        ("${LOOP}", "${LOOP}${A}"),
        ("$${A}", "$a"),
        ("${MISSING:-line\nbreak}", "line\nbreak"),
    ],
)
def test_variables_are_expanded(text: str, expanded: str) -> None:
    assert expand_variables(text, VARIABLES) == expanded


@pytest.mark.parametrize(
    "text",
    [
        *("", "$", "$$", "$A", "{A}", "{a}", "${", "${}", "${A", "${A:-x", "${ A }", "${A }"),
        *("${a}", "${Ab}", "${state.x}", "${STATE.x}", "${1A}", "${A-x}", "${A:x}", "${Ä}", "%A%"),
    ],
)
def test_a_text_that_is_no_variable_stays(text: str) -> None:
    assert expand_variables(text, VARIABLES) == text


@pytest.mark.parametrize(
    "piece", ["${X:-", "${X:-{a}", "${X:-{a", "${", "{", "{a", "${X", "${X:-}", "${X:-{}"]
)
@pytest.mark.parametrize("end", ["", "}"])
def test_long_texts_take_linear_time(piece: str, end: str) -> None:
    text = piece * (1024 * 1024 // len(piece)) + end

    assert len(expand_variables(text, {})) <= len(text)


NAMES = st.from_regex(r"[A-Z_][A-Z0-9_]*", fullmatch=True)


@pytest.mark.property
@given(
    text=st.text(st.sampled_from("${}AabXx_.:-1 \n\\")), variables=st.dictionaries(NAMES, st.text())
)
@example(text="${state.x}", variables={"STATE": "x"})
def test_text_without_an_upper_case_reference_stays(
    text: str, variables: Mapping[str, str]
) -> None:
    text = text.lower().replace("_", "x")

    assert expand_variables(text, variables) == text


@pytest.mark.property
@given(pieces=st.lists(st.tuples(st.text(st.sampled_from("ab ./")), NAMES)), value=st.text())
@example(pieces=[("", "HOME")], value="${HOME}")
def test_values_go_in_as_they_are(pieces: list[tuple[str, str]], value: str) -> None:
    text = "".join(f"{before}${{{name}}}" for before, name in pieces)
    variables = {name: value for _, name in pieces}

    expanded = expand_variables(text, variables)

    assert expanded == "".join(f"{before}{value}" for before, _ in pieces)


@pytest.mark.property
@given(name=NAMES, default=st.text(st.characters(exclude_characters="{}")), value=st.text())
def test_a_default_stands_in_for_a_missing_or_empty_variable(
    name: str, default: str, value: str
) -> None:
    text = f"<${{{name}:-{default}}}>"

    assert expand_variables(text, {}) == expand_variables(text, {name: ""}) == f"<{default}>"
    assert expand_variables(text, {name: value}) == f"<{value or default}>"


# --- the child's environment


def test_a_child_gets_all_variables_but_the_unset_ones() -> None:
    env = ResolvedEnv(variables={"A": "1", "B": "2", "SSH_AUTH_SOCK": "3"}, contributed=("A",))

    assert child_environment(env, unset=["B", "NOT_THERE"], minimal=False) == {
        "A": "1",
        "SSH_AUTH_SOCK": "3",
    }


def test_a_minimal_child_gets_the_allowed_and_the_contributed_names() -> None:
    names = ("HOME", "PATH", "LANG", "TERM", "TMPDIR")
    secrets = ("RYE_SIGNING_KEY_DIR", "SSH_AUTH_SOCK", "AWS_SECRET_ACCESS_KEY")
    variables = dict.fromkeys((*names, *secrets, "RYE_PYTHON", "FROM_ENV_FILE"), "x")
    env = ResolvedEnv(variables=variables, contributed=("RYE_PYTHON",))

    child = child_environment(env, unset=["TERM"], minimal=True)

    assert set(child) == {"HOME", "PATH", "LANG", "TMPDIR", "RYE_PYTHON"}
