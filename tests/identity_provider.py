"""A small OpenID Connect provider on this machine: real HTTP, real keys, real signatures."""

import base64
import hashlib
import json
import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from joserfc import jwt
from joserfc.jwk import RSAKey

CLIENT_ID, CLIENT_SECRET = "setwise", "hush"


@dataclass
class IdentityProvider:
    """Vouches for whoever is named in `claims`; every field can be set to make it misbehave."""

    issuer: str
    key: RSAKey = field(default_factory=lambda: RSAKey.generate_key(2048, {"kid": "one"}))
    published: RSAKey | None = None
    algorithm: str = "RS256"
    claims: dict[str, Any] = field(default_factory=dict)
    codes: dict[str, dict[str, str]] = field(default_factory=dict)
    broken: bool = False

    def description(self) -> dict[str, Any]:
        return {
            "issuer": self.issuer,
            "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token",
            "jwks_uri": f"{self.issuer}/keys",
        }

    def sign_in(self, address: str) -> str:
        """Do what a person does at the provider; returns where their browser goes next."""
        asked = {name: value for name, (value,) in parse_qs(urlsplit(address).query).items()}
        assert asked["response_type"] == "code"
        assert asked["code_challenge_method"] == "S256"
        assert "openid" in asked["scope"].split()
        code = secrets.token_urlsafe(8)
        self.codes[code] = asked
        back = {"code": code, "state": asked["state"]}
        return f"{asked['redirect_uri']}?{urlencode(back)}"

    def exchange(self, form: dict[str, str]) -> tuple[int, dict[str, Any]]:
        asked = self.codes.pop(form["code"], None)  # once
        digest = hashlib.sha256(form["code_verifier"].encode()).digest()
        if (
            asked is None
            or asked["code_challenge"] != base64.urlsafe_b64encode(digest).decode().rstrip("=")
            or asked["redirect_uri"] != form["redirect_uri"]
            or (form["client_id"], form["client_secret"]) != (CLIENT_ID, CLIENT_SECRET)
        ):
            return 400, {"error": "invalid_grant"}
        now = int(time.time())
        claims = {
            "iss": self.issuer,
            "aud": asked["client_id"],
            "sub": "subject-7",
            "nonce": asked["nonce"],
            "iat": now,
            "exp": now + 300,
            "name": "Ann Lee",
            "preferred_username": "ann",
            "groups": ["coders"],
        } | self.claims
        header = {"alg": self.algorithm, "kid": self.key.kid}
        return 200, {"id_token": jwt.encode(header, claims, self.key, [self.algorithm])}


@contextmanager
def running() -> Iterator[IdentityProvider]:
    """Start a provider on a free port."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if provider.broken:
                self._answer(500, {})
            elif self.path == "/.well-known/openid-configuration":
                self._answer(200, provider.description())
            else:
                published = provider.published or provider.key
                self._answer(200, {"keys": [published.as_dict(private=False)]})

        def do_POST(self) -> None:
            length = int(self.headers["Content-Length"])
            form = parse_qs(self.rfile.read(length).decode())
            self._answer(*provider.exchange({name: value for name, (value,) in form.items()}))

        def log_message(self, *_: object) -> None:
            pass

        def _answer(self, status: int, content: dict[str, Any]) -> None:
            body = json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    provider = IdentityProvider(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield provider
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
