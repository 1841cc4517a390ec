"""Sessions of people on the pages of a node: rows of the database, so that any server knows them.

A session is begun by who shows an API key, or whom an OpenID provider knows. The cookie is random,
new with each sign-in, and only its digest is kept. Whether the key still counts, or the person may
still use the node, is asked for each request. A form carries the HMAC of the cookie (`form_token`):
a page of another site cannot know it.
"""

import hmac
import secrets
from base64 import urlsafe_b64encode
from hashlib import sha256
from typing import Any

from sqlalchemy import delete, insert, select, update

from lillux.digests import sha256_hex
from lillux.values import dataclass
from rye_services.credentials import ACCOUNT, ApiKey, Principal, Role, allows
from rye_services.database import Database, page_sessions

COOKIE = "rye_session"
SESSION_S = 12 * 3600
LONGEST_COOKIE = 200

PERSON_SCOPES = ("remote:*", "registry:*", ACCOUNT)
"""What a user may do on pages who signed in at a provider; to manage the node takes a key."""

_PURPOSE = b"rye-node page sessions v1"
_FORM_PURPOSE = b"form:"
_MOST = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class PageSession:
    """Who is signed in. ``key_id``: of the API key that they showed; None for a provider.

    owner  the team whose projects they look at, None for their own
    """

    user_id: str
    key_id: str | None
    owner: str | None
    until_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Guest:
    """A user who is signed in: the cookie they sent, and as whom they act.

    principal  of a member who looks at a team's projects the owner is that team
    key_name   what they signed in with, as the page says it
    """

    cookie: str
    principal: Principal
    key_name: str

    @property
    def user_id(self) -> str:
        """Whose projects the pages show."""
        return self.principal.user_id

    @property
    def who(self) -> str:
        """The person."""
        return self.principal.who

    def may(self, scope: str, role: Role = Role.READ) -> bool:
        """Whether their key is for this, and in a team their role."""
        own = self.principal.role
        return allows(self.principal.scopes, scope) and (own is None or own.includes(role))


def principal_of_key(key: ApiKey) -> Principal:
    """Who shows an API key on a page."""
    scopes = None if key.scopes is None else frozenset(key.scopes)
    return Principal(key.user_id, "page", scopes, key.id)


class PageSessions:
    """The sessions in the database. Thread-safe, and so across processes."""

    def __init__(self, database: Database, node_secret: bytes) -> None:
        self._database = database
        self._form_key = hmac.digest(node_secret, _PURPOSE, sha256)

    def begin(self, user_id: str, key_id: str | None, now_s: float) -> str:
        """A new session: the value of its cookie. Those that are over are forgotten."""
        cookie = secrets.token_urlsafe(32)
        columns = page_sessions.c
        row: dict[str, Any] = {"id_hash": _hash(cookie), "user_id": user_id, "key_id": key_id}
        row |= {"created_at_s": now_s, "until_s": now_s + SESSION_S}
        theirs = select(columns.id_hash).where(columns.user_id == user_id)
        older = theirs.order_by(columns.created_at_s.desc()).offset(_MOST - 1)
        with self._database.writing(lock=f"page sessions of {user_id}") as connection:
            surplus = connection.scalars(older).all()
            connection.execute(delete(page_sessions).where(columns.until_s < now_s))
            connection.execute(delete(page_sessions).where(columns.id_hash.in_(surplus)))
            connection.execute(insert(page_sessions).values(**row))
        return cookie

    def find(self, cookie: str, now_s: float) -> PageSession | None:
        """Whose a cookie is; None for one that is over, was ended, or never was."""
        if not cookie or len(cookie) > LONGEST_COOKIE or not cookie.isascii():
            return None
        columns = page_sessions.c
        query = select(columns.user_id, columns.key_id, columns.owner, columns.until_s)
        with self._database.reading() as connection:
            row = connection.execute(query.where(columns.id_hash == _hash(cookie))).first()
        if row is None or row.until_s <= now_s:
            return None
        return PageSession(
            user_id=row.user_id, key_id=row.key_id, owner=row.owner, until_s=row.until_s
        )

    def look_at(self, cookie: str, owner: str | None) -> None:
        """Have the pages show what a team owns, or what the person does."""
        change = update(page_sessions).where(page_sessions.c.id_hash == _hash(cookie))
        with self._database.writing() as connection:
            connection.execute(change.values(owner=owner))

    def end(self, cookie: str) -> None:
        """End a session: its cookie counts no longer, nor do copies of it."""
        with self._database.writing() as connection:
            gone = delete(page_sessions).where(page_sessions.c.id_hash == _hash(cookie))
            connection.execute(gone)

    def form_token(self, cookie: str) -> str:
        """What forms of this session carry."""
        mac = hmac.digest(self._form_key, _FORM_PURPOSE + cookie.encode(), sha256)
        return urlsafe_b64encode(mac).decode().rstrip("=")

    def is_form_token(self, token: str, cookie: str) -> bool:
        """Whether a form came from a page of this session; compared in constant time."""
        return hmac.compare_digest(token.encode(), self.form_token(cookie).encode())


def _hash(cookie: str) -> str:
    return sha256_hex(cookie.encode("utf-8", "surrogateescape"))
