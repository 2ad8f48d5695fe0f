"""Checks of ``doctor`` for what the service reaches over the network."""

# ruff: noqa: PLC0415 - the service's libraries import slowly: only where needed

import os
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from queue import Empty, SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING

from setwise.service.cli.doctor import Finding, Verdict

if TYPE_CHECKING:
    from setwise.service.settings import Settings

_PATIENCE_S = 5.0
_LONGEST_CHECK_S = 30.0
"""Libraries wait for minutes, and longer if the peer sends a byte now and then."""

_TRIED = ".setwise-doctor"
"""Folder of the object that is written and deleted again."""


def reachable(settings: "Settings") -> Iterator[Finding]:
    """Yield a finding for each object store, provider and collector of the settings."""
    for name in ("artifact_url", "files_url"):
        url = getattr(settings, name)
        yield from _run_within_limit("store", url, partial(_store, name, url))
    if settings.oidc_issuer:
        yield from _run_within_limit("sign-in", settings.oidc_issuer, lambda: [_provider(settings)])
    yield from _collector(settings)


def _run_within_limit(name: str, url: str, check: Callable[[], Iterable[Finding]]) -> list[Finding]:
    """Return the findings of a check, or a fault if it takes too long."""
    from setwise.service.settings import without_secrets

    results: SimpleQueue[list[Finding] | Exception] = SimpleQueue()

    def run() -> None:
        try:
            results.put(list(check()))
        except Exception as error:  # noqa: BLE001 - raised below
            results.put(error)

    Thread(target=run, daemon=True).start()  # a daemon thread does not keep the command alive
    try:
        result = results.get(timeout=_LONGEST_CHECK_S)
    except Empty:
        seen = f"{without_secrets(url)} has not answered within {_LONGEST_CHECK_S:.0f} seconds"
        cure = "see whether this machine may reach it, and whether it works"
        return [Finding(name, seen, cure, Verdict.FAULT)]
    if isinstance(result, Exception):
        raise result
    return result


def _store(name: str, url: str) -> Iterator[Finding]:
    from setwise.service.runtime.files import FolderOrObjectFiles
    from setwise.service.runtime.object_stores import local_folder
    from setwise.service.settings import PREFIX, without_secrets

    variable, shown = f"{PREFIX}{name.upper()}", without_secrets(url)
    try:
        if local_folder(url) is not None:
            return
        store = FolderOrObjectFiles(url)
        with store.create(f"{_TRIED}/object") as sink:
            sink.write(b"setwise")
        with store.open(f"{_TRIED}/object") as source:
            intact = source.read() == b"setwise"
        store.remove(_TRIED)
    except Exception as error:  # noqa: BLE001 - each store's library has errors of its own
        reason = str(error).partition("\n")[0] or type(error).__name__
        cure = f"check {variable}, the credentials and their right to write and delete"
        yield Finding("store", f"{shown}: {reason}", cure, Verdict.FAULT)
        return
    if not intact:
        cure = f"check {variable}: what was written is not what was read"
        yield Finding("store", f"{shown} returns something else", cure, Verdict.FAULT)
        return
    yield Finding("store", f"{shown} takes, returns and deletes an object")


def _provider(settings: "Settings") -> Finding:
    from setwise.service.build import provider_of
    from setwise.service.domain.errors import ProviderUnavailable
    from setwise.service.settings import BadSetting

    try:
        provider = provider_of(settings)
        if provider is not None:
            provider.check()
    except BadSetting as error:
        return Finding("sign-in", str(error), "correct the variable", Verdict.FAULT)
    except ProviderUnavailable as error:
        cure = "check SETWISE_OIDC_ISSUER, and that this machine may reach it"
        return Finding("sign-in", error.detail, cure, Verdict.FAULT)
    return Finding("sign-in", f"{settings.oidc_issuer} describes itself, and its keys can be read")


def _collector(settings: "Settings") -> Iterator[Finding]:
    """Yield whether the collector of spans takes an empty message."""
    import httpx

    from setwise.service.settings import without_secrets
    from setwise.service.tracing import COLLECTOR

    endpoint = settings.otlp_endpoint or os.environ.get(COLLECTOR, "")
    if not endpoint:
        return
    variable = "SETWISE_OTLP_ENDPOINT" if settings.otlp_endpoint else COLLECTOR
    address, shown = f"{endpoint.rstrip('/')}/v1/traces", without_secrets(endpoint)
    try:
        answer = httpx.post(
            address,
            content=b"",  # a request without spans, in protobuf
            headers={"Content-Type": "application/x-protobuf"},
            timeout=_PATIENCE_S,
        )
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        fault = f"{shown} does not answer ({type(error).__name__})"
    else:
        fault = "" if answer.is_success else f"{shown} answers {answer.status_code} to spans"
    if fault:
        cure = f"check {variable}, which takes OTLP over HTTP (port 4318); no spans arrive"
        yield Finding("traces", fault, cure, Verdict.WARNING)
        return
    yield Finding("traces", f"{shown} takes spans")
