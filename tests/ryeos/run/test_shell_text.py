"""Shell texts with inserted values."""

import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lillux.templating import Names
from ryeos.items.errors import SpecError
from ryeos.run.command import filled_script, script_positions
from tests.support.programs import require_program

# Characters that mean something to a shell come often.
VALUES = st.one_of(
    st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20),
    st.text(alphabet="'\"`$(){}[];|&<>\\#*?~! \n\ta0=", max_size=30),
    st.sampled_from(["$(exit 7)", "`exit 7`", "'; exit 7; '", '"; exit 7; "', "\nexit 7\n", "5"]),
)
# Each prints the value between brackets.
PLACES = [
    "printf '[%s]' {v}",
    'printf "[%s]" "{v}"',
    "printf '[%s]' '{v}'",
    "printf '[%s]' \"$(printf '%s.' \"{v}\")\" | sed '$s/\\.]$/]/'",
    "x={v}; printf '[%s]' \"$x\"",
    'x="{v}"; printf \'[%s]\' "$x"',
    "f() { printf '[%s]' \"$1\"; }; f {v}",
    "printf '[%s]' {v} # {v} it's a \"comment\"\n",
    "printf '[%s]' \"\"{v}''\"\"",
    "true `echo 'a'`; printf '[%s]' {v}",
    "true $((1 + (2))) ${y:-a} ${y#(}; printf '[%s]' \"{v}\"",
    "true $'it is'; printf '[%s]' \"{v}\"",
    "case {v} in *) printf '[%s]' \"{v}\";; esac",
    "x=$(cat <<EOF\n{v}.\nEOF\n); printf '[%s]' \"${x%.}\"",
    "printf '[%s]' \"${x:-{v}}\"",
    "echo 'it'\\''s' >/dev/null; printf '[%s]' {v}",
]

PIECES = [
    *(
        "{v}",
        "{v}",
        "{v}",
        '"',
        "'",
        "`",
        "$(",
        ")",
        "(",
        "((",
        "))",
        "$((",
        "${x:-",
        "}",
        "\\",
        "$",
    ),
    *("$'", "\n", " ", " # ", "<<EOF\n", "\nEOF\n", "echo ", "x=", "; ", "| cat", '\\"', "a", "<("),
    *("case x in ", "x) ", ";; esac", "{ ", "; }", "[[ a == ", " ]]"),
]
ATTACKS = [
    *("'", '"', "`", "\\", "$", "(", ")", "{", "}", " ", "#", "EOF", "\nEOF\n", ";;", "1"),
    *("$(>canary)", "`>canary`", ";>canary;", "\n>canary\n", ">canary", "a[$(>canary)]"),
]


def filled(template: str, **values: object) -> str:
    return filled_script(template, Names(variables={}, opaque=values), "config.script")


def run(script: str, shell: str, folder: Path | None = None) -> str:
    done = subprocess.run(  # the script is what is tested
        [require_program(shell), "-c", script],
        capture_output=True,
        check=False,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        timeout=60,
    )
    return done.stdout.decode("utf-8", "surrogateescape")


@pytest.mark.property
@pytest.mark.parametrize("shell", ["bash", "sh"])
@given(template=st.sampled_from(PLACES), value=VALUES)
def test_a_value_arrives_as_it_is_wherever_it_stands(shell: str, template: str, value: str) -> None:
    if (shell == "sh" and "$'it" in template) or ("((" in template and "[" in value):
        return

    assert run(filled(template, v=value), shell) == f"[{value}]"


@pytest.mark.property
@given(
    pieces=st.lists(st.sampled_from(PIECES), min_size=2, max_size=9),
    value=st.lists(st.sampled_from(ATTACKS), min_size=1, max_size=4),
)
def test_no_value_is_ever_run(
    tmp_path_factory: pytest.TempPathFactory, pieces: list[str], value: list[str]
) -> None:
    folder = tmp_path_factory.mktemp("shell")
    try:
        script = filled("".join(pieces), v="".join(value))
    except SpecError:
        return  # refused is safe

    run(script, "bash", folder)

    assert not (folder / "canary").exists()


@pytest.mark.parametrize(
    ("template", "place"),
    [
        ("echo $(( {v} + 1 ))", "arithmetic"),
        ("(( {v} ))", "arithmetic"),
        ("cat <<'EOF'\n{v}\nEOF", "a quoted here-document"),
        ("echo \\{v}", "a place behind \\"),
        ('echo "\\{v}"', "a place behind \\"),
    ],
)
def test_a_value_in_an_unsafe_place_is_refused(template: str, place: str) -> None:
    with pytest.raises(SpecError) as error:
        filled(template, v="a")

    assert str(error.value) == f"config.script: {{v}} cannot be filled in {place}"
    assert error.value.hint == ("first write value={v} on a line of its own, then use $value")


@pytest.mark.parametrize(
    "template",
    ["[[ {v} -gt 1 ]]", "let x={v}", "declare -i x={v}", "echo ${a[{v}]}", 'echo "$[ {v} ]"'],
)
def test_code_for_arithmetic_is_refused_where_a_script_computes(template: str) -> None:
    with pytest.raises(SpecError) as error:
        filled(template, v="a[$(exit)]")

    assert str(error.value) == (
        "config.script: the value of {v} would be code where this script computes"
    )


