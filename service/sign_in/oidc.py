"""Sign-in with an OpenID Connect provider (OpenID Connect Core 1.0, RFC 7636).

It uses the authorization code flow with PKCE, state and nonce. The provider's metadata contains its
endpoints. This server exchanges the code and checks the token's signature, issuer, audience, nonce
and times with the provider's published keys.
"""

import base64
import hashlib
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING, Any, NoReturn
from urllib.parse import urlencode

import httpx

from setwise.service.domain.accounts import ExternalIdentity
from setwise.service.domain.accounts.callers import Role
from setwise.service.domain.errors import ProviderUnavailable, Unauthenticated

if TYPE_CHECKING:
    from joserfc.jwk import KeySet

# Asymmetric algorithms only: with symmetric ones, the published key would be enough to sign.
ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "ES256", "ES384", "EdDSA")
LEEWAY_S = 60
PATIENCE_S = 10.0
FRESH_S = 3_600.0
"""How long the provider's metadata and keys are cached."""

_RANKED = (Role.ADMIN, Role.LEAD, Role.AUDITOR, Role.REVIEWER)


@dataclass(frozen=True)
class SignInAttempt:
    """State of a sign-in, stored in the browser, where other sites cannot read it."""

    state: str
    nonce: str
    verifier: str
    back: str

    @classmethod
    def begin(cls, back: str) -> "SignInAttempt":
        """Return a new attempt with random values."""
        state, nonce, verifier = (secrets.token_urlsafe(32) for _ in range(3))
        return cls(state, nonce, verifier, back)


@dataclass(frozen=True)
class Provider:
    """Settings of the provider."""

    issuer: str
    """The provider's URL; its metadata is at ``.well-known/openid-configuration`` below it."""
    client_id: str
    client_secret: str | None = field(repr=False)
    role_claim: str
    """Claim of the token with groups or roles: a string or a list of strings."""
    roles: Mapping[str, Role]
    """Role of each group; a person gets the most powerful one."""


