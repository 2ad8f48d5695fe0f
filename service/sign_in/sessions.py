"""Sessions in cookies, and proof that a request comes from a page of ours.

A browser sends its cookies with whatever request any site makes it send. So a request that changes
something needs more than the session's cookie: a token that only our pages can read (derived from
the session, so it ends with it), and headers by which the browser says where it comes from.
"""

import base64
import hashlib
import hmac
import secrets
from dataclasses import dataclass
from typing import Protocol

from starlette.requests import HTTPConnection
from starlette.responses import Response

from setwise.service.domain.accounts import Session
from setwise.service.domain.callers import Caller
from setwise.service.domain.errors import ForgedRequest, Unauthenticated
from setwise.service.services.accounts import SignedIn

CSRF_HEADER = "X-CSRF-Token"
CSRF_FIELD = "csrf"

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})

_SESSION = "setwise-session"
_FORM = "setwise-form"
_FORM_LIFE_S = 3_600
_AWAY = "setwise-away"
_AWAY_LIFE_S = 600


class _OpenSession(Protocol):
    def __call__(self, token: str, *, address: str | None = None) -> SignedIn: ...


@dataclass(frozen=True)
class Visit:
    """A request by somebody who is signed in.

    Attributes
    ----------
    csrf : str
        What forms of the page carry in the field `CSRF_FIELD`, scripts in `CSRF_HEADER`; another
        one at each visit.
    """

    caller: Caller
    session: Session
    token: str
    csrf: str


