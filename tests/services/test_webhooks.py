"""What administrators do to webhooks leaves a trail that names who did it, and no secret."""

from datetime import timedelta

import pytest

from setwise.service.domain.errors import Forbidden, InvalidRequest, StaleVersion, WebhookNotFound
from setwise.service.domain.webhooks import EndpointChange
from setwise.service.services.webhooks import Webhooks
from tests.building import webhooks
from tests.fakes import FakeClock, FakeIds
from tests.samples import ADMIN, LEAD
from tests.sqlite import Database

WANTED = EndpointChange("https://b.example/hooks", "billing")


@pytest.fixture
def parts() -> tuple[Database, FakeClock, FakeIds]:
    return Database(), FakeClock(), FakeIds()


Parts = tuple[Database, FakeClock, FakeIds]


def service(parts: Parts, **options: object) -> Webhooks:
    return webhooks(*parts, **{"new_secret": lambda: "whsec_c2VjcmV0", **options})


def test_every_change_is_in_the_audit_trail_without_a_secret(parts: Parts) -> None:
    database = parts[0]
    hooks = service(parts)
    hook, secret = hooks.add(ADMIN, WANTED, request_id="r-1")
    hooks.change(ADMIN, hook.id, WANTED, hook.version)
    hooks.rotate_secret(ADMIN, hook.id)
    delivery = hooks.try_out(ADMIN, hook.id)
    hooks.replay(ADMIN, delivery.id)
    hooks.replay_dead(ADMIN, hook.id)
    hooks.delete(ADMIN, hook.id, request_id="r-2")
    events = list(database.contents.events.values())
    assert [event.action for event in events] == [
        "webhook.added",
        "webhook.changed",
        "webhook.secret_rotated",
        "webhook.tested",
        "delivery.replayed",
        "webhook.replayed",
        "webhook.deleted",
    ]
    assert {event.actor_id for event in events} == {ADMIN.id}
    assert (events[0].request_id, events[-1].request_id) == ("r-1", "r-2")
    assert events[0].detail["url"] == WANTED.url
    assert events[-1].detail["cancelled"] == 1
    assert secret not in str(events)


def test_a_refused_change_leaves_no_trace(parts: Parts) -> None:
    hooks = service(parts)
    hook, _ = hooks.add(ADMIN, WANTED)
    with pytest.raises(StaleVersion):
        hooks.change(ADMIN, hook.id, WANTED, 7)
    with pytest.raises(StaleVersion):
        hooks.delete(ADMIN, hook.id, 7)
    with pytest.raises(InvalidRequest):
        hooks.change(ADMIN, hook.id, EndpointChange("https://10.0.0.1/"))
    with pytest.raises(WebhookNotFound):
        hooks.change(ADMIN, "nonsense", WANTED)
    assert len(parts[0].contents.events) == 1
    assert hooks.get(ADMIN, hook.id) == hook


def test_private_addresses_are_taken_where_the_settings_allow_them(parts: Parts) -> None:
    hooks = service(parts, allow_private=True)
    hook, _ = hooks.add(ADMIN, EndpointChange("http://10.0.0.1:8080/hooks"))
    assert hooks.page(ADMIN) == [hook]


def test_the_grace_of_a_rotation_is_a_setting(parts: Parts) -> None:
    hook, old = service(parts).add(ADMIN, WANTED)
    hooks = service(parts, new_secret=lambda: "whsec_bmV3", grace=timedelta(minutes=5))
    rotated, new = hooks.rotate_secret(ADMIN, hook.id)
    now = parts[1]()
    assert rotated.signing(now) == (new, old)
    assert rotated.signing(now + timedelta(minutes=5)) == (new,)


def test_nobody_but_administrators_may(parts: Parts) -> None:
    hooks = service(parts)
    calls = (
        lambda: hooks.add(LEAD, WANTED),
        lambda: hooks.change(LEAD, "x", WANTED),
        lambda: hooks.delete(LEAD, "x"),
        lambda: hooks.rotate_secret(LEAD, "x"),
        lambda: hooks.try_out(LEAD, "x"),
        lambda: hooks.get(LEAD, "x"),
        lambda: hooks.page(LEAD),
        lambda: hooks.deliveries(LEAD),
        lambda: hooks.delivery(LEAD, "x"),
        lambda: hooks.replay(LEAD, "x"),
        lambda: hooks.replay_dead(LEAD, "x"),
    )
    for call in calls:
        with pytest.raises(Forbidden):
            call()
