"""The audit trail, in which predictions are events too."""

from datetime import timedelta

from setwise.service.domain.accounts.callers import Caller, Role
from setwise.service.domain.audit_trail import Actor, AuditEvent, EventFilter
from setwise.service.domain.predictions import (
    Submission,
)
from setwise.service.domain.reports import Span
from setwise.service.domain.routing.audits import AuditRole, Selection
from setwise.service.stores.transaction import Transactions
from tests.fakes import START, FakeIds
from tests.samples import CLIENT, OTHER_CLIENT, prediction

_ids = FakeIds(0x2000_0000)


def test_events_are_found_by_who_what_and_when(begin: Transactions) -> None:
    ann, bob = (Caller(n, n, Role.ADMIN) for n in ("ann", "bob"))
    hour = timedelta(hours=1)
    events = [
        AuditEvent.by(ann, "key.created", "k", id=_ids(), at=START),
        AuditEvent.by(bob, "key.revoked", "k", id=_ids(), at=START + hour),
        AuditEvent.by(bob, "keyhole%", "x", id=_ids(), at=START + 2 * hour),
    ]
    with begin() as transaction:
        transaction.audit_trail.add_all(events)

    def found(**fields: object) -> list[int]:
        wanted_filter = EventFilter(**fields)
        with begin(read_only=True) as transaction:
            items = transaction.audit_trail.page(wanted_filter, after=None, limit=9).items
        return [events.index(item) for item in items]

    assert found() == [2, 1, 0]
    assert found(actor_id="bob") == [2, 1]
    assert found(action="key.") == [1, 0]
    assert found(action="key.created") == [0]
    assert found(action="key") == found(action="key%.") == []
    assert found(subject="k", actor_id="ann") == [0]
    assert found(since=START + hour) == [2, 1]
    assert found(before=START + hour) == [0]


def test_an_event_keeps_where_it_came_from(begin: Transactions) -> None:
    caller = Caller("1", "Ann", Role.REVIEWER, "2001:db8::7")
    event = AuditEvent.by(caller, "session.begun", "x", id=_ids(), at=START)
    with begin() as transaction:
        transaction.audit_trail.add(event)
        (kept_event,) = transaction.audit_trail.page(after=None, limit=1).items
    assert kept_event == event
    assert kept_event.address == "2001:db8::7"


def test_predictions_are_events_among_the_others(begin: Transactions) -> None:
    """Whatever is asked for, a page at a time, as a list that had them all would give it."""
    hour, made, expected = timedelta(hours=1), [], []
    for number in range(8):
        client = (CLIENT, OTHER_CLIENT)[number // 2 % 2]
        one = prediction(client_id=client.id, created_at=START + number * hour)
        if number % 3 == 0:
            action = ("prediction.corrected", "policy.changed")[number % 2]
            actor = Actor(client.id, "n")
            event = AuditEvent(one.id, one.created_at, actor, action, one.id, None, {"a": 1})
        else:
            rule = "own" if number == 4 else None
            one = one._replace(rule=rule, selection=Selection(AuditRole.NONE, number / 9, 0.5))
            name = f"name {number}"
            caller = Caller(
                client.id,
                name,
                Role.CLIENT,
                None if number % 2 else "::1",
                request_id=f"r-{number}",
            )
            made.append((one, Submission(caller, one.document)))
            detail = {
                "decision": "review", "reason": "below_threshold", "confidence": 0.4,
                "threshold": 0.75, "model_version": one.scored.model_version,
                "calibrator_version": one.scored.calibrator_version,
                "policy_version": one.policy_version, "audit_role": "none", "draw": number / 9,
            } | ({"rule": "own"} if rule else {})  # fmt: skip
            event = AuditEvent(
                one.id, one.created_at, Actor(client.id, name), "prediction.created", one.id,
                caller.request_id, detail, caller.address,
            )  # fmt: skip
        expected.insert(0, event)
    with begin() as transaction:
        transaction.predictions.add_all(made)
        for event in expected:
            if event.action != "prediction.created":
                transaction.audit_trail.add(event)

    def found(limit: int, **fields: object) -> list[AuditEvent]:
        items: list[AuditEvent] = []
        after: str | None = None
        with begin(read_only=True) as transaction:
            while True:
                wanted_filter = EventFilter(**fields)
                page = transaction.audit_trail.page(wanted_filter, after=after, limit=limit)
                assert len(page.items) == limit or page.next_after is None
                items += page.items
                if page.next_after is None:
                    return items
                after = page.next_after

    for limit in (1, 2, 3, 50):
        assert found(limit) == expected
        assert found(limit, action="prediction.") == [
            event for event in expected if event.action != "policy.changed"
        ]
        assert found(limit, action="prediction.created", actor_id=CLIENT.id) == [
            event
            for event in expected
            if (event.action, event.actor.id) == ("prediction.created", CLIENT.id)
        ]
        assert found(limit, action="policy.changed") == [
            event for event in expected if event.action == "policy.changed"
        ]
        assert found(limit, since=START + 2 * hour, before=START + 5 * hour) == expected[3:6]
    assert found(5, subject=expected[0].id) == [expected[0]]
    assert found(5, subject="nothing") == []
    with begin(read_only=True) as transaction:
        events: list[AuditEvent] = []
        while page := transaction.history.events(
            Span(), after=events[-1].id if events else None, limit=3
        ):
            events += page
    assert events == expected[::-1]
