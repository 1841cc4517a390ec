"""What a node and a registry share: settings, and how their refusals read."""

import pytest

from ryeos.items.error_table import error_table, refusal_table
from ryeos.items.errors import RyeError
from ryeos.remote.errors import RemoteError, RemoteReplyError, RemoteUnreachableError
from ryeos.remote.peers import NODE, PEERS, REGISTRY, PeerRules
from ryeos.remote.remote_values import RemoteConfigError, RemoteValues
from ryeos.remote.settings import api_key_of, require_encrypted


@pytest.mark.parametrize("peer", PEERS, ids=lambda peer: peer.word)
def test_a_key_is_sent_unencrypted_only_where_the_user_allows_it(peer: PeerRules) -> None:
    for url in ("https://peer.example", "http://127.0.0.1:1", "http://localhost"):
        require_encrypted(peer, "one", url, "key", RemoteValues("one", {}, {}))
    allowed = RemoteValues("one", {"allow_insecure": True}, {})
    require_encrypted(peer, "one", "http://peer.example", "key", allowed)
    require_encrypted(peer, "one", "http://peer.example", "", RemoteValues("one", {}, {}))

    for url in ("http://peer.example", "http://a.localhost", "http://[::ffff:127.0.0.1]"):
        with pytest.raises(RyeError) as error:
            require_encrypted(peer, "one", url, "key", RemoteValues("one", {}, {}))
        assert (error.value.code, error.value.hint) == ("REMOTE_INSECURE", peer.insecure_hint)
        assert str(error.value).startswith(f"{peer.word} one: ")


def test_whether_a_key_may_be_read_by_others_is_true_or_false() -> None:
    with pytest.raises(RemoteConfigError, match=r"^one\.allow_insecure: expected true or false"):
        require_encrypted(
            NODE, "one", "https://a", "", RemoteValues("one", {"allow_insecure": "yes"}, {})
        )


@pytest.mark.parametrize("value", ["two words", "snow\u2603man", "a\x1b"])
def test_an_api_key_is_visible_ascii(value: str) -> None:
    assert api_key_of({"K": f" {'k' * 9}\n"}, "K") == "k" * 9
    assert api_key_of({"K": value}, "") == ""
    with pytest.raises(RemoteConfigError, match=r"^K: expected an API key of visible ASCII"):
        api_key_of({"K": value}, "K", REGISTRY)


@pytest.mark.parametrize("peer", PEERS, ids=lambda peer: peer.word)
def test_errors_of_a_peer_are_in_its_words(peer: PeerRules) -> None:
    refused = RemoteError(413, "no", peer=peer)

    assert str(refused) == f"the {peer.what}: refused with status 413: no"
    assert refused.code == peer.refused_code
    assert refused.hint == refusal_table()[413].remedies[peer.what]
    assert refused.exit_status == error_table()[peer.refused_code].exit_status
    assert str(RemoteUnreachableError("a", "gone", peer=peer)) == f"{peer.word} a: gone"
    assert peer.check_command in RemoteReplyError("a", "no", peer).hint