@pytest.mark.parametrize(
    "template",
    [
        "echo a\\\n#' {v}\necho {v} #'",
        "echo `echo {v}`",
        "echo $'it\\'s' {v}",
        "echo $((1 # ' \n)) {v}",
        "echo ${x:-'}'} {v}",
        'echo "$(case x in x) echo {v};; esac) {v}"',
    ],
)
def test_a_value_in_an_unusual_place_runs_no_command(tmp_path: Path, template: str) -> None:
    run(
        filled(template, v="'; >canary; \"; >canary; $(>canary) `>canary`\n>canary"),
        "bash",
        tmp_path,
    )

    assert not (tmp_path / "canary").exists()


def test_the_suggested_form_works() -> None:
    script = filled("value={v}\ncat <<EOF\n[$value]\nEOF", v="a\nEOF\nexit 7")

    assert run(script, "sh") == "[a\nEOF\nexit 7]\n"


@pytest.mark.parametrize("value", [5, -3, 2.5, "12"])
@pytest.mark.parametrize(
    "template", ["echo $(( 0 + {v} ))", "cat <<EOF\n{v}\nEOF", "echo `echo {v}`", "echo {{v}..1}"]
)
def test_a_number_is_safe_everywhere(template: str, value: object) -> None:
    assert filled(template, v=value) == template.replace("{v}", str(value))


def test_a_number_before_a_redirection_stays_a_word(tmp_path: Path) -> None:
    run(filled("echo {v}>out", v=2), "sh", tmp_path)

    assert (tmp_path / "out").read_text("utf-8") == "2\n"


@pytest.mark.parametrize("place", ["{v}", '"{v}"', "'{v}'"])
def test_an_empty_value_is_an_empty_word(place: str) -> None:
    assert run(filled(f"set -- {place}; echo $#", v=""), "sh") == "1\n"


def test_values_that_are_no_text_are_json_in_one_word() -> None:
    assert run(filled("printf '[%s]' {v}", v={"a": ["$(exit)", None]}), "sh") == (
        '[{"a": ["$(exit)", null]}]'
    )


def test_a_list_of_the_config_is_one_word_with_the_callers_values_in_it() -> None:
    names = Names(variables={}, templates={"all": ["{v}", "b"]}, opaque={"v": "$(exit 7)'"})

    script = filled_script("printf '[%s]' {all}", names, "config.script")

    assert run(script, "sh") == '["$(exit 7)\'", "b"]'.join("[]")


def test_a_text_of_the_config_is_shell_text_itself() -> None:
    names = Names(variables={}, templates={"say": "echo {v};"}, opaque={"v": "a  b"})

    assert run(filled_script("{say} {say}", names, "config.script"), "sh") == "a  b\na  b\n"


# --- variables


@pytest.mark.parametrize("template", ["echo ${V}", 'echo "${V}"', "echo '${V}'"])
def test_a_variable_is_filled_with_quoting(template: str) -> None:
    names = Names(variables={"V": "a; $(exit 7) 'b'"})

    assert run(filled_script(template, names, "config.script"), "sh") == "a; $(exit 7) 'b'\n"


@pytest.mark.parametrize("template", ["echo $((${V} + 1))", "cat <<'E'\n${V}\nE"])
def test_where_a_variable_cannot_be_referred_to_the_shell_expands_it(template: str) -> None:
    names = Names(variables={"V": "a"})

    assert filled_script(template, names, "config.script") == template


def test_a_variable_of_the_script_itself_is_left_to_the_shell() -> None:
    script = filled_script("N=3; echo ${N} ${M:-a b}", Names(variables={}), "config.script")

    assert run(script, "sh") == "3 a b\n"


def test_a_lower_case_variable_is_the_shells_even_if_a_parameter_has_its_name() -> None:
    assert run(filled("file=mine; echo ${file}", file="'; exit 7; '"), "sh") == "mine\n"


# --- commands


def test_the_whole_command_of_a_caller_is_handed_over_as_it_is() -> None:
    assert filled(" {command} ", command="echo a | cat") == "echo a | cat"
    assert run(filled("echo {command} -v", command="a | cat"), "sh") == "a | cat -v\n"


@pytest.mark.parametrize("template", ["echo \0", "echo \0{v}", "echo \x007\x00", "{v} \x001\x00"])
def test_a_text_with_a_nul_is_refused(template: str) -> None:
    with pytest.raises(SpecError) as error:
        filled(template, v="a")

    assert str(error.value) == "config.script: expected text without NUL characters"


@pytest.mark.parametrize(
    ("words", "scripts"),
    [
        (["bash", "-c", "S", "name", "-c", "no"], {2}),
        (["/usr/local/bin/bash-5.2", "-lc", "S"], {2}),
        (["sh", "-ec", "S"], {2}),
        (["bash", "-eo", "pipefail", "-c", "S"], {4}),
        (["bash", "-c", "-o", "pipefail", "S", "no"], {2, 3, 4}),
        (["bash", "--norc", "--rcfile", "f", "-c", "--", "S", "no"], {5, 6}),
        (["env", "A=1", "bash", "-c", "S"], {4}),
        (["docker", "run", "image", "sh", "-c", "S"], {5}),
        (["bash.exe", "-c", "S"], {2}),
        (["bash", "script.sh", "-c", "no"], set()),
        (["python", "-c", "no"], set()),
        (["bash"], set()),
        (["bash", "-c"], set()),
        (["grep", "-c", "no"], set()),
    ],
)
def test_the_argument_after_c_is_a_script(words: list[str], scripts: set[int]) -> None:
    assert script_positions(words) == scripts
