"""What a provider says of itself, however wrong, is refused and never raises anything else."""

import json
from typing import Any

import httpx
import pytest

from setwise.service.domain.errors import ProviderUnavailable
from setwise.service.sign_in.oidc import OpenIdConnect, Provider

ISSUER = "https://id.example"
DESCRIPTION = {
    "issuer": ISSUER,
    "authorization_endpoint": f"{ISSUER}/authorize",
    "token_endpoint": f"{ISSUER}/token",
    "jwks_uri": f"{ISSUER}/keys",
}
KEYS = {"keys": [{"kty": "oct", "k": "A" * 32}]}


def provider(
    monkeypatch: pytest.MonkeyPatch, description: bytes, keys: bytes = json.dumps(KEYS).encode()
) -> OpenIdConnect:
    def answer(method: str, address: str, **_: object) -> httpx.Response:
        with httpx.Client() as client:
            client.build_request(method, address)  # refuses what is no address
        described = address.endswith("/openid-configuration")
        return httpx.Response(200, content=description if described else keys)

    monkeypatch.setattr(httpx, "request", answer)
    return OpenIdConnect(Provider(ISSUER, "setwise", None, "groups", {}))


def test_a_sound_description_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    provider(monkeypatch, json.dumps(DESCRIPTION).encode()).check()


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"issuer": f"{ISSUER}/"}, "calls itself"),
        ({"jwks_uri": None}, "jwks_uri"),
        ({"jwks_uri": "http://[::1"}, "InvalidURL"),
        ({"authorization_endpoint": 7}, "authorization_endpoint"),
        ({"token_endpoint": None}, "token_endpoint"),
    ],
)
def test_a_wrong_description_is_refused(
    monkeypatch: pytest.MonkeyPatch, changed: dict[str, Any], named: str
) -> None:
    content = json.dumps(DESCRIPTION | changed).encode()
    with pytest.raises(ProviderUnavailable, match=named):
        provider(monkeypatch, content).check()


@pytest.mark.parametrize(
    "content", [b"<html>", b"[]", b"5", b'{"issuer": "\xff"}', b"[" * 100_000, b""]
)
def test_what_is_no_object_is_refused(monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    with pytest.raises(ProviderUnavailable, match="without JSON"):
        provider(monkeypatch, content).check()
    with pytest.raises(ProviderUnavailable, match="without JSON"):
        provider(monkeypatch, json.dumps(DESCRIPTION).encode(), content).check()


@pytest.mark.parametrize(
    "keys",
    [[], 7, [5], [{}], [{"kty": "XX"}], [{"kty": ["x"]}], [{"kty": "RSA", "n": "!", "e": "AQAB"}]],
)
def test_keys_that_cannot_be_read_are_refused(monkeypatch: pytest.MonkeyPatch, keys: Any) -> None:
    content = json.dumps({"keys": keys}).encode()
    with pytest.raises(ProviderUnavailable, match="keys"):
        provider(monkeypatch, json.dumps(DESCRIPTION).encode(), content).check()
