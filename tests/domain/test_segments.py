"""Which segment a document has, what a policy may list, and what is in force for each."""

from dataclasses import replace

import pytest

from setwise.service.domain.certification import Scorer
from setwise.service.domain.policy import Policy, PolicyChange, ThresholdMode
from setwise.service.domain.predictions import Document
from setwise.service.domain.routing.audits import AuditPlan
from setwise.service.domain.routing.segments import (
    OTHER,
    GateState,
    Segment,
    SegmentBy,
)
from tests.fakes import START
from tests.samples import change

SCORER = Scorer("m", "c")
BY_SITE = SegmentBy("site", most=4)


def policy(*segments: GateState, **rest: object) -> Policy:
    wanted_change: PolicyChange = change(
        threshold_mode=ThresholdMode.CERTIFIED,
        threshold=None,
        segment_by=BY_SITE,
        segments=segments,
        **rest,
    )
    return wanted_change.as_policy("v", START, "ada")


def proved(value: str, threshold: float, **rest: object) -> GateState:
    return GateState(value, threshold, f"proof of {value}", SCORER, **rest)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("metadata", "value"),
    [
        ({"site": "north"}, "north"),
        ({"site": 7}, "7"),
        ({"site": True}, "true"),
        ({"site": "a=b"}, "a=b"),
        ({}, OTHER),
        ({"site": None}, OTHER),
        ({"site": ["north"]}, OTHER),
        ({"site": ""}, OTHER),
        ({"site": "a\nb"}, OTHER),
        ({"site": "x" * 101}, OTHER),
    ],
)
def test_a_value_is_a_segment_if_it_is_a_short_plain_word(
    metadata: dict[str, object], value: str
) -> None:
    assert BY_SITE.of(Document(text="a", metadata=metadata)).value == value


@pytest.mark.parametrize(
    ("length", "band"), [(0, "0-4"), (4, "0-4"), (5, "5-9"), (9, "5-9"), (10, "10-")]
)
def test_the_length_of_a_text_lies_in_one_band(length: int, band: str) -> None:
    bands = SegmentBy("text_length", (5, 10))
    assert bands.of(Document(text="x" * length)).value == band
    assert bands.of(Document(features={"a": 1.0})).value == OTHER


def test_the_risk_is_shared_equally_among_as_many_segments_as_there_may_be() -> None:
    listed_policy = policy(GateState("north"))
    assert [gate.risk for gate in listed_policy.gates] == [listed_policy.risk / 4] * 2


def test_a_segment_has_its_own_threshold_and_nothing_else_is_sent() -> None:
    listed_policy = policy(proved("north", 0.8), GateState("south"))
    values = ("north", "south", "new", OTHER)
    least = [listed_policy.gate_of(f"site={value}").least_of(SCORER) for value in values]
    assert least == [0.8, None, None, None]
    assert listed_policy.sends
    assert listed_policy.least_of(SCORER) == 0.8
    assert not policy(GateState("north")).sends


def test_other_is_a_segment_like_the_rest() -> None:
    rates = AuditPlan(certification_rate=0.3)
    listed_policy = policy(proved(OTHER, 0.9, audits=rates), GateState("north"))
    assert listed_policy.values == ("north", OTHER), "it comes last"
    other = listed_policy.gate_of("site=new")
    assert other == listed_policy.gate_of(None) == listed_policy.gate_named(OTHER)
    assert (other.least_of(SCORER), other.audits) == (0.9, rates)
    assert (
        other.segment
        == listed_policy.segment_of(OTHER)
        == Segment("site", OTHER, frozenset({"north"}))
    )
    stopped_policy = listed_policy.with_gate(replace(other.state, trip_id="trip"))
    assert [gate.tripped for gate in stopped_policy.gates] == [False, True]


def test_a_proof_of_other_does_not_cover_it_once_a_value_is_listed() -> None:
    before, after = policy(GateState("north")), policy(GateState("north"), GateState("new"))
    assert before.gate_of("site=north").is_covered_by(after.gate_of("site=north"))
    assert not after.gate_of(None).is_covered_by(before.gate_of(None))


def test_a_fixed_threshold_holds_for_each_segment_without_its_own() -> None:
    fixed = {"threshold_mode": ThresholdMode.FIXED, "threshold": 0.7}
    north = GateState("north", threshold=0.6)
    asked = change(**fixed, segment_by=BY_SITE, segments=(north, GateState("b")))
    by_hand = asked.as_policy("v", START, "ada")
    thresholds = [by_hand.gate_of(f"site={value}").threshold for value in ("north", "b", "new")]
    assert thresholds == [0.6, 0.7, 0.7]


def test_the_documents_of_a_segment_are_found_by_what_is_stored_with_them() -> None:
    listed_policy = policy(GateState("north"))
    for stored, metadata, value in (
        ("site=north", None, "north"),
        ("site=new", None, OTHER),
        ("site=other", {"site": "north"}, OTHER),
        ("ward=north", {"site": "north"}, "north"),
        (None, {"site": "new"}, OTHER),
        (None, {}, OTHER),
        ("ward=north", None, None),
    ):
        gate = listed_policy.gate_of_stored(stored, metadata)
        assert (gate and gate.segment.value) == value


def test_what_is_listed_keeps_its_place_and_its_trip() -> None:
    old = policy(proved("north", 0.8, trip_id="trip"), GateState("south"))
    assert old.gate_of("site=north").tripped
    assert not old.sends
    asked = change(segment_by=BY_SITE, segments=(GateState("south"),))
    kept_policy = replace(old, states=asked.states_after(old, set()))
    again, new = kept_policy.listing(["west", "east", OTHER, "south"])
    assert new == ["west"], "there is room for three and other"
    assert [(state.value, state.trip_id) for state in again.states] == [
        ("south", None),
        ("north", "trip"),
        ("west", None),
        (OTHER, None),
    ]


@pytest.mark.parametrize(
    ("fields", "pointer"),
    [
        ({"segment_by": SegmentBy("")}, "/segment_by"),
        ({"segment_by": SegmentBy("a=b")}, "/segment_by"),
        ({"segment_by": SegmentBy("site", most=0)}, "/most_segments"),
        ({"segment_by": SegmentBy("site", (3,))}, "/segment_bounds"),
        ({"segment_by": SegmentBy("text_length")}, "/segment_bounds"),
        ({"segment_by": SegmentBy("text_length", (5, 5))}, "/segment_bounds"),
        ({"segment_by": SegmentBy("text_length", (5, 6), most=3)}, "/segment_bounds"),
        ({"segments": (GateState("north"),)}, "/segments"),
        ({"segment_by": BY_SITE, "segments": (GateState("a\nb"),)}, "/segments/0/value"),
        (
            {"segment_by": BY_SITE, "segments": tuple(map(GateState, "abcd"))},
            "/segments",
        ),
        ({"segment_by": BY_SITE, "segments": (GateState("a"),) * 2}, "/segments/1/value"),
        (
            {"segment_by": BY_SITE, "segments": (GateState("a", threshold=2.0),)},
            "/segments/0/threshold/value",
        ),
        (
            {
                "segment_by": BY_SITE,
                "segments": (GateState("a", audits=AuditPlan(certification_rate=2.0)),),
            },
            "/segments/0/audit/certification_rate",
        ),
    ],
)
def test_a_policy_names_the_fault_of_its_segments(fields: dict[str, object], pointer: str) -> None:
    assert pointer in [fault.pointer for fault in change(**fields).faults()]
