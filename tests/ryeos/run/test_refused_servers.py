"""The server that a program could not reach, as the hint about its rights names it."""

import pytest

from lillux.sandbox import Confinement
from ryeos.run.outcomes import MappedResult
from ryeos.run.refusals import Refusal, _Complaints, hint_of


def peers(text: str) -> list[str]:
    mapped = MappedResult(
        success=False, data=None, error=text, code="EXECUTION_FAILED", metadata={}
    )
    return [one.target for one in _Complaints(mapped, Confinement()).network()]


@pytest.mark.parametrize(
    ("said", "peer"),
    [
        ("curl: (6) Could not resolve host: example.com", "example.com:443"),
        ("curl: (7) Failed to connect to example.com port 8080 after 3 ms", "example.com:8080"),
        ("fatal: unable to access 'http://a.example/x': Could not resolve host: a.example",
         "a.example:80"),
        ("wget: unable to resolve host address \u2018example.com\u2019\nsocket", "example.com:443"),
        ("Error: getaddrinfo ENOTFOUND api.example.com", "api.example.com:443"),
        ("Error: connect EACCES 192.0.2.1:5432", "192.0.2.1:5432"),
        ("ssh: Could not resolve hostname git.example: Name or service not known",
         "git.example:22"),
        ("HTTPSConnectionPool(host='x.example', port=443): getaddrinfo failed", "x.example:443"),
        ("dial tcp: lookup x.example: Temporary failure in name resolution", "x.example:443"),
        ("<urlopen error [Errno -2] Name or service not known>", "the network"),
        ("connect EACCES 192.0.2.1:99999", "the network"),
    ],
)  # fmt: skip
def test_the_server_is_the_one_that_its_words_name(said: str, peer: str) -> None:
    assert peers(said) == [peer]


def test_no_hint_gives_the_whole_network_where_the_server_is_not_known() -> None:
    refused = [Refusal("connect", "the network").describe("")]

    hint = hint_of("mine/x", refused)

    assert 'sandbox: {network: ["HOST:PORT"]}' in hint
    assert "its source, its settings or its manual name it" in hint
