from ryeos.items.markdown import Fence, count_signature_lines, find_fence


def test_the_first_block_of_the_language_is_found() -> None:
    text = "# Title\n\n```sh\nls\n```\n```xml \n<a>\n```\n\nbody\n```xml\n<b>\n```\n"

    assert find_fence(text, "xml") == Fence(
        before="# Title\n\n```sh\nls\n```",
        inside="<a>",
        after="body\n```xml\n<b>\n```",
        lines_above=6,
    )


def test_a_block_inside_a_longer_fence_is_an_example() -> None:
    text = "`````md\n````\n```xml\nno\n```\n````\n`````\n```xml\nyes\n```\n"

    found = find_fence(text, "xml")

    assert found is not None
    assert found.inside == "yes"


def test_a_longer_fence_that_is_never_closed_hides_everything_below() -> None:
    assert find_fence("````\n```xml\n<a>\n```\n", "xml") is None


def test_an_unclosed_block_is_not_found() -> None:
    assert find_fence("```xml\n<a>\n", "xml") is None


def test_an_indented_or_longer_word_opens_nothing() -> None:
    assert find_fence(" ```xml\n<a>\n```\n```xmlish\n<b>\n```\n", "xml") is None


def test_signature_lines_belong_to_no_part() -> None:
    found = find_fence("<!-- rye:signed:x -->\n<!-- rye:covers:y -->\n```xml\n```\n", "xml")

    assert found == Fence(before="", inside="", after="", lines_above=3)


def test_only_leading_comments_of_rye_count_as_signature_lines() -> None:
    lines = ["<!-- rye:signed:x -->", "<!-- note -->", "<!-- rye:signed:y -->"]

    assert count_signature_lines(lines) == 1
