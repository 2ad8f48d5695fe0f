"""Messages, endpoints, the schedule and the life of a delivery."""

from dataclasses import replace
from datetime import timedelta
from ipaddress import ip_address
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from setwise.service.domain.errors import TooManySecrets
from setwise.service.domain.predictions import Document
from setwise.service.domain.webhooks import (
    MOST_SECRETS,
    Delivery,
    DeliveryState,
    EndpointChange,
    MessageType,
    ReceiverResponse,
    RetryDelays,
    SigningSecret,
    address_fault,
    auto_sent,
    payload,
    url_fault,
)
from tests.fakes import START, scored_set
from tests.samples import OTHER_CLIENT, delivery, endpoint, message, prediction, sent_message

HOUR = timedelta(hours=1)
REFUSED = ReceiverResponse(START, 0.1, status=500)


def test_what_is_sent_is_told_with_its_labels() -> None:
    new_prediction = prediction()._replace(
        scored=scored_set(0.9, labels=("a", "b")), client_id="billing"
    )
    message = auto_sent(new_prediction, "m1")
    assert (message.id, message.type, message.client_id) == (
        "m1",
        MessageType.PREDICTION_AUTO_SENT,
        "billing",
    )
    assert (message.data["labels"], message.data["confidence"]) == (("a", "b"), 0.9)


def test_messages_of_one_document_share_a_key_and_of_no_other() -> None:
    note = Document(id="note-1", text="x")
    first, again = (prediction(document=note) for _ in range(2))
    others = prediction(document=note, client_id=OTHER_CLIENT.id)
    nameless = [prediction(document=Document(text="x")) for _ in range(2)]
    keys = [sent_message(one, "m").document_key for one in (first, again, others, *nameless)]
    assert keys[0] == keys[1]
    assert len(set(keys)) == 4


def test_a_message_carries_no_text_and_no_metadata() -> None:
    secret = Document(id="note-1", text="GEHEIM", metadata={"GEHEIM": "GEHEIM"})
    assert "GEHEIM" not in str(payload(sent_message(prediction(document=secret), "m")))


def test_the_schedule_is_that_of_standard_webhooks() -> None:
    backoff = RetryDelays()
    waits = [backoff.delay_after(attempt, 0.0) for attempt in range(12)]
    seconds = [wait and wait.total_seconds() for wait in waits]
    assert seconds == [
        timedelta(0), 5, 300, 1_800, 7_200, 18_000, 36_000, 50_400, 72_000, 86_400, None, None,
    ]  # fmt: skip
    total = list(accumulate(wait for wait in waits if wait))[-1]
    assert timedelta(days=3) < total < timedelta(days=4)


@given(attempt=st.integers(1, 9), draw=st.floats(0, 1, exclude_max=True))
def test_chance_only_ever_lengthens_a_wait_and_by_a_tenth_at_most(
    attempt: int, draw: float
) -> None:
    plain, duration = (RetryDelays().delay_after(attempt, d) for d in (0.0, draw))
    assert plain is not None
    assert duration is not None
    assert plain <= duration <= plain * 1.1


def fresh() -> Delivery:
    return delivery(message(), endpoint())


def test_a_delivery_is_tried_ten_times_and_then_dead() -> None:
    one, now = fresh(), START
    for attempt in range(1, 11):
        assert (one.state, one.due_at <= now) == (DeliveryState.PENDING, True)
        one = one.claimed(now, HOUR)
        assert (one.attempt, one.token) == (attempt, attempt)
        one = one.answered(REFUSED, now, RetryDelays(), 0.99)
        assert one.lease_expires_at is None
        now = max(now, one.due_at)
    assert (one.state, one.finished_at) == (DeliveryState.DEAD, now)


@pytest.mark.parametrize("status", [200, 201, 204, 299])
def test_any_2xx_is_the_end(status: int) -> None:
    delivery = (
        fresh()
        .claimed(START, HOUR)
        .answered(ReceiverResponse(START, 1, status), START, RetryDelays(), 0)
    )
    assert (delivery.state, delivery.finished_at) == (DeliveryState.DELIVERED, START)


@pytest.mark.parametrize("status", [None, 100, 199, 300, 307, 400, 404, 410, 429, 500])
def test_anything_else_is_tried_again(status: int | None) -> None:
    again = (
        fresh()
        .claimed(START, HOUR)
        .answered(ReceiverResponse(START, 1, status), START, RetryDelays(), 0)
    )
    assert again.state is DeliveryState.PENDING
    assert again.due_at == START + timedelta(seconds=5)


def test_an_endpoint_may_ask_for_a_longer_wait_up_to_a_day() -> None:
    for asked, wait in ((1, 5), (90, 90), (9e9, 86_400)):
        busy = ReceiverResponse(START, 1, 503, retry_after=timedelta(seconds=asked))
        again = fresh().claimed(START, HOUR).answered(busy, START, RetryDelays(), 0)
        assert again.due_at == START + timedelta(seconds=wait)


def test_a_replay_begins_the_schedule_again() -> None:
    dead = replace(fresh(), state=DeliveryState.DEAD, attempt=10, token=10, finished_at=START)
    again = dead.replayed(START + HOUR)
    assert (again.state, again.attempt, again.due_at) == (DeliveryState.PENDING, 0, START + HOUR)
    assert again.finished_at is None
    assert again.token > dead.token


# Endpoints


