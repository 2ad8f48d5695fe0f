"""Session cookies, and protection against forged requests (CSRF).

A browser sends its cookies with requests from any site. So a request with side effects also needs a
token derived from the session, which only our pages can read, and headers in which the browser
names the sending site.
"""

import base64
import hashlib
import hmac
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import urlsplit

from starlette.requests import HTTPConnection
from starlette.responses import Response

from setwise.service.domain.accounts import Device, Session, SignedIn
from setwise.service.domain.accounts.callers import ANONYMOUS, Caller
from setwise.service.domain.errors import ForgedRequest, Unauthenticated

CSRF_HEADER = "X-CSRF-Token"
CSRF_FIELD = "csrf"

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})

_SESSION = "setwise-session"
_FORM = "setwise-form"
_FORM_LIFE_S = 3_600
_DEVICE = "setwise-device"
_DEVICE_LIFE_S = 365 * 86_400
_AWAY = "setwise-away"
_AWAY_LIFE_S = 600


@dataclass(frozen=True)
class Visit:
    """A request of a signed-in person."""

    caller: Caller
    session: Session
    token: str
    csrf: str
    """Token that forms send in the field `CSRF_FIELD` and scripts in `CSRF_HEADER`; it differs
    between visits.
    """


class SessionCookies:
    """Reads and writes session cookies, and creates and checks form tokens.

    ``open_session``: Returns the session of a token, or raises `Unauthenticated`.
    ``secret``: Key of form tokens, shared by all processes of a service.
    ``public_url``: URL of the service for browsers, such as ``https://setwise.example``; if empty,
    the URL of each request.
    ``longest_s``: Lifetime of the cookie, in seconds.
    """

    def __init__(
        self,
        open_session: Callable[[str, Caller], SignedIn],
        *,
        secret: bytes,
        public_url: str,
        longest_s: float,
    ) -> None:
        self._open_session = open_session
        self._secret = secret
        self._public_url = public_url.rstrip("/")
        self._path = urlsplit(self._public_url).path or "/"
        self._longest_s = int(longest_s)

    def token(self, request: HTTPConnection) -> str | None:
        """Return the session token of a request, or None."""
        return request.cookies.get(self._name(request, _SESSION))

    def visit(self, request: HTTPConnection) -> Visit:
        """Return the visit of a signed-in person; raises `Unauthenticated`."""
        token = self.token(request)
        if not token:
            raise Unauthenticated("You are not signed in.")
        session = self._open_session(token, from_request(ANONYMOUS, request))
        return Visit(session.caller, session.session, token, _masked(self._proof("session", token)))

    def begin(self, request: HTTPConnection, response: Response, token: str) -> None:
        """Set the cookie for a new session."""
        self._set(request, response, _SESSION, token, self._longest_s)

    def end(self, request: HTTPConnection, response: Response) -> None:
        """Delete the session cookie."""
        self._set(request, response, _SESSION, "", 0)

    def check(self, request: HTTPConnection, visit: Visit, token: str | None) -> None:
        """Raise `ForgedRequest` unless one of our pages sent the request."""
        self._check_origin(request)
        expected = self._proof("session", visit.token)
        if not hmac.compare_digest(_bytes(_unmasked(token or "")), _bytes(expected)):
            raise ForgedRequest(
                f"The request lacks the token of its page; reload the page. (Scripts send "
                f"{CSRF_HEADER}, forms the field {CSRF_FIELD}.)"
            )

    # The sign-in form has no session yet but needs protection too: an attacker could sign a person
    # in to the attacker's account.

    def form_token(self, request: HTTPConnection, response: Response) -> str:
        """Return the token of a form before sign-in, bound to the browser."""
        nonce = request.cookies.get(self._name(request, _FORM)) or secrets.token_urlsafe(16)
        self._set(request, response, _FORM, nonce, _FORM_LIFE_S)
        return self._proof("form", nonce)

    def check_form(self, request: HTTPConnection, token: str) -> None:
        """Raise `ForgedRequest` unless our sign-in page sent the form."""
        self._check_origin(request)
        nonce = request.cookies.get(self._name(request, _FORM))
        if not nonce or not hmac.compare_digest(_bytes(token), _bytes(self._proof("form", nonce))):
            raise ForgedRequest(
                "The form is old, or the browser keeps no cookies of this site; try again."
            )

    # A browser that signed in before is not slowed down by strangers' guesses.

    def know(self, request: HTTPConnection, response: Response, login: str) -> None:
        """Remember that ``login`` has signed in with this browser."""
        body = base64.urlsafe_b64encode(_bytes(f"{secrets.token_urlsafe(16)} {login}")).decode()
        value = f"{body}.{self._proof('device', body)}"
        self._set(request, response, _DEVICE, value, _DEVICE_LIFE_S)

    def device(self, request: HTTPConnection) -> Device | None:
        """Return the browser that a signed cookie names, or None."""
        named = self._signed(request, _DEVICE, "device")
        if named is None:
            return None
        nonce, _, login = named.partition(" ")
        return Device(login, nonce)

    # The browser stores the state of a sign-in while it is at the identity provider.

    def remember(self, request: HTTPConnection, response: Response, value: str) -> None:
        """Store a signed value in the browser for a few minutes."""
        body = base64.urlsafe_b64encode(_bytes(value)).decode()
        cookie = f"{body}.{self._proof('away', body)}"
        self._set(request, response, _AWAY, cookie, _AWAY_LIFE_S)

    def recall(self, request: HTTPConnection) -> str | None:
        """Return the stored value; None if it is missing or forged."""
        return self._signed(request, _AWAY, "away")

    def forget(self, request: HTTPConnection, response: Response) -> None:
        """Delete the stored value."""
        self._set(request, response, _AWAY, "", 0)

    def secure(self, request: HTTPConnection) -> bool:
        """Return whether the browser uses TLS, to us or to a proxy."""
        return (self._public_url or str(request.url)).startswith("https:")

    def base(self, request: HTTPConnection) -> str:
        """Return the service's URL for the browser, without a slash at its end."""
        return self._public_url or f"{request.url.scheme}://{request.url.netloc}"

    def _check_origin(self, request: HTTPConnection) -> None:
        site = request.headers.get("Sec-Fetch-Site")
        if site is not None and site not in {"same-origin", "none"}:
            raise ForgedRequest(f"The request comes from another site (Sec-Fetch-Site: {site}).")
        origin = request.headers.get("Origin")
        if (
            site is None
            and origin is not None
            and origin != self.base(request).removesuffix(self._path.rstrip("/"))
        ):
            raise ForgedRequest(
                "The request comes from another origin. Behind a proxy, set SETWISE_PUBLIC_URL."
            )

    def _signed(self, request: HTTPConnection, name: str, purpose: str) -> str | None:
        body, _, proof = request.cookies.get(self._name(request, name), "").partition(".")
        if not hmac.compare_digest(_bytes(proof), _bytes(self._proof(purpose, body))):
            return None
        return base64.urlsafe_b64decode(body).decode("utf-8", "surrogatepass")

    def _proof(self, purpose: str, value: str) -> str:
        digest = hmac.digest(self._secret, _bytes(f"{purpose} {value}"), hashlib.sha256)
        return base64.urlsafe_b64encode(digest).decode().rstrip("=")

    def _name(self, request: HTTPConnection, name: str) -> str:
        # With __Host-, browsers reject the cookie from a neighbouring host and over http; it is for
        # all paths. Below a path of a shared host, neighbours should not get the cookie.
        prefix = "__Host-" if self._path == "/" else "__Secure-"
        return f"{prefix}{name}" if self.secure(request) else name

    def _set(
        self, request: HTTPConnection, response: Response, name: str, value: str, life_s: int
    ) -> None:
        response.set_cookie(
            self._name(request, name),
            value,
            max_age=life_s,
            path=self._path,
            httponly=True,
            samesite="lax",
            secure=self.secure(request),
        )


def from_request(caller: Caller, request: HTTPConnection) -> Caller:
    """Return the caller with the address and the id of a request.

    Trusted proxies report the address.
    """
    address = request.client.host if request.client else None
    return caller.calling_from(address, request.scope.get("state", {}).get("request_id"))


def _masked(proof: str) -> str:
    """Return a proof under a random mask, so compression cannot leak it."""
    plain = _bytes(proof)
    mask = secrets.token_bytes(len(plain))
    return base64.urlsafe_b64encode(mask + _xor(mask, plain)).decode().rstrip("=")


def _unmasked(token: str) -> str:
    """Return the proof in a token; empty if the token is malformed.

    >>> _unmasked(_masked("abc")), _unmasked("?"), _unmasked("é")
    ('abc', '', '')
    """
    try:
        both = base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True)
    except ValueError:
        return ""
    half = len(both) // 2
    return _xor(both[:half], both[half:]).decode("latin-1")


def _xor(left: bytes, other: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(left, other, strict=False))


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
