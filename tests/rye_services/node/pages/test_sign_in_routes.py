"""Sign-in on a real node, at a real provider, by a minimal browser."""

import re
import socket
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import parse_qs, urlencode, urljoin, urlsplit
from urllib.request import HTTPCookieProcessor, HTTPRedirectHandler, Request, build_opener

import pytest

from lillux.signing import generate_keypair
from rye_services.people.people import OPEN, People
from rye_services.people.teams import Teams
from rye_services.storage.database import Database
from ryeos.remote.identity import encode_public_key
from tests.support.endings import wait_until
from tests.support.node import Node, User, running_node
from tests.support.oidc import (
    CLIENT_ID,
    CLIENT_SECRET,
    LyingProvider,
    lying_provider,
    real_provider,
)

pytest_plugins = ("tests.support.node",)
pytestmark = pytest.mark.heavy


class _NoRedirect(HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:  # noqa: ANN401 - of urllib
        """Follow no redirect."""


class Browser:
    """Follows redirects and pages that go on by themselves; keeps cookies by host and port."""

    def __init__(self) -> None:
        self._openers: dict[str, Any] = {}
        self.url, self.status, self.text = "", 0, ""
        self.seen: list[str] = []

    def go(self, url: str, form: dict[str, str] | None = None) -> "Browser":
        """Open an address, or send a form there."""
        data = None if form is None else urlencode(form).encode()
        for _ in range(20):
            self.seen.append(url)
            answer = self._open(url, data)
            self.url, self.status = url, answer.status
            self.text = answer.read().decode()
            location = answer.headers.get("Location")
            goes_on = re.search(r'http-equiv="refresh" content="0; url=([^"]*)"', self.text)
            if not location and not goes_on:
                return self
            url = urljoin(url, location or unescape(goes_on[1] if goes_on else ""))
            data = None
        raise AssertionError("it goes on for ever")

    def _open(self, url: str, data: bytes | None) -> Any:  # noqa: ANN401 - of urllib
        # Cookies of one host are sent to all of its ports: two servers here share one.
        place = url.split("/")[2]
        opener = self._openers.setdefault(place, build_opener(HTTPCookieProcessor(), _NoRedirect))
        try:
            return opener.open(Request(url, data))  # noqa: S310 - of a test's own servers
        except HTTPError as error:
            return error

    def sign_in(self, node: Node, login: str, invitation: str = "") -> "Browser":
        """Sign in at the provider, and come back."""
        query = f"?{urlencode({'invitation': invitation})}" if invitation else ""
        self.go(f"{node.url}/page/sign-in{query}")
        while "/interaction/" in self.url:
            action = re.search(r'action="([^"]+)"', self.text)
            assert action, self.text
            prompt = re.search(r'name="prompt" value="(\w+)"', self.text)
            form = {"prompt": prompt[1] if prompt else "", "login": login, "password": "x"}
            self.go(urljoin(self.url, action[1]), form)
        return self

    def token(self) -> str:
        """The token in the forms of the page."""
        found = re.search(r'name="token" value="([^"]+)"', self.text)
        assert found, self.text
        return found[1]


@pytest.fixture(scope="module")
def signing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """A node whose users sign in at a real provider; those of example.net are admitted."""
    folder = tmp_path_factory.mktemp("signing")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    back = f"http://127.0.0.1:{port}/page/sign-in/back"
    with real_provider(back, folder) as issuer:
        environ = {
            "RYE_NODE_OIDC_ISSUER": issuer,
            "RYE_NODE_OIDC_CLIENT_ID": CLIENT_ID,
            "RYE_NODE_OIDC_CLIENT_SECRET": CLIENT_SECRET,
            "RYE_NODE_OIDC_ALLOWED_DOMAINS": "example.net",
            "PORT": str(port),
        }
        node = Node(folder / "node", environ=environ)
        node.port = port
        node.start()
        try:
            yield node
        finally:
            node.kill()


@pytest.fixture(scope="module")
def doubtful(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Node, LyingProvider]]:
    """A node that admits all users of its provider, and that provider, which a test changes."""
    with lying_provider() as liar:
        environ = {
            "RYE_NODE_OIDC_ISSUER": liar.issuer,
            "RYE_NODE_OIDC_CLIENT_ID": CLIENT_ID,
            "RYE_NODE_OIDC_CLIENT_SECRET": CLIENT_SECRET,
            "RYE_NODE_OIDC_ALLOWED_GROUPS": "staff",
        }
        with running_node(tmp_path_factory.mktemp("doubtful") / "node", environ=environ) as node:
            yield node, liar


