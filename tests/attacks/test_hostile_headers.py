"""Headers written to run code, read files or stop the machine: each is an error."""

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from ryeos.items.directives import parse_directive
from ryeos.items.header_values import MetadataError
from ryeos.items.headers import PARSERS, parse_header
from ryeos.items.knowledge import parse_knowledge

MANY = 100_000
CPU_LIMIT_S = 4.0  # a text of this size takes milliseconds to a second; quadratic work, minutes
MESSAGE_LIMIT = 400

PARSE_ANY: dict[str, Callable[[str], object]] = {
    **{suffix: PARSERS[suffix] for suffix in (".py", ".yaml", ".json", ".js", ".sh", ".toml")},
    "directive": parse_directive,
    "directive block": lambda inside: parse_directive(f"```xml\n{inside}</directive>\n```\n"),
    "knowledge": lambda text: parse_knowledge(text, ".md"),
    "schema": lambda literal: parse_header(".js", f"const CONFIG_SCHEMA = {literal}"),
    "doc comment": lambda text: parse_header(".js", f"/** {text} */"),
    "value": lambda text: parse_header(".yaml", f"a: {text}"),
}

REPEATED = [
    "{", "[", "(", "}", "<", "<a>", "<a ", "</a>", "<!--", "<template>", "<template ", "<![CDATA[",
    "/*", "/**", "*", "//", "/", "/[", "= /", "`", "`${", "${", '"', "'", '"""', "'''", '"\\', "\\",
    "#", "# @version 1\n", "# version: ", "_", "__", "__a__=", "-", "- ", "? ", ": ", "a: ", "&a ",
    "*a ", "! ", ".", "a.", '"a".', ",", "1:", "9", "0x1", "1_", "\n", " ", "\t", "---\n", "```\n",
    "````\n", "```xml\n", "<!-- rye:\n", "a\n", "%TAG !a! b\n", "%A\n", "é", "\ufeff", "const A=",
    "const A:", "[[a]]\n", "a.b.c=1\n", "x=1\n", "not ", "lambda:", "1+", "f(",
]  # fmt: skip


@pytest.mark.heavy
@pytest.mark.parametrize("piece", REPEATED)
def test_no_repetition_takes_long_or_gets_through_as_another_error(piece: str) -> None:
    text = piece * (MANY // len(piece))
    seconds: dict[str, float] = {}
    messages: list[str] = []

    for name, parse in PARSE_ANY.items():
        before = time.process_time()
        try:
            parse(text)
        except MetadataError as error:
            messages.append(str(error))
        seconds[name] = time.process_time() - before

    assert [name for name, taken in seconds.items() if taken > CPU_LIMIT_S] == []
    assert [message for message in messages if len(message) > MESSAGE_LIMIT] == []


@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}"), ("[{'a':", "}]")])
@pytest.mark.parametrize("suffix", [".py", ".yaml", ".json", ".js", ".toml"])
def test_balanced_nesting_of_any_depth_is_refused_or_skipped(
    suffix: str, opening: str, closing: str
) -> None:
    for depth in (65, 300, 3_000, 30_000):
        nested = opening * depth + "1" + closing * depth
        text = {
            ".json": f'{{"a": {nested}}}',
            ".yaml": f"a: {nested}",
        }.get(suffix, f"a = {nested}")

        try:
            header = parse_header(suffix, text)
        except MetadataError:
            header = {}

        assert header == {}


def test_a_python_header_is_never_executed(tmp_path: Path) -> None:
    witness = tmp_path / "executed"
    text = (
        '__version__ = "1.0.0"\n'
        f"open({str(witness)!r}, 'w').close()\n"
        f"A = __import__('pathlib').Path({str(witness)!r}).touch()\n"
        f"B: __import__('pathlib').Path({str(witness)!r}).touch() = 1\n"
        f"class C(__import__('pathlib').Path({str(witness)!r}).touch()): pass\n"
        "import antigravity, this\n"
        "raise SystemExit\n"
    )

    header = parse_header(".py", text)

    assert header == {"__version__": "1.0.0", "B": 1}
    assert not witness.exists()


@pytest.mark.parametrize(
    "value",
    [
        "!!python/object/apply:os.system ['touch {witness}']",
        "!!python/object/new:os.system ['touch {witness}']",
        "!!python/object:pathlib.Path {{}}",
        "!!python/module:antigravity ''",
        "!!python/name:os.system ''",
        "!!python/tuple [1]",
        "!<tag:yaml.org,2002:python/object/apply:os.system> ['touch {witness}']",
        "{{? !!python/object/apply:os.system ['touch {witness}'] : 1}}",
        "{{? !!python/name:os.system x : 1}}",
    ],
)
def test_a_yaml_tag_makes_no_object(value: str, tmp_path: Path) -> None:
    witness = tmp_path / "executed"

    with pytest.raises(MetadataError) as error:
        parse_header(".yaml", f"a: {value.format(witness=witness)}")

    assert not witness.exists()
    assert error.value.line == 1


