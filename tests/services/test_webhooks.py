"""What administrators do to webhooks leaves a trail that names who did it, and no secret."""

from datetime import timedelta

import pytest

from setwise.service.domain.errors import Forbidden, InvalidRequest, StaleVersion, WebhookNotFound
from setwise.service.domain.webhooks import EndpointChange
from setwise.service.services.webhooks import (
    AddWebhook,
    ChangeWebhook,
    DeleteWebhook,
    GetDelivery,
    GetWebhook,
    ListDeliveries,
    ListWebhooks,
    ReplayDead,
    ReplayDelivery,
    RotateSecret,
    TryWebhook,
)
from tests.fakes import FakeClock, FakeIds
from tests.samples import ADMIN, LEAD
from tests.sqlite import Database

WANTED = EndpointChange("https://b.example/hooks", "billing")


@pytest.fixture
def parts() -> tuple[Database, FakeClock, FakeIds]:
    return Database(), FakeClock(), FakeIds()


def secrets() -> str:
    return "whsec_c2VjcmV0"


Parts = tuple[Database, FakeClock, FakeIds]


def test_every_change_is_in_the_audit_trail_without_a_secret(parts: Parts) -> None:
    database = parts[0]
    hook, secret = AddWebhook(*parts, allow_private=False, new_secret=secrets)(
        ADMIN, WANTED, request_id="r-1"
    )
    ChangeWebhook(*parts, allow_private=False)(ADMIN, hook.id, WANTED, hook.version)
    RotateSecret(*parts, new_secret=secrets)(ADMIN, hook.id)
    delivery = TryWebhook(*parts)(ADMIN, hook.id)
    ReplayDelivery(*parts)(ADMIN, delivery.id)
    ReplayDead(*parts)(ADMIN, hook.id)
    DeleteWebhook(*parts)(ADMIN, hook.id, request_id="r-2")
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
    add = AddWebhook(*parts, allow_private=False, new_secret=secrets)
    hook, _ = add(ADMIN, WANTED)
    change = ChangeWebhook(*parts, allow_private=False)
    with pytest.raises(StaleVersion):
        change(ADMIN, hook.id, WANTED, 7)
    with pytest.raises(StaleVersion):
        DeleteWebhook(*parts)(ADMIN, hook.id, 7)
    with pytest.raises(InvalidRequest):
        change(ADMIN, hook.id, EndpointChange("https://10.0.0.1/"))
    with pytest.raises(WebhookNotFound):
        change(ADMIN, "nonsense", WANTED)
    assert len(parts[0].contents.events) == 1
    assert GetWebhook(parts[0])(ADMIN, hook.id) == hook


def test_private_addresses_are_taken_where_the_settings_allow_them(parts: Parts) -> None:
    add = AddWebhook(*parts, allow_private=True, new_secret=secrets)
    hook, _ = add(ADMIN, EndpointChange("http://10.0.0.1:8080/hooks"))
    assert ListWebhooks(parts[0])(ADMIN) == [hook]


def test_the_grace_of_a_rotation_is_a_setting(parts: Parts) -> None:
    hook, _ = AddWebhook(*parts, allow_private=False, new_secret=secrets)(ADMIN, WANTED)
    rotate = RotateSecret(*parts, new_secret=lambda: "whsec_bmV3", grace=timedelta(minutes=5))
    rotated, new = rotate(ADMIN, hook.id)
    now = parts[1]()
    assert rotated.signing(now) == (new, secrets())
    assert rotated.signing(now + timedelta(minutes=5)) == (new,)


def test_nobody_but_administrators_may(parts: Parts) -> None:
    database = parts[0]
    calls = (
        lambda: AddWebhook(*parts, allow_private=False, new_secret=secrets)(LEAD, WANTED),
        lambda: ChangeWebhook(*parts, allow_private=False)(LEAD, "x", WANTED),
        lambda: DeleteWebhook(*parts)(LEAD, "x"),
        lambda: RotateSecret(*parts, new_secret=secrets)(LEAD, "x"),
        lambda: TryWebhook(*parts)(LEAD, "x"),
        lambda: GetWebhook(database)(LEAD, "x"),
        lambda: ListWebhooks(database)(LEAD),
        lambda: ListDeliveries(database)(LEAD),
        lambda: GetDelivery(database)(LEAD, "x"),
        lambda: ReplayDelivery(*parts)(LEAD, "x"),
        lambda: ReplayDead(*parts)(LEAD, "x"),
    )
    for call in calls:
        with pytest.raises(Forbidden):
            call()
