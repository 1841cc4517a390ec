import pytest

from ryeos.items.directives import (
    Directive,
    DirectiveAction,
    DirectiveInput,
    DirectiveOutput,
    DirectiveStep,
    parse_directive,
)
from ryeos.items.header_values import MetadataError


def directive(inside: str = "", attributes: str = "") -> Directive:
    return parse_directive(f"```xml\n<directive{attributes}>{inside}</directive>\n```\n")


def with_metadata(inside: str) -> Directive:
    return directive(f"<metadata>{inside}</metadata>")


def problem_of(inside: str) -> str:
    with pytest.raises(MetadataError) as error:
        directive(inside)
    assert error.value.parser == "directive"
    return str(error.value).removeprefix("directive header, line 2: ")


def test_an_empty_directive_has_empty_fields() -> None:
    assert directive() == Directive(
        name="",
        version="",
        extends=None,
        description="",
        category=None,
        author=None,
        model=None,
        limits={},
        permissions=(),
        acknowledged={},
        context={},
        hooks=(),
        runtime={},
        extra={},
        inputs=(),
        outputs=(),
        actions=(),
        steps=(),
        body="",
        preamble="",
        xml="<directive></directive>",
    )


def test_name_version_and_extends_are_attributes() -> None:
    found = directive(attributes=' name="a" version="1.0.0" extends="b/c"')

    assert (found.name, found.version, found.extends) == ("a", "1.0.0", "b/c")


def test_preamble_and_body_stand_around_the_block() -> None:
    text = (
        "<!-- rye:signed:x -->\n<!-- rye:covers:y -->\n# Title\n\n"
        "````md\n```xml\n<example/>\n```\n````\n\n"
        "```xml\n<directive/>\n</directive>\n```\n\nDo {input:x}.\n```xml\n<later/>\n```\n"
    ).replace("<directive/>\n", '<directive name="a">\n')

    found = parse_directive(text)

    assert found.name == "a"
    assert found.preamble == "# Title\n\n````md\n```xml\n<example/>\n```\n````"
    assert found.body == "Do {input:x}.\n```xml\n<later/>\n```"
    assert found.xml == '<directive name="a">\n</directive>'


def test_the_description_of_the_root_counts_before_that_of_the_metadata() -> None:
    inner = "<metadata><description>inner</description></metadata>"

    assert directive(inner).description == "inner"
    assert directive(f"{inner}<description> outer </description>").description == "outer"


def test_an_empty_category_is_not_a_missing_one() -> None:
    assert with_metadata("<category></category>").category == ""
    assert with_metadata("<author>me</author>").category is None


@pytest.mark.parametrize("tag", ["model", "model_class"])
def test_the_model_is_its_attributes(tag: str) -> None:
    found = with_metadata(f'<{tag} tier="general" parallel="true"/>')

    assert found.model == {"tier": "general", "parallel": "true"}


def test_limits_are_numbers_where_numbers_are_written() -> None:
    found = with_metadata(
        '<limits turns="6" spend="1.5" down="-1" half=".5" e="1.0e3" huge="1.0e999" '
        f'text="six" blank=" 6" other="\uff11" long="{"9" * 301}"/>'
    )

    assert found.limits == {
        "turns": 6,
        "spend": 1.5,
        "down": -1,
        "half": 0.5,
        "e": 1000.0,
        "huge": "1.0e999",
        "text": "six",
        "blank": " 6",
        "other": "\uff11",
        "long": "9" * 301,
    }


def test_runtime_may_have_booleans_too() -> None:
    found = with_metadata(
        '<runtime strict="true" retries="2"><name>x</name><on>false</on></runtime>'
    )

    assert found.runtime == {"strict": True, "retries": 2, "name": "x", "on": False}


def test_context_lists_items_by_tag() -> None:
    found = with_metadata(
        "<context><system>a</system><before>b</before><before>c</before><suppress>d</suppress>"
        "</context>"
    )

    assert found.context == {"system": ("a",), "before": ("b", "c"), "suppress": ("d",)}


def test_hooks_are_kept_as_elements() -> None:
    (hook,) = with_metadata('<hooks><hook event="error"><execute/></hook></hooks>').hooks

    assert (hook.tag, hook.attributes, [child.tag for child in hook.children]) == (
        "hook",
        {"event": "error"},
        ["execute"],
    )


def test_unknown_metadata_is_kept_as_text() -> None:
    found = with_metadata("<audience>every<b>one</b></audience><empty/>")

    assert found.extra == {"audience": "everyone", "empty": ""}


@pytest.mark.parametrize(
    ("written", "granted"),
    [
        ("*", ["rye.*"]),
        ("<execute>*</execute>", ["rye.execute.*"]),
        ("<execute><tool>a.b.*</tool></execute>", ["rye.execute.tool.a.b.*"]),
        (
            "<fetch><tool>*</tool><knowledge> a.* </knowledge></fetch><sign>*</sign>",
            ["rye.fetch.tool.*", "rye.fetch.knowledge.a.*", "rye.sign.*"],
        ),
        (
            "<search>*</search><load><tool>a</tool></load>",
            ["rye.search.*", "rye.fetch.*", "rye.load.tool.a", "rye.fetch.tool.a"],
        ),
        ("<fetch>*</fetch><load>*</load>", ["rye.fetch.*", "rye.load.*"]),
        (
            "<fetch>*</fetch><search>*</search>",
            ["rye.fetch.*", "rye.load.*", "rye.search.*"],
        ),
        ('<acknowledge risk="shell">yes</acknowledge>', []),
    ],
)
def test_permissions_are_capability_strings(written: str, granted: list[str]) -> None:
    found = with_metadata(f"<permissions>{written}</permissions>")

    assert list(found.permissions) == granted