def test_a_yaml_tag_with_its_own_handle_makes_no_object() -> None:
    text = "%TAG !p! tag:yaml.org,2002:python/\n---\na: !p!name:os.system ''\n"

    with pytest.raises(MetadataError) as error:
        parse_header(".yaml", text)

    assert str(error.value) == "yaml header, line 1: expected YAML's own tags, found %TAG"


def bomb(levels: int, width: int, first: str, layer: str) -> str:
    lines = [first]
    for level in range(1, levels):
        aliases = ", ".join([f"*a{level - 1}"] * width)
        lines.append(layer.format(level=level, aliases=aliases))
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize(
    "text",
    [
        bomb(9, 10, "a0: &a0 lol", "a{level}: &a{level} [{aliases}]"),
        bomb(40, 2, "a0: &a0 [lol]", "a{level}: &a{level} [{aliases}]"),
        bomb(9, 10, "a0: &a0 {x: lol}", "a{level}: &a{level} {{k: [{aliases}]}}"),
        f"a: &a {'x' * 100_000}\nb: [{', '.join(['*a'] * 1000)}]\n",
        "a: &a {" + ", ".join(f"k{n}: 1" for n in range(5_000)) + "}\n"
        "b: {<<: [" + ", ".join(["*a"] * 50_000) + "]}\n",
    ],
    ids=["billion laughs", "two at a time", "mappings", "one long text", "merged"],
)
def test_aliases_do_not_multiply(text: str) -> None:
    before = time.process_time()

    with pytest.raises(MetadataError, match="expected at most"):
        parse_header(".yaml", text)

    assert time.process_time() - before < CPU_LIMIT_S


def test_an_alias_of_itself_is_refused() -> None:
    with pytest.raises(MetadataError, match="expected an anchor above the alias 'a', found none"):
        parse_header(".yaml", "a: &a {b: *a}\n")


ENTITIES = {
    "a file": '<!DOCTYPE directive [<!ENTITY x SYSTEM "file://{secret}">]>',
    "a public id": '<!DOCTYPE directive [<!ENTITY x PUBLIC "-//x//y" "file://{secret}">]>',
    "a parameter": '<!DOCTYPE directive [<!ENTITY % p SYSTEM "file://{secret}"> %p;]>',
    "an external subset": '<!DOCTYPE directive SYSTEM "file://{secret}">',
    "billion laughs": '<!DOCTYPE directive [<!ENTITY a "lol">'
    + "".join(f'<!ENTITY {after} "{f"&{name};" * 10}">' for name, after in ("ab", "bc", "cx"))
    + "]>",
    "an attribute default": '<!DOCTYPE directive [<!ATTLIST directive name CDATA "evil">]>',
}


@pytest.mark.parametrize("doctype", list(ENTITIES.values()), ids=list(ENTITIES))
def test_no_entity_is_declared_and_no_file_is_read(doctype: str, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("hunter2", encoding="utf-8")
    block = doctype.replace("{secret}", str(secret)) + "\n<directive><a>&x;</a></directive>"

    with pytest.raises(MetadataError) as error:
        parse_directive(f"```xml\n{block}\n```\n")

    assert str(error.value) == (
        "directive header, line 2: expected an element, found a document type"
    )


SIGNED = "<directive><metadata><limits spend='1'/></metadata></directive>"


@pytest.mark.parametrize(
    "block",
    [
        f"<!-- {SIGNED} -->\n<directive name='evil'/>",
        f"<!-- {SIGNED} -->\n<directive name='evil'></directive >",
        f"<directive name='evil'></directive\n><!-- {SIGNED} -->",
        f"<?x {SIGNED} ?><directive name='evil'/>",
    ],
)
def test_a_second_element_cannot_replace_the_signed_one(block: str) -> None:
    with pytest.raises(MetadataError, match="expected the XML block to end with </directive>"):
        parse_directive(f"```xml\n{block}\n```\n")


@pytest.mark.heavy
def test_a_hostile_python_file_does_not_crash_the_interpreter() -> None:
    pieces = [
        *("(", "-", "not ", "lambda:", "a.b", "1+", "2**", "~", "a()", "a[0]", "{0:", "f'{"),
        *("if a:\n p\nelif ", "await ", "1 if 1 else ", "[{(", "\\\n", "a=", "a:=", "**", "'a'"),
    ]
    script = (
        "from ryeos.items.headers import MetadataError, parse_header\n"
        f"for piece in {pieces!r}:\n"
        "    try:\n"
        "        parse_header('.py', 'x = ' + piece * (900_000 // len(piece)) + '1')\n"
        "    except MetadataError:\n"
        "        pass\n"
        "print('alive')\n"
    )

    found = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, check=False, encoding="utf-8"
    )

    assert (found.returncode, found.stdout) == (0, "alive\n")
