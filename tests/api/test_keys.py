"""Keys that may do less than their role, for a time, at a pace."""

from datetime import timedelta

import pytest

from setwise.service import build
from setwise.service.app import create_app
from setwise.service.domain.accounts.callers import SYSTEM, Permission, Role
from setwise.service.domain.errors import InvalidRequest
from setwise.service.settings import Settings
from tests.kit.edge import PEPPER, Service, assert_problem


def make(service: Service, name: str, role: Role, **limits: object) -> None:
    _, service.secrets[name] = service.services.keys.create(SYSTEM, name, role, **limits)


def test_an_expired_key_says_so(service: Service) -> None:
    make(service, "guest", Role.CLIENT, expires_at=service.clock() + timedelta(hours=1))
    assert service.get("/v1/predictions", by="guest").status_code == 200
    service.clock.advance(hours=1)
    response = service.get("/v1/predictions", by="guest")
    assert (
        "expired at 2026-01-02 04:04 UTC" in assert_problem(response, 401, "key-expired")["detail"]
    )
    assert response.headers["www-authenticate"].startswith("Bearer")


def test_a_hurried_key_is_told_to_wait(service: Service) -> None:
    service.app.state.edge.callers._clock = lambda: 0.0  # so that the minute does not end
    make(service, "hurried", Role.CLIENT, per_minute=2)
    first = service.get("/v1/predictions", by="hurried")
    assert first.headers["ratelimit-policy"] == '"key";q=2;w=60'
    assert first.headers["ratelimit"] == '"key";r=1;t=30'
    body = {"document": {"text": "0.5"}}
    assert service.post("/v1/predictions", by="hurried", json=body).status_code == 201
    for path, method in (("/v1/predictions", "POST"), ("/v1/predictions", "GET")):
        response = service.send(method, path, by="hurried", json=body)
        assert_problem(response, 429, "too-many-requests")
        assert 1 <= int(response.headers["retry-after"]) <= 30
        assert response.headers["ratelimit"].startswith('"key";r=0;t=')
    assert "ratelimit" not in service.get("/v1/predictions", by="client").headers


def test_metrics_can_be_closed(service: Service) -> None:
    assert service.get("/metrics").status_code == 200
    edge = build.edge(
        Settings(open_metrics=False),
        service.services,
        pepper=PEPPER,
        checks={},
        prediction_checks={},
    )
    service.app = create_app(edge)
    assert_problem(service.get("/metrics"), 401, "unauthenticated")


@pytest.mark.parametrize(
    ("limits", "pointer"),
    [
        ({"scopes": frozenset()}, "/scopes"),
        ({"scopes": frozenset({Permission.ADMINISTER})}, "/scopes"),
        ({"per_minute": -1}, "/per_minute"),
        ({"per_minute": 10**9}, "/per_minute"),
    ],
)
def test_limits_that_make_no_sense_are_refused(
    service: Service, limits: dict[str, object], pointer: str
) -> None:
    with pytest.raises(InvalidRequest) as error:
        make(service, "odd", Role.CLIENT, **limits)
    assert [fault.pointer for fault in error.value.faults] == [pointer]
    with pytest.raises(InvalidRequest, match="key cannot be created"):
        make(service, "late", Role.CLIENT, expires_at=service.clock())