def test_a_replaced_secret_signs_until_its_time_and_no_longer() -> None:
    first = endpoint(secrets=(SigningSecret("one"),))
    second = first.rotated("two", START, HOUR)
    assert second.signing(START) == ("two", "one")
    assert second.signing(START + HOUR) == ("two",)
    third = second.rotated("three", START + HOUR / 2, HOUR)
    assert third.signing(START + HOUR / 2) == ("three", "two", "one")
    assert third.signing(START + HOUR) == ("three", "two")  # a rotation prolongs nothing
    assert third.rotated("four", START + 9 * HOUR, HOUR).signing(START + 9 * HOUR) == (
        "four",
        "three",
    )
    assert first.rotated("now", START, timedelta(0)).signing(START) == ("now",)


def test_a_secret_that_a_receiver_knows_signs_for_its_whole_time_however_often_it_is_rotated() -> (
    None
):
    often = endpoint(secrets=(SigningSecret("whsec_0"),))
    for number in range(1, MOST_SECRETS):
        often = often.rotated(f"whsec_{number}", START, HOUR)
    assert often.signing(START) == tuple(f"whsec_{n}" for n in reversed(range(MOST_SECRETS)))
    assert "whsec" not in repr(often)
    with pytest.raises(TooManySecrets, match=r"rotate again from 2026-01-02T04:04:05\.678901Z on"):
        often.rotated("whsec_more", START, HOUR)
    assert often.rotated("whsec_more", START + HOUR, HOUR).signing(START + HOUR) == (
        "whsec_more",
        f"whsec_{MOST_SECRETS - 1}",
    )


def test_an_empty_filter_wants_everything() -> None:
    assert all(endpoint().wants(kind) for kind in MessageType)
    picky = endpoint(events=(MessageType.REVIEW_COMPLETED,))
    assert [kind for kind in MessageType if picky.wants(kind)] == [MessageType.REVIEW_COMPLETED]


def test_why_an_endpoint_is_disabled_stays_until_it_is_enabled() -> None:
    gone_endpoint = endpoint().gone()
    assert not gone_endpoint.enabled
    still = gone_endpoint.changed(EndpointChange("https://b.example/", enabled=False))
    assert still.disabled_because == "it answered 410 Gone"
    back = still.changed(EndpointChange("https://b.example/"))
    assert back.enabled
    assert [one.version for one in (gone_endpoint, still, back)] == [2, 3, 4]


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("https://billing.example/a?b=c", None),
        ("https://billing.example:8443", None),
        ("https://93.184.215.14/", None),
        ("https://[2606:2800:21f:cb07:6820:80da:af6b:8b2c]/", None),
        ("http://billing.example/", "begin with https"),
        ("ftp://billing.example/", "begin with https"),
        ("billing.example", "begin with https"),
        ("https:///hooks", "no host"),
        ("https://", "no host"),
        ("https://ann@billing.example/", "user or password"),
        ("https://billing.example/#top", "fragment"),
        ("https://billing.example:0x50/", "not a URL"),
        ("https://[::1", "not a URL"),
        ("https://b.example/a b", "printable ASCII"),
        ("https://b.example/\r\nX: y", "printable ASCII"),
        ("https://bücher.example/", "printable ASCII"),
        ("https://b.example/" + "x" * 2_000, "at most 2000"),
        ("https://10.0.0.1/", "not a public address"),
        ("https://[::1]/", "not a public address"),
        ("https://[64:ff9b::a00:1]/", "not a public address"),
        ("https://[2002:100::]/", "not a public address"),
        ("https://224.0.0.1/", "no program can listen"),
    ],
)
def test_an_address_is_judged_by_its_form(url: str, why: str | None) -> None:
    found = url_fault(url, allow_private=False)
    assert found is None if why is None else why in str(found)


def test_private_addresses_are_reached_where_that_is_allowed() -> None:
    for url in ("http://127.0.0.1:9/", "https://10.0.0.1/", "http://[fd00::1]/", "http://box/"):
        assert url_fault(url, allow_private=True) is None
        assert url_fault(url, allow_private=False) is not None
    assert url_fault("http://93.184.215.14/", allow_private=True) is not None
    assert url_fault("http://0.0.0.0/", allow_private=True) is not None


@given(st.ip_addresses())
def test_what_python_calls_private_is_never_reached(address: object) -> None:
    found = address_fault(ip_address(str(address)), secure=True, allow_private=False)
    if not ip_address(str(address)).is_global:
        assert found is not None


@given(st.ip_addresses(v=4))
def test_an_address_in_disguise_is_judged_as_what_it_stands_for(address: object) -> None:
    plain = ip_address(str(address))
    number = int(plain)
    disguises = (
        f"::ffff:{plain}",
        str(ip_address((0x0064FF9B << 96) | number)),
        str(ip_address((0x20010000 << 96) | (number ^ 0xFFFFFFFF))),
    )
    for secure in (True, False):
        for allow in (True, False):
            expected = address_fault(plain, secure=secure, allow_private=allow) is None
            for disguise in disguises:
                found = address_fault(ip_address(disguise), secure=secure, allow_private=allow)
                assert (found is None) == expected, disguise


def test_events_of_a_change_are_kept_once_each() -> None:
    twice = [MessageType.POLICY_TRIPPED, MessageType.POLICY_TRIPPED]
    changed_endpoint = endpoint().changed(EndpointChange("https://b.example/", events=twice))
    assert changed_endpoint.events == (MessageType.POLICY_TRIPPED,)
