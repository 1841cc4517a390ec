"""Bodies, headers and addresses of configs that people write: nothing is sent as something else."""

from typing import Any

import pytest

from lillux.http.model import HttpRequest
from lillux.templating import Names
from ryeos.items.errors import SpecError
from ryeos.run.http_config import http_plan

FORM = "application/x-www-form-urlencoded"


def request(config: dict[str, Any], **given: object) -> HttpRequest:
    names = Names(variables={}, templates=config, opaque=given)
    config = {"url": "https://a.example/x", "method": "POST", **config}
    return http_plan(config, names, timeout_s=1).request


def test_a_mapping_is_a_form_where_the_config_says_so() -> None:
    sent = request({"media_type": FORM, "body": {"a": "{a}", "b": [1, 2]}}, a="x y&z")

    assert (sent.body, sent.headers) == (b"a=x%20y%26z&b=1&b=2", {"Content-Type": FORM})


def test_a_mapping_is_not_sent_as_json_under_the_name_of_a_form() -> None:
    with pytest.raises(SpecError, match="expected a text as body") as raised:
        request({"headers": {"content-type": FORM}, "body": {"a": 1}})

    assert "media_type" in raised.value.hint
    assert request({"headers": {"content-type": FORM}, "body": "a=1"}).body == b"a=1"


@pytest.mark.parametrize(
    ("config", "problem"),
    [
        ({"media_type": "application/xml"}, "config.media_type: expected JSON"),
        ({"media_type": ["a"]}, "config.media_type: expected JSON"),
        ({"media_type": "text/plain; charset=utf-16"}, "config.media_type: expected JSON"),
        (
            {"media_type": "text/plain", "headers": {"content-type": "text/plain"}},
            "expected no header Content-Type besides",
        ),
        ({"media_type": FORM, "body_styles": []}, "config.body_styles: expected a mapping"),
        ({"media_type": FORM, "body_styles": {"a": {"style": "simple"}}}, "style: expected one"),
    ],
)
def test_a_media_type_that_cannot_be_written_is_named(config: dict[str, Any], problem: str) -> None:
    with pytest.raises(SpecError, match=problem):
        request({"body": {"a": 1}, **config})


def test_two_members_of_a_form_have_no_name_in_common() -> None:
    config = {"media_type": FORM, "body": "{body}", "body_styles": {"a": {"style": "form"}}}

    assert request(config, body={"a": {"x": 1}, "b": 2}).body == b"b=2&x=1"
    with pytest.raises(SpecError, match="body: expected no member 'b'"):
        request(config, body={"a": {"b": 1}, "b": 2})


def test_a_value_inside_of_a_header_cookie_begins_no_other_cookie() -> None:
    config = {"headers": {"Cookie": "sid={sid}; fixed=1"}}

    assert request(config, sid="a").headers == {"Cookie": "sid=a; fixed=1"}
    with pytest.raises(SpecError, match="sid: expected a value of a cookie"):
        request(config, sid="a; admin=1")


@pytest.mark.parametrize("url", ["https://a.example/u/{id}", "{address}"])
def test_an_address_without_a_value_in_its_path_is_refused(url: str) -> None:
    config = {"url": url, "address": "https://a.example/u/{id}"}

    assert request(config, id="a/b").url == "https://a.example/u/a%2Fb"
    with pytest.raises(SpecError, match="id: expected a value, found an empty one"):
        request(config, id="")


def test_an_empty_value_in_a_query_is_one() -> None:
    assert request({"url": "https://a.example/?q={q}&r=1"}, q="").url == "https://a.example/?q=&r=1"