def test_acknowledged_risks_keep_their_text() -> None:
    found = with_metadata(
        '<permissions><acknowledge risk="shell">I know</acknowledge></permissions>'
    )

    assert found.acknowledged == {"shell": "I know"}


@pytest.mark.parametrize(
    ("written", "problem"),
    [
        (
            "<read/>",
            "expected one of execute, fetch, sign, search, load, acknowledge, found <read>",
        ),
        ("all", "expected * in <permissions>, found 'all'"),
        ("<execute/>", "expected one pattern like rye.bash.* in <execute>, found ''"),
        (
            "<execute><tool>a b</tool></execute>",
            "expected one pattern like rye.bash.* in <tool>, found 'a b'",
        ),
        (
            "<execute><tool><x>*</x></tool></execute>",
            "expected one pattern like rye.bash.* in <tool>, found ''",
        ),
        ("<acknowledge/>", "expected a risk attribute on <acknowledge>, found none"),
    ],
)
def test_invalid_permissions_are_an_error(written: str, problem: str) -> None:
    found = problem_of(f"<metadata><permissions>{written}</permissions></metadata>")

    assert found == f"permissions: {problem}"


def test_inputs_keep_their_order_and_their_text() -> None:
    found = directive(
        '<inputs><input name="b" type="integer" required="true">B</input>'
        '<input name="a" default="1"/></inputs>'
    )

    assert found.inputs == (
        DirectiveInput(name="b", type="integer", required=True, default=None, description="B"),
        DirectiveInput(name="a", type=None, required=False, default="1", description=""),
    )


def test_outputs_are_named_by_attribute_or_as_in_older_files_by_tag() -> None:
    found = directive(
        '<outputs><output name="o" type="string" required="True">O</output>'
        "<success>done</success></outputs>"
    )

    assert found.outputs == (
        DirectiveOutput(name="o", type="string", required=True, description="O"),
        DirectiveOutput(name="success", type=None, required=False, description="done"),
    )


def test_actions_outside_the_metadata_are_collected() -> None:
    found = directive(
        '<metadata><hooks><execute item_id="no"/></hooks></metadata>'
        '<process><step name="one">First <execute item_id="t"><param name="a" value="1"/>'
        '<param name="b">two</param><note/></execute></step></process><load item_id="k"/>'
    )

    assert found.actions == (
        DirectiveAction(
            primary="execute", attributes={"item_id": "t"}, params={"a": "1", "b": "two"}
        ),
        DirectiveAction(primary="load", attributes={"item_id": "k"}, params={}),
    )
    assert found.steps == (DirectiveStep("one", "First two"),)


@pytest.mark.parametrize("tag", ["template", "example", "raw"])
def test_opaque_elements_hold_their_content_as_text(tag: str) -> None:
    found = with_metadata(f'<note><{tag} lang="a>b"><p>1 & 2 &lt; </x></{tag} ><{tag}/></note>')

    assert found.extra == {"note": "<p>1 & 2 &lt; </x>"}


def test_an_opaque_tag_inside_a_comment_or_cdata_opens_nothing() -> None:
    found = directive("<!-- <raw> --><description><![CDATA[<raw>]]> a</description><raw></raw>")

    assert found.description == "<raw> a"


@pytest.mark.parametrize(
    ("inside", "problem"),
    [
        ("<a>", "invalid XML: mismatched tag"),
        ("&nope;", "invalid XML: undefined entity"),
        ("<template>", "invalid XML: mismatched tag"),
        ('<a b="1" b="2"/>', "invalid XML: duplicate attribute"),
        (
            "<metadata><author>a</author><author>b</author></metadata>",
            "metadata: expected <author> once, found it twice",
        ),
        (
            "<metadata><limits><turns>1</turns></limits></metadata>",
            "limits: expected attributes only, found content",
        ),
        ("<inputs><param/></inputs>", "inputs: expected <input>, found <param>"),
        ("<inputs><input/></inputs>", "inputs: expected a name on <input>, found none"),
        (
            '<inputs><input name="a"/><input name="a"/></inputs>',
            "inputs: expected the name 'a' once, found it twice",
        ),
        (
            '<inputs><input name="a" required="maybe"/></inputs>',
            "'a': expected required to be true or false, found 'maybe'",
        ),
        ("<execute><param/></execute>", "execute: expected a name on <param>, found none"),
        ("<a>" * 64 + "</a>" * 64, "expected at most 64 levels of nesting, found more"),
    ],
)
def test_a_problem_is_named_with_the_line_of_the_file(inside: str, problem: str) -> None:
    assert problem_of(inside) == problem


def test_a_file_without_a_block_is_an_error() -> None:
    with pytest.raises(MetadataError) as error:
        parse_directive("# Title\n\n```xml\n<directive></directive>\n")

    assert str(error.value) == (
        "directive header: no XML code block found, expected a closed ```xml block"
    )


@pytest.mark.parametrize(
    "block",
    [
        "<tool></tool>",
        '<directive name="a"/>',
        "<directive></directive >",
        "<directive></directive><!-- end -->",
        "",
    ],
)
def test_a_block_that_does_not_end_with_the_element_is_an_error(block: str) -> None:
    with pytest.raises(MetadataError) as error:
        parse_directive(f"# Title\n```xml\n{block}\n\n```\n")

    assert str(error.value) == (
        "directive header, line 3: expected the XML block to end with </directive>, "
        "found another end"
    )
