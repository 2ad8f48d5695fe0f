"""Which segment a document has, what a policy may list, and how its parts hang together."""

import pytest

from setwise.service.domain.certification import Scorer
from setwise.service.domain.policy import PolicyChange, RoutingPolicy, ThresholdMode
from setwise.service.domain.predictions import Document
from setwise.service.domain.routing.audits import AuditPlan
from setwise.service.domain.routing.segments import (
    OTHER,
    POOL,
    Fallback,
    Scope,
    Segmentation,
    SegmentRule,
)
from tests.fakes import START
from tests.samples import change

SCORER = Scorer("m", "c")
BY_SITE = Segmentation("site", fallback=Fallback.POOL, most=3)


def policy(*segments: SegmentRule, **rest: object) -> RoutingPolicy:
    wanted: PolicyChange = change(
        threshold_mode=ThresholdMode.CERTIFIED,
        threshold=None,
        segmentation=BY_SITE,
        segments=segments,
        **rest,
    )
    return wanted.as_policy("v", START, "ada")


def proved(value: str, threshold: float, *members: str, **rest: object) -> SegmentRule:
    return SegmentRule(value, threshold, f"proof of {value}", SCORER, members=members, **rest)  # type: ignore[arg-type]


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
        ({"site": POOL}, OTHER),
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
    bands = Segmentation("text_length", (5, 10))
    assert bands.of(Document(text="x" * length)).value == band
    assert bands.of(Document(features={"a": 1.0})).value == OTHER


def test_the_share_of_a_segment_is_that_of_the_theorem() -> None:
    assert pytest.approx(1 / 4) == BY_SITE.share
    assert pytest.approx(1 / 4) == Segmentation("site", most=4).share


def test_a_segment_has_its_own_threshold_else_the_pool_s_else_none() -> None:
    made = policy(
        proved("north", 0.8), SegmentRule("south"), SegmentRule("west"), proved(POOL, 0.9, "south")
    )
    least = {
        value: made.within(f"site={value}").least_of(SCORER)
        for value in ("north", "south", "west", "new", OTHER, POOL)
    }
    assert least == {
        "north": 0.8,
        "south": 0.9,
        "west": None,
        "new": None,
        OTHER: None,
        POOL: None,
    }
    assert made.within("site=south").unit == f"site={POOL}"
    assert made.sends


def test_the_pool_means_what_is_not_listed_only_if_its_proof_does() -> None:
    listed = SegmentRule("north"), SegmentRule("south")
    alone = policy(*listed, proved(POOL, 0.9, "south"))
    assert alone.scope(f"site={POOL}") == Scope(("site=south",))
    made = policy(*listed, proved(POOL, 0.9, "south", OTHER))
    scope = made.scope(f"site={POOL}")
    assert scope is not None
    assert [scope.has(f"site={one}") for one in ("north", "south", "new")] == [False, True, True]
    assert made.within("site=new").least_of(SCORER) == made.within(None).least_of(SCORER) == 0.9


def test_a_fixed_threshold_sends_listed_segments_only_unless_there_is_a_pool() -> None:
    fixed = {"threshold_mode": ThresholdMode.FIXED, "threshold": 0.7}
    north = SegmentRule("north", threshold=0.6)
    made = change(**fixed, segmentation=Segmentation("site"), segments=(north, SegmentRule("b")))
    parts = made.as_policy("v", START, "ada")
    assert [parts.within(f"site={one}").threshold for one in ("north", "b", "new")] == [
        0.6,
        0.7,
        None,
    ]
    pooled = change(**fixed, segmentation=BY_SITE).as_policy("v", START, "ada")
    assert (pooled.within("site=new").threshold, pooled.within("site=new").unit) == (
        0.7,
        f"site={POOL}",
    )


def test_what_is_listed_keeps_its_place_and_its_trip() -> None:
    old = policy(proved("north", 0.8, trip_id="trip"), SegmentRule("south"))
    assert old.within("site=north").trip_id == "trip"
    assert not old.sends
    again, new = policy(SegmentRule("south")).keeping(old).listing(["west", "east", OTHER, "south"])
    assert new == ["west"], "there is room for three"
    assert [(rule.value, rule.trip_id) for rule in again.segments] == [
        ("south", None),
        ("north", "trip"),
        ("west", None),
    ]


@pytest.mark.parametrize(
    ("fields", "pointer"),
    [
        ({"segmentation": Segmentation("")}, "/segment_by"),
        ({"segmentation": Segmentation("a=b")}, "/segment_by"),
        ({"segmentation": Segmentation("site", most=0)}, "/most_segments"),
        ({"segmentation": Segmentation("site", (3,))}, "/segment_bounds"),
        ({"segmentation": Segmentation("text_length")}, "/segment_bounds"),
        ({"segmentation": Segmentation("text_length", (5, 5))}, "/segment_bounds"),
        ({"segmentation": Segmentation("text_length", (5, 6), most=2)}, "/segment_bounds"),
        ({"segments": (SegmentRule("north"),)}, "/segments"),
        ({"segmentation": BY_SITE, "segments": (SegmentRule(OTHER),)}, "/segments/0/value"),
        ({"segmentation": BY_SITE, "segments": (SegmentRule("a"),) * 2}, "/segments/1/value"),
        (
            {"segmentation": BY_SITE, "segments": (SegmentRule("a", threshold=2.0),)},
            "/segments/0/threshold/value",
        ),
        (
            {
                "segmentation": BY_SITE,
                "segments": (SegmentRule("a", audits=AuditPlan(certification_rate=2.0)),),
            },
            "/segments/0/audit/certification_rate",
        ),
    ],
)
def test_a_policy_names_the_fault_of_its_segments(fields: dict[str, object], pointer: str) -> None:
    assert pointer in [fault.pointer for fault in change(**fields).faults()]
