"""Signing in with an identity provider: the way there, and the way back."""

import hmac
import json
from dataclasses import asdict

from fastapi import APIRouter, Request, Response

from setwise.service.domain.errors import Unauthenticated
from setwise.service.pages.rendering import Page, go
from setwise.service.pages.sign_in import request_id_of
from setwise.service.pages.visitors import LOGIN, Visitors, local
from setwise.service.services.verbs import Verbs
from setwise.service.sign_in.oidc import Attempt, OpenIdConnect
from setwise.service.sign_in.sessions import address_of

CALLBACK = f"{LOGIN}/oidc/callback"


def external_doors(verbs: Verbs, visitors: Visitors, provider: OpenIdConnect) -> APIRouter:
    """Return the routes between this service and the provider."""
    router = APIRouter(route_class=Page)
    cookies = visitors.cookies

    @router.get(f"{LOGIN}/oidc")
    def leave(request: Request, next: str = "/") -> Response:  # noqa: A002 -- its name in addresses
        """Send the browser to the provider."""
        attempt = Attempt.begin(local(next))
        answer = go(provider.address(attempt, cookies.origin(request) + CALLBACK))
        cookies.remember(request, answer, json.dumps(asdict(attempt)))
        return answer

    @router.get(CALLBACK)
    def arrive(request: Request, code: str = "", state: str = "", error: str = "") -> Response:
        """Begin a session for whomever the provider vouches for."""
        kept = cookies.recall(request)
        attempt = Attempt(**json.loads(kept)) if kept else None
        if attempt is None or not hmac.compare_digest(state.encode(), attempt.state.encode()):
            raise Unauthenticated("This sign-in was not begun in this browser, or too long ago.")
        if error or not code:
            raise Unauthenticated("The identity provider did not sign you in; try again.")
        identity = provider.identify(code, attempt, cookies.origin(request) + CALLBACK)
        _, token = verbs.sign_in_externally(
            identity, address=address_of(request), request_id=request_id_of(request)
        )
        answer = go(local(attempt.back))
        cookies.begin(request, answer, token)
        cookies.forget(request, answer)
        return answer

    return router
