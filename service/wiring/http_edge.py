"""Verbs in, what the HTTP interface needs out."""

import importlib.util
from collections.abc import Callable, Mapping

from setwise.service.api.cursors import Cursors
from setwise.service.api.dependencies import Callers, Edge
from setwise.service.api.gather import PredictionQueue
from setwise.service.api.limits import KeyLimits
from setwise.service.services.verbs import Verbs
from setwise.service.settings import PREFIX, BadSetting, Settings
from setwise.service.sign_in.oidc import OpenIdConnect, Provider, read_roles
from setwise.service.sign_in.sessions import SessionCookies
from setwise.service.stores.identity import NewId, new_id
from setwise.service.telemetry import Metrics
from setwise.service.tracing import Tracing
from setwise.service.wiring.keys import derived
from setwise.service.wiring.watching import watch


def edge(
    settings: Settings,
    finished: Verbs,
    *,
    pepper: bytes,
    checks: Mapping[str, Callable[[], str | None]],
    ids: NewId = new_id,
    metrics: Metrics | None = None,
    spans: Tracing | None = None,
) -> Edge:
    """Return what the HTTP interface needs, over finished verbs."""
    metrics = metrics or Metrics()
    watch(metrics, finished)
    return Edge(
        verbs=finished,
        predict=PredictionQueue(finished.predictions.predict),
        callers=Callers(finished.accounts.authenticate, trusted_s=settings.key_cache_s),
        sessions=SessionCookies(
            finished.accounts.open_session,
            secret=derived(pepper, "forms"),
            public_url=settings.public_url,
            longest_s=settings.session_longest_s,
        ),
        provider=_provider(settings),
        limits=KeyLimits(settings.key_rate_per_minute),
        https=settings.public_url.startswith("https:"),
        open_metrics=settings.open_metrics,
        cursors=Cursors(derived(pepper, "cursors")),
        checks=checks,
        new_id=ids,
        max_body_bytes=settings.max_body_bytes,
        max_upload_bytes=settings.max_upload_bytes,
        metrics=metrics,
        spans=spans,
    )


def _provider(settings: Settings) -> OpenIdConnect | None:
    if not settings.oidc_issuer:
        return None
    needed = {
        "OIDC_CLIENT_ID": settings.oidc_client_id,
        "OIDC_ROLES": settings.oidc_roles,
        "PUBLIC_URL": settings.public_url,
    }
    for name, given in needed.items():
        if not given:
            raise BadSetting(f"{PREFIX}{name}: is needed with {PREFIX}OIDC_ISSUER")
    if any(importlib.util.find_spec(name) is None for name in ("httpx", "joserfc")):
        raise BadSetting(f"{PREFIX}OIDC_ISSUER: install the extra setwise[oidc] first")
    secret = settings.oidc_client_secret
    return OpenIdConnect(
        Provider(
            settings.oidc_issuer,
            settings.oidc_client_id,
            secret.get_secret_value() if secret else None,
            settings.oidc_role_claim,
            read_roles(settings.oidc_roles),
        )
    )
