"""OpenID providers for tests: a real one of npm, and one with scripted answers."""

import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

from joserfc import jwt
from joserfc.jwk import ECKey, KeySet

from tests.support.programs import require_program, unavailable
from tests.support.workspace import ROOT

CLIENT_ID, CLIENT_SECRET = "rye", "secret-of-rye"
_INSTALLED = ROOT / "build" / "oidc"


@contextmanager
def real_provider(redirect_uri: str, folder: Path) -> Iterator[str]:
    """The issuer of a real provider that knows a client, while a block runs."""
    node = require_program("node")
    if not (_INSTALLED / "node_modules" / "oidc-provider").is_dir():
        unavailable("oidc-provider is not installed: scripts/install_oidc_provider")
    script = folder / "oidc_provider.mjs"
    shutil.copy(ROOT / "tests" / "support" / "oidc_provider.mjs", script)
    (folder / "node_modules").symlink_to(_INSTALLED / "node_modules")
    process = subprocess.Popen(
        [str(node), str(script), redirect_uri],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        encoding="utf-8",
        env={**os.environ, "NODE_ENV": "test"},
    )
    assert process.stdout is not None
    try:
        yield process.stdout.readline().strip()
    finally:
        process.kill()
        process.communicate()


@dataclass
class LyingProvider:
    """A provider whose answers a test changes: ``claims`` and ``header`` go into ID tokens.

    ``metadata`` overrides its real metadata; ``status`` is of all its answers.
    """

    issuer: str = ""
    keys: dict[str, ECKey] = field(default_factory=dict)
    signs_with: str = ""
    claims: dict[str, Any] = field(default_factory=dict)
    header: dict[str, Any] = field(default_factory=dict)
    metadata: dict[str, Any] = field(default_factory=dict)
    token: dict[str, Any] = field(default_factory=dict)
    published: tuple[str, ...] | None = None
    status: int = 200
    body: bytes | None = None
    location: str = ""
    requests: list[tuple[str, str]] = field(default_factory=list)

    def new_key(self, name: str) -> None:
        """Sign with a new key from now on."""
        self.keys[name] = ECKey.generate_key("P-256", {"kid": name})
        self.signs_with = name

    def id_token(self) -> str:
        """Its ID token."""
        now = int(time.time())
        truth = {"iss": self.issuer, "aud": CLIENT_ID, "sub": "ada", "iat": now, "exp": now + 300}
        claims = {name: one for name, one in {**truth, **self.claims}.items() if one is not None}
        header = {"alg": "ES256", "kid": self.signs_with, **self.header}
        return jwt.encode(header, claims, self.keys[self.signs_with])

    def answer(self, path: str) -> dict[str, Any]:
        """Its answer at a path."""
        if path.endswith("/openid-configuration"):
            own = {
                "issuer": self.issuer,
                "authorization_endpoint": f"{self.issuer}/auth",
                "token_endpoint": f"{self.issuer}/token",
                "jwks_uri": f"{self.issuer}/jwks",
            }
            return {**own, **self.metadata}
        if path == "/jwks":
            shown = self.keys if self.published is None else self.published
            return dict(KeySet([self.keys[name] for name in shown]).as_dict(private=False))
        return {
            "access_token": "x",
            "token_type": "Bearer",
            "id_token": self.id_token(),
            **self.token,
        }


@contextmanager
def lying_provider() -> Iterator[LyingProvider]:
    """A provider on loopback while a block runs; honest until a test changes it."""
    provider = LyingProvider()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            provider.requests.append((self.path, self.rfile.read(length).decode()))
            body = provider.body
            if body is None:
                body = json.dumps(provider.answer(self.path)).encode()
            self.send_response(provider.status)
            self.send_header("Content-Length", str(len(body)))
            if provider.location:
                self.send_header("Location", provider.location)
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_GET  # noqa: N815 - of http.server

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    provider.issuer = f"http://127.0.0.1:{server.server_port}"
    provider.new_key("first")
    thread = Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield provider
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