def answered(node: Node, liar: LyingProvider, subject: str, **lies: Any) -> Browser:  # noqa: ANN401 - claims
    """A browser that began to sign in, and comes back with the answer of the provider."""
    browser = Browser().go(f"{node.url}/page/sign-in")
    query = parse_qs(urlsplit(browser.url).query)
    liar.claims = {"sub": subject, "groups": ["staff"], "nonce": query["nonce"][0], **lies}
    back = urlencode({"state": query["state"][0], "code": "c"})
    return browser.go(f"{node.url}/page/sign-in/back?{back}")


def open_person(node: Node, user_id: str) -> None:
    database = Database(node.settings.database_url)
    People(database).set_state(user_id, OPEN)
    database.close()


def invitation_into(node: Node, team: str | None, **more: Any) -> str:  # noqa: ANN401 - fields
    database = Database(node.settings.database_url)
    text, _ = Teams(database).invite(
        team, more.get("role"), email=more.get("email", ""), days=1, by="command:test"
    )
    database.close()
    return text


def test_a_new_person_waits_for_the_operators_approval(signing: Node) -> None:
    browser = Browser().sign_in(signing, "grace")

    assert browser.status == 403
    assert "grace may not use this node yet" in browser.text
    open_person(signing, "grace")
    assert Browser().sign_in(signing, "grace").status == 200


def test_an_invitation_admits_one_new_person(signing: Node) -> None:
    text = invitation_into(signing, None)

    first, second = (Browser().sign_in(signing, one, text) for one in ("edsger", "tony"))

    assert (first.status, second.status) == (200, 403)
    assert "edsger" in first.text
    assert "it was used before, or revoked" in second.text


def test_an_invitation_for_an_address_admits_only_the_owner_of_that_address(signing: Node) -> None:
    text = invitation_into(signing, None, email="barbara@example.org")

    assert Browser().sign_in(signing, "mallory", text).status == 403
    assert Browser().sign_in(signing, "barbara", text).status == 200


def test_a_taken_name_of_the_provider_is_replaced_by_a_generated_one(
    signing: Node,
) -> None:
    database = Database(signing.settings.database_url)
    People(database).add("alan")
    database.close()

    browser = Browser().sign_in(signing, "alan", invitation_into(signing, None))

    assert browser.status == 200
    assert re.search(r"user-[0-9a-f]{12}", browser.text)


def test_an_answer_of_the_provider_is_valid_once_and_in_its_own_browser(
    signing: Node,
) -> None:
    browser = Browser().sign_in(signing, "donald", invitation_into(signing, None))
    back = next(one for one in browser.seen if "/page/sign-in/back?" in one)

    again, elsewhere = browser.go(back).status, Browser().go(back).status
    forged = Browser().go(f"{signing.url}/page/sign-in/back?state=x&code=y")

    assert (again, elsewhere, forged.status) == (403, 403, 403)
    assert "was never begun here" in forged.text


def test_a_cookie_from_before_a_sign_in_is_not_valid(signing: Node) -> None:
    planted = "a" * 43
    cookie = {"Cookie": f"rye_session={planted}"}

    Browser().sign_in(signing, "leslie", invitation_into(signing, None))

    assert signing.ask("GET", "/page/executions", headers=cookie).status == 401


def test_a_person_who_signed_in_at_a_provider_does_not_manage_the_node(signing: Node) -> None:
    browser = Browser().sign_in(signing, "ken", invitation_into(signing, None))

    assert browser.go(f"{signing.url}/page/admin").status == 403


def test_a_closed_person_is_signed_out(signing: Node) -> None:
    browser = Browser().sign_in(signing, "niklaus", invitation_into(signing, None))
    assert browser.go(f"{signing.url}/").status == 200
    database = Database(signing.settings.database_url)
    People(database).set_state("niklaus", "closed")
    database.close()

    assert browser.go(f"{signing.url}/page/executions").status == 401
    assert Browser().sign_in(signing, "niklaus").status == 403