class SessionCookies:
    """Reads and writes the cookies of sessions; makes and checks the tokens of forms.

    Parameters
    ----------
    open_session : callable
        Finds whom a token stands for, or raises `Unauthenticated`.
    secret : bytes
        Derives the forms' tokens; processes that serve the same people share it.
    public_url : str
        Where browsers reach the service, such as ``https://setwise.example``; empty to take the
        address that each request names.
    longest_s : float
        When a browser forgets the cookie, in seconds.
    """

    def __init__(
        self, open_session: _OpenSession, *, secret: bytes, public_url: str, longest_s: float
    ) -> None:
        self._open_session = open_session
        self._secret = secret
        self._public_url = public_url.rstrip("/")
        self._longest_s = int(longest_s)

    def token(self, request: HTTPConnection) -> str | None:
        """Return the session's token that a request brings."""
        return request.cookies.get(self._name(request, _SESSION))

    def visit(self, request: HTTPConnection) -> Visit:
        """Find out who is signed in; asks the database.

        Raises
        ------
        Unauthenticated
            If nobody is.
        """
        token = self.token(request)
        if not token:
            raise Unauthenticated("You are not signed in.")
        found = self._open_session(token, address=address_of(request))
        return Visit(found.caller, found.session, token, _masked(self._proof("session", token)))

    def begin(self, request: HTTPConnection, response: Response, token: str) -> None:
        """Let the browser keep a session that has just begun."""
        self._set(request, response, _SESSION, token, self._longest_s)

    def end(self, request: HTTPConnection, response: Response) -> None:
        """Let the browser forget its session."""
        self._set(request, response, _SESSION, "", 0)

    def check(self, request: HTTPConnection, visit: Visit, given: str | None) -> None:
        """Raise `ForgedRequest` unless a page of ours made the browser send the request."""
        self._check_origin(request)
        expected = self._proof("session", visit.token)
        if not hmac.compare_digest(_bytes(_unmasked(given or "")), _bytes(expected)):
            raise ForgedRequest(
                f"The request lacks the token of its page; reload the page. (Scripts send "
                f"{CSRF_HEADER}, forms the field {CSRF_FIELD}.)"
            )

    # The sign-in form has no session yet, and needs protection still: signed in as somebody else
    # without knowing it, a person would work for them.

    def form_token(self, request: HTTPConnection, response: Response) -> str:
        """Return the token of a form for people who are not signed in, bound to their browser."""
        nonce = request.cookies.get(self._name(request, _FORM)) or secrets.token_urlsafe(16)
        self._set(request, response, _FORM, nonce, _FORM_LIFE_S)
        return self._proof("form", nonce)

    def check_form(self, request: HTTPConnection, given: str) -> None:
        """Raise `ForgedRequest` unless the browser got the form from us."""
        self._check_origin(request)
        nonce = request.cookies.get(self._name(request, _FORM))
        if not nonce or not hmac.compare_digest(_bytes(given), _bytes(self._proof("form", nonce))):
            raise ForgedRequest(
                "The form is old, or the browser keeps no cookies of this site; try again."
            )

    # A sign-in with an identity provider is remembered by the browser while it is away.

    def remember(self, request: HTTPConnection, response: Response, value: str) -> None:
        """Let the browser keep ``value`` for some minutes; nobody can change it."""
        body = base64.urlsafe_b64encode(_bytes(value)).decode()
        kept = f"{body}.{self._proof('away', body)}"
        self._set(request, response, _AWAY, kept, _AWAY_LIFE_S)

    def recall(self, request: HTTPConnection) -> str | None:
        """Return what the browser kept; None if there is nothing, or nothing of ours."""
        body, _, proof = request.cookies.get(self._name(request, _AWAY), "").partition(".")
        if not hmac.compare_digest(_bytes(proof), _bytes(self._proof("away", body))):
            return None
        return base64.urlsafe_b64decode(body).decode()

    def forget(self, request: HTTPConnection, response: Response) -> None:
        """Let the browser forget what it kept."""
        self._set(request, response, _AWAY, "", 0)

    def secure(self, request: HTTPConnection) -> bool:
        """Tell whether the browser speaks TLS, to us or to the proxy in front of us."""
        return (self._public_url or str(request.url)).startswith("https:")

    def origin(self, request: HTTPConnection) -> str:
        """Return scheme, host and port under which the browser knows us."""
        return self._public_url or f"{request.url.scheme}://{request.url.netloc}"

    def _check_origin(self, request: HTTPConnection) -> None:
        site = request.headers.get("Sec-Fetch-Site")
        if site is not None and site not in {"same-origin", "none"}:
            raise ForgedRequest(f"The request comes from another site (Sec-Fetch-Site: {site}).")
        origin = request.headers.get("Origin")
        if site is None and origin is not None and origin != self.origin(request):
            raise ForgedRequest(
                "The request comes from another origin. Behind a proxy, set SETWISE_PUBLIC_URL."
            )

    def _proof(self, purpose: str, value: str) -> str:
        digest = hmac.digest(self._secret, _bytes(f"{purpose} {value}"), hashlib.sha256)
        return base64.urlsafe_b64encode(digest).decode().rstrip("=")

    def _name(self, request: HTTPConnection, name: str) -> str:
        # The prefix makes browsers refuse such a cookie from a neighbouring host or over http.
        return f"__Host-{name}" if self.secure(request) else name

    def _set(
        self, request: HTTPConnection, response: Response, name: str, value: str, life_s: int
    ) -> None:
        response.set_cookie(
            self._name(request, name),
            value,
            max_age=life_s,
            path="/",
            httponly=True,
            samesite="lax",
            secure=self.secure(request),
        )


def address_of(request: HTTPConnection) -> str | None:
    """Return the network address that a request came from, as trusted proxies tell it."""
    return request.client.host if request.client else None


def _masked(proof: str) -> str:
    """Return a proof under a mask of its own, so that compressed pages do not give it away."""
    plain = _bytes(proof)
    mask = secrets.token_bytes(len(plain))
    return base64.urlsafe_b64encode(mask + _xor(mask, plain)).decode().rstrip("=")


def _unmasked(token: str) -> str:
    """Return the proof under a mask; what nobody has masked gives nothing that fits.

    >>> _unmasked(_masked("abc")), _unmasked("?"), _unmasked("é")
    ('abc', '', '')
    """
    try:
        both = base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True)
    except ValueError:
        return ""
    half = len(both) // 2
    return _xor(both[:half], both[half:]).decode("latin-1")


def _xor(one: bytes, other: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(one, other, strict=False))


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
