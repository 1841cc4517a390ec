import pytest
from hypothesis import given
from hypothesis import strategies as st

from ryeos.items.errors import InvalidQueryError
from ryeos.search.query import (
    EVERYTHING,
    And,
    InField,
    NotQuery,
    Or,
    Phrase,
    QueryNode,
    Term,
    parse_query,
)

A, B, C = Term("a1"), Term("b1"), Term("c1")


@pytest.mark.parametrize(
    ("text", "node"),
    [
        ("a1", A),
        ("a1 b1", And((A, B))),
        ("a1 AND b1", And((A, B))),
        ("a1 and b1", And((A, B))),
        ("a1 & b1", And((A, B))),
        ("a1 OR b1", Or((A, B))),
        ("a1 OR b1 | c1", Or((A, B, C))),
        ("a1 b1 OR c1", Or((And((A, B)), C))),
        ("a1 (b1 OR c1)", And((A, Or((B, C))))),
        ("NOT a1", NotQuery(A)),
        ("-a1", NotQuery(A)),
        ("!a1", NotQuery(A)),
        ("a1 -b1", And((A, NotQuery(B)))),
        ("NOT NOT a1", A),
        ("--a1", A),
        ("-(a1 b1)", NotQuery(And((A, B)))),
        ('"a1 b1"', Phrase("a1 b1")),
        (r'"say \"a1\" \\ b1"', Phrase(r'say "a1" \ b1')),
        ("title:a1", InField("title", A, "title:a1")),
        ('title:"a1 b1"', InField("title", Phrase("a1 b1"))),
        ("tags:(a1 OR b1)", InField("tags", Or((A, B)))),
        ("Title:a1", InField("title", A, "Title:a1")),
        ("title: a1", InField("title", A)),
        ("version:1.0", InField("version", Term("1.0"), "version:1.0")),
        ("tool:x/y", InField("tool", Term("x/y"), "tool:x/y")),
        ("a-b", Term("a-b")),
        ("im?ge*", Term("im?ge*")),
        ("a|b", Term("a|b")),
        ("((a1))", A),
        ("(a1)(b1)", And((A, B))),
    ],
)
def test_a_query_is_parsed_by_the_grammar(text: str, node: QueryNode) -> None:
    assert parse_query(text).node == node


@pytest.mark.parametrize("text", ["", "  ", "*", "* *"])
def test_an_empty_query_and_a_star_match_all_items(text: str) -> None:
    assert parse_query(text).node == EVERYTHING


@pytest.mark.parametrize(
    ("text", "node"),
    [
        ("how to resize", Term("resize")),
        ("how do I resize my image", And((Term("resize"), Term("image")))),
        ("why can this not resize", Term("resize")),
        ("where should I look", Term("look")),
        ("the image of a dog", And((Term("image"), Term("dog")))),
        ("not image", Term("image")),
        ("image * dog", And((Term("image"), Term("dog")))),
        ("image , dog", And((Term("image"), Term("dog")))),
        ("how to", And((Term("how"), Term("to")))),
        ('the "a1 b1"', And((Term("the"), Phrase("a1 b1")))),
        ("not", Term("not")),
    ],
)
def test_stop_words_are_left_out_if_another_word_remains(text: str, node: QueryNode) -> None:
    assert parse_query(text).node == node


@pytest.mark.parametrize(
    ("text", "problem", "position"),
    [
        ("(a1", "expected a closing parenthesis, found none", 0),
        ("a1 (b1 (c1)", "expected a closing parenthesis, found none", 3),
        ("a1)", "expected an opening parenthesis for ')'", 2),
        ("()", "expected a word before ')', or no parenthesis", 1),
        ("(", "expected a closing parenthesis, found none", 0),
        ('a1 "b1', "expected a closing quote, found none", 3),
        ("a1 OR", "expected a word behind the operator 'OR', found none", 3),
        ("OR a1", "expected a word before the operator 'OR', found none", 0),
        ("a1 AND OR b1", "expected a word before the operator 'OR', found none", 7),
        ("NOT", "expected a word behind the operator 'NOT', found none", 0),
        ("a1 -", "expected a word behind the operator '-', found none", 3),
        ("weird:", "expected a value for the field 'weird', found none", 0),
        ("weird: a1", "expected a value for the field 'weird', found none", 0),
        ("a1 title:", "expected a value for the field 'title', found none", 3),
        ("title: OR a1", "expected a value for the field 'title', found none", 0),
    ],
)
def test_a_syntax_error_is_reported_with_its_position(
    text: str, problem: str, position: int
) -> None:
    with pytest.raises(InvalidQueryError) as error:
        parse_query(text)

    assert (error.value.problem, error.value.position) == (problem, position)
    assert error.value.code == "INVALID_QUERY"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (" ".join(f"w{n}" for n in range(33)), "expected at most 32 words, found 33"),
        ("(" * 40 + "a" + ")" * 40, "expected at most 32 parentheses in each other, found more"),
        ("a" * 4097, "expected at most 4096 characters, found 4097"),
    ],
    ids=["words", "nesting", "characters"],
)
def test_a_query_has_limits(text: str, problem: str) -> None:
    with pytest.raises(InvalidQueryError) as error:
        parse_query(text)

    assert error.value.problem == problem


@pytest.mark.parametrize(
    ("text", "is_plain"),
    [("a1 b1", True), ("a*", True), ("a1 OR b1", False), ("-a1", False), ('"a1"', False)],
)
def test_a_plain_query_has_neither_operators_nor_quotes(text: str, is_plain: bool) -> None:  # noqa: FBT001
    assert parse_query(text).is_plain is is_plain


@pytest.mark.property
@given(st.text(max_size=60) | st.text('ab:()"-!*?\\ |&ORNDTt', max_size=60))
def test_any_text_is_parsed_or_refused_with_a_position(text: str) -> None:
    try:
        parse_query(text)
    except InvalidQueryError as refused:
        error = refused
    else:
        return

    assert 0 <= error.position <= len(text)