def test_a_machine_may_sign_after_its_person_approved_it(signing: Node) -> None:
    pair = generate_keypair()
    body = {"public_key": encode_public_key(pair.public_pem), "label": "laptop"}
    begun = signing.ask("POST", "/sign-in/device", body).json
    machine = User(signing, pair, "")
    poll = {"device_code": begun["device_code"]}
    assert signing.ask("POST", "/sign-in/device/poll", poll).json["state"] == "waiting"
    assert machine.ask("GET", "/account").status == 401
    browser = Browser().sign_in(signing, "adele", invitation_into(signing, None))

    page = browser.go(f"{begun['verification_url']}?code={begun['user_code'].lower()}").text
    form = {"code": begun["user_code"], "answer": "yes"}
    forged = browser.go(begun["verification_url"], {**form, "token": "another"}).status
    browser.go(f"{begun['verification_url']}?code={begun['user_code']}")
    approved = browser.go(begun["verification_url"], {**form, "token": browser.token()})

    assert f"fp:{machine.user_id}" in page
    assert forged == 403
    assert approved.status == 200
    state = signing.ask("POST", "/sign-in/device/poll", poll).json
    assert state == {"state": "approved", "user_id": "adele"}
    assert machine.ask("GET", "/account").json["user_id"] == "adele"


def test_a_refused_machine_cannot_sign_requests(signing: Node) -> None:
    pair = generate_keypair()
    body = {"public_key": encode_public_key(pair.public_pem)}
    begun = signing.ask("POST", "/sign-in/device", body).json
    browser = Browser().sign_in(signing, "butler", invitation_into(signing, None))
    browser.go(f"{begun['verification_url']}?code={begun['user_code']}")

    form = {"code": begun["user_code"], "answer": "no", "token": browser.token()}
    browser.go(begun["verification_url"], form)

    poll = {"device_code": begun["device_code"]}
    assert signing.ask("POST", "/sign-in/device/poll", poll).json["state"] == "refused"
    assert User(signing, pair, "").ask("GET", "/account").status == 401


@pytest.mark.parametrize(
    "lies",
    [
        {"iss": "https://other.example"},
        {"aud": "another client"},
        {"nonce": "of another sign-in"},
        {"exp": 1},
    ],
    ids=["issuer", "audience", "nonce", "expired"],
)
def test_a_false_id_token_is_refused_and_creates_no_user(
    doubtful: tuple[Node, LyingProvider], lies: dict[str, Any]
) -> None:
    node, liar = doubtful

    browser = answered(node, liar, "frances", **lies)

    assert browser.status == 403
    assert "its ID token is not for this" in browser.text
    assert browser.go(f"{node.url}/page/executions").status == 401
    database = Database(node.settings.database_url)
    assert "frances" not in str(People(database).facts())
    database.close()


def test_sessions_survive_an_outage_of_the_provider(
    doubtful: tuple[Node, LyingProvider],
) -> None:
    node, liar = doubtful
    signed_in = answered(node, liar, "jean")
    assert signed_in.status == 200
    begun = Browser().go(f"{node.url}/page/sign-in")
    query = parse_qs(urlsplit(begun.url).query)

    liar.status = 503
    back = urlencode({"state": query["state"][0], "code": "c"})
    failed = begun.go(f"{node.url}/page/sign-in/back?{back}")
    others = signed_in.go(f"{node.url}/page/executions")

    assert failed.status in {403, 503}
    assert others.status == 200
    assert node.ask("GET", "/ready").status == 200  # this node itself is not down
    liar.status = 200
    assert answered(node, liar, "betty").status == 200


def test_new_keys_of_the_provider_are_used_within_30_seconds(
    doubtful: tuple[Node, LyingProvider],
) -> None:
    node, liar = doubtful
    assert answered(node, liar, "kay").status == 200
    liar.new_key(f"key-{len(liar.keys)}")
    liar.published = (liar.signs_with,)

    # Unknown keys are looked up every ten seconds at most, so that no client causes more requests.
    wait_until(lambda: answered(node, liar, "kay").status == 200, 30)


def test_a_node_without_a_provider_has_no_sign_in(tmp_path: Path) -> None:
    with running_node(tmp_path / "node") as node:
        reply = node.ask("GET", "/page/sign-in")

        assert reply.status == 404
        assert b"has no sign-in provider" in reply.body
        assert b"/page/sign-in" not in node.ask("GET", "/").body