class OpenIdConnect:
    """Client of an OpenID Connect provider."""

    def __init__(self, provider: Provider) -> None:
        self.provider = provider
        self._lock = Lock()
        self._known: tuple[dict[str, Any], KeySet, float] | None = None  # Any: JSON

    def address(self, attempt: SignInAttempt, redirect_uri: str) -> str:
        """Return the URL at which the browser signs in.

        Raises `ProviderUnavailable` if the provider's metadata cannot be read.
        """
        described, _ = self._described()
        challenge = hashlib.sha256(attempt.verifier.encode()).digest()
        asked = {
            "response_type": "code",
            "client_id": self.provider.client_id,
            "redirect_uri": redirect_uri,
            "scope": "openid profile email",
            "state": attempt.state,
            "nonce": attempt.nonce,
            "code_challenge": base64.urlsafe_b64encode(challenge).decode().rstrip("="),
            "code_challenge_method": "S256",
        }
        return f"{described['authorization_endpoint']}?{urlencode(asked)}"

    def check(self) -> None:
        """Raise `ProviderUnavailable` unless the provider's metadata and keys can be read."""
        self._described()

    def identify(self, code: str, attempt: SignInAttempt, redirect_uri: str) -> ExternalIdentity:
        """Exchange the browser's code; return the person's identity.

        Raises `Unauthenticated` if the code or the token is invalid; `ProviderUnavailable` if the
        provider does not answer.
        """
        described, keys = self._described()
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": redirect_uri,
            "client_id": self.provider.client_id,
            "code_verifier": attempt.verifier,
        }
        if self.provider.client_secret is not None:
            form["client_secret"] = self.provider.client_secret
        answer = self._ask("POST", described["token_endpoint"], data=form)
        if answer.status_code >= 500:
            _unavailable(f"its token endpoint answered {answer.status_code}")
        token = _json(answer).get("id_token")
        if answer.status_code != 200 or not isinstance(token, str):
            raise Unauthenticated("The identity provider did not accept the sign-in; try again.")
        return self._identity(self._claims(token, keys, attempt))

    def _claims(self, token: str, keys: "KeySet", attempt: SignInAttempt) -> dict[str, Any]:
        from joserfc import jwt  # noqa: PLC0415 -- of the extra `oidc`
        from joserfc.errors import InvalidKeyIdError, JoseError  # noqa: PLC0415 -- as above

        expected = jwt.JWTClaimsRegistry(
            leeway=LEEWAY_S,
            iss={"essential": True, "value": self.provider.issuer},
            aud={"essential": True, "value": self.provider.client_id},
            sub={"essential": True},
            exp={"essential": True},
            iat={"essential": True},
            nonce={"essential": True, "value": attempt.nonce},
        )
        try:
            try:
                claims = jwt.decode(token, keys, algorithms=list(ALGORITHMS)).claims
            except InvalidKeyIdError:  # the provider has changed its keys since they were read
                self._known = None
                _, keys = self._described()
                claims = jwt.decode(token, keys, algorithms=list(ALGORITHMS)).claims
            expected.validate(claims)
        except (JoseError, ValueError) as error:
            raise Unauthenticated(
                "The identity provider's token is not good "
                f"({type(error).__name__}); try again, or ask an administrator."
            ) from error
        if claims.get("azp", self.provider.client_id) != self.provider.client_id:
            raise Unauthenticated("The identity provider's token is for another program.")
        return claims

    def _identity(self, claims: Mapping[str, Any]) -> ExternalIdentity:
        subject = str(claims["sub"])
        login = claims.get("preferred_username") or claims.get("email") or subject
        named = claims.get(self.provider.role_claim)
        groups = named if isinstance(named, list) else [named]
        granted = {role for group, role in self.provider.roles.items() if group in groups}
        return ExternalIdentity(
            id=f"{self.provider.issuer} {subject}",
            login=str(login),
            name=str(claims.get("name") or login),
            role=next((role for role in _RANKED if role in granted), None),
        )

    def _described(self) -> tuple[dict[str, Any], "KeySet"]:
        from joserfc.errors import JoseError  # noqa: PLC0415 -- of the extra `oidc`
        from joserfc.jwk import KeySet  # noqa: PLC0415 -- as above

        with self._lock:
            known = self._known
            if known is not None and time.monotonic() - known[2] < FRESH_S:
                return known[0], known[1]
            issuer = self.provider.issuer
            configuration = self._ask(
                "GET", f"{issuer.rstrip('/')}/.well-known/openid-configuration"
            )
            described = _json(configuration)
            if described.get("issuer") != issuer:
                _unavailable(f"it calls itself {described.get('issuer')!r}, not {issuer!r}")
            for name in ("authorization_endpoint", "token_endpoint", "jwks_uri"):
                if not isinstance(described.get(name), str):
                    _unavailable(f"its description names no {name}")
            published = _json(self._ask("GET", described["jwks_uri"]))
            try:
                keys = KeySet.import_key_set(published)  # type: ignore[arg-type]  # checked by it
            except (JoseError, LookupError, ValueError, TypeError) as error:
                _unavailable(f"its keys cannot be read ({error})")
            self._known = described, keys, time.monotonic()
            return described, keys

    def _ask(self, method: str, address: str, data: dict[str, str] | None = None) -> httpx.Response:
        try:
            return httpx.request(method, address, timeout=PATIENCE_S, data=data)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            _unavailable(f"{type(error).__name__} at {address}")


def _json(answer: httpx.Response) -> dict[str, Any]:
    try:
        content = answer.json()
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict):
        _unavailable(f"it answered {answer.status_code} without JSON")
    return content


def _unavailable(why: str) -> NoReturn:
    raise ProviderUnavailable(f"The identity provider cannot be used: {why}.")


def read_roles(written: str) -> dict[str, Role]:
    """Return the role of each group from the text of the setting.

    >>> read_roles("coders=reviewer, leads=lead")
    {'coders': <Role.REVIEWER: 'reviewer'>, 'leads': <Role.LEAD: 'lead'>}

    Raises `ValueError` if a part is malformed; the message names it.
    """
    roles = {}
    for part in filter(None, (piece.strip() for piece in written.split(","))):
        group, separator, role = part.rpartition("=")
        if not separator or not group or role not in {known.value for known in _RANKED}:
            known = ", ".join(known.value for known in _RANKED)
            raise ValueError(f"{part!r} is not GROUP=ROLE with a role of {known}")
        roles[group] = Role(role)
    return roles
