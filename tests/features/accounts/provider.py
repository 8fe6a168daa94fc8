"""A small OpenID Connect provider: a real HTTP server that signs RS256 tokens.

It knows one person, asks for no password, and checks what a provider checks: the client, its
secret, the address to send the browser back to, and the challenge of the code (PKCE).
"""

import base64
import hashlib
import json
import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa

CLIENT, SECRET = "replview", "client-secret"


class Provider(ThreadingHTTPServer):
    """One issuer."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answer)
        self.issuer = f"http://127.0.0.1:{self.server_address[1]}"
        self.key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        #: Another one, for tokens that somebody forges.
        self.signing_key = self.key
        self.person: dict[str, Any] = {"sub": "p-1", "preferred_username": "ada", "groups": []}
        #: Claims that are added to tokens, or replace their own.
        self.claims: dict[str, Any] = {}
        self.userinfo: dict[str, Any] = {}
        self.codes: dict[str, dict[str, str]] = {}

    def token(self, nonce: str) -> str:
        """An ID token of the person."""
        now = int(time.time())
        claims = {"iss": self.issuer, "aud": CLIENT, "sub": self.person["sub"], "iat": now,
                  "exp": now + 300, "nonce": nonce, **self.claims}  # fmt: skip
        return jwt.encode(claims, self.signing_key, algorithm="RS256", headers={"kid": "k1"})


class _Answer(BaseHTTPRequestHandler):
    server: Provider

    def do_GET(self) -> None:
        """Discovery, keys, the login, who somebody is."""
        url = urlsplit(self.path)
        asked = {name: values[0] for name, values in parse_qs(url.query).items()}
        issuer = self.server.issuer
        match url.path:
            case "/.well-known/openid-configuration":
                self._json({"issuer": issuer, "authorization_endpoint": f"{issuer}/authorize",
                            "token_endpoint": f"{issuer}/token", "jwks_uri": f"{issuer}/keys",
                            "userinfo_endpoint": f"{issuer}/userinfo"})  # fmt: skip
            case "/keys":
                public = jwt.algorithms.RSAAlgorithm.to_jwk(self.server.key.public_key())
                self._json({"keys": [{**json.loads(public), "kid": "k1", "alg": "RS256"}]})
            case "/authorize":
                assert asked["client_id"] == CLIENT
                assert asked["code_challenge_method"] == "S256"
                code = secrets.token_urlsafe(16)
                self.server.codes[code] = asked
                back = urlencode({"code": code, "state": asked["state"]})
                self.send_response(302)
                self.send_header("Location", f"{asked['redirect_uri']}?{back}")
                self.end_headers()
            case "/userinfo":
                if self.headers.get("Authorization") != "Bearer access":
                    self._json({"error": "who?"}, 401)
                else:
                    self._json({**self.server.person, **self.server.userinfo})
            case _:
                self._json({}, 404)

    def do_POST(self) -> None:
        """A code for tokens, once."""
        length = int(self.headers["Content-Length"])
        sent = {name: one[0] for name, one in parse_qs(self.rfile.read(length).decode()).items()}
        asked = self.server.codes.pop(sent.get("code", ""), None)
        digest = hashlib.sha256(sent.get("code_verifier", "").encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        good = (
            asked is not None
            and sent["client_secret"] == SECRET
            and sent["redirect_uri"] == asked["redirect_uri"]
            and challenge == asked["code_challenge"]
        )
        if not good or asked is None:
            self._json({"error": "invalid_grant"}, 400)
            return
        self._json({"access_token": "access", "token_type": "Bearer",
                    "id_token": self.server.token(asked["nonce"])})  # fmt: skip

    def log_message(self, *args: Any) -> None:
        """Log nothing."""

    def _json(self, told: dict[str, Any], status: int = 200) -> None:
        body = json.dumps(told).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@contextmanager
def running() -> Iterator[Provider]:
    """A provider that answers."""
    server = Provider()
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
