"""The gates of a policy decide as the policies of its segments did before there were gates."""

from dataclasses import replace
from datetime import UTC, datetime

from hypothesis import given, settings
from hypothesis import strategies as st

from setwise.service.domain.certification import Scorer
from setwise.service.domain.policy import Gate, Policy, RoutingPolicy, ThresholdMode
from setwise.service.domain.routing.audits import AuditMode, AuditPlan, Draws
from setwise.service.domain.routing.rules import read_rules
from setwise.service.domain.routing.segments import (
    ALL,
    ALL_DOCUMENTS,
    OTHER,
    GateState,
    Segmentation,
    SegmentBy,
    SegmentRule,
)
from tests.fakes import scored_set

AT = datetime(2026, 1, 2, tzinfo=UTC)
SCORED = scored_set()
SCORER = Scorer(SCORED.model_version, SCORED.calibrator_version)
VALUES = ("north", "south", "new", OTHER, ALL)
KEYS = (None, *(f"{field}={value}" for field in ("site", "ward") for value in VALUES))
BANDS = ("0-4", "5-")
shares = st.sampled_from([0.0, 0.2, 0.5, 0.8, 1.0])
ids = st.none() | st.sampled_from(["a", "b"])
scorers = st.none() | st.sampled_from([SCORER, SCORER._replace(calibrator_version="other")])
plans = st.builds(
    AuditPlan,
    st.sampled_from([0.0, 0.1, 0.5]),
    st.sampled_from([0.0, 0.1, 0.5]),
    st.sampled_from(AuditMode),
    shares,
    shares,
    st.none() | st.sampled_from([0.5, 0.9]),
)
metadata = st.sampled_from([None, {}, {"site": "north"}, {"site": "new", "ward": "south"}])


@st.composite
def states(draw: st.DrawFn, values: tuple[str, ...]) -> tuple[GateState, ...]:
    """Draw what is stored of some listed segments."""
    listed = draw(st.lists(st.sampled_from(values), unique=True, max_size=3))
    threshold, audits = st.none() | shares, st.none() | plans
    return tuple(
        GateState(
            value, draw(threshold), draw(ids), draw(scorers), draw(st.none() | ids), draw(audits)
        )
        for value in listed
    )


@st.composite
def pairs(draw: st.DrawFn) -> tuple[RoutingPolicy, Policy]:
    """Draw the same policy in both forms."""
    mode = draw(st.sampled_from(ThresholdMode))
    fixed = draw(shares) if mode is ThresholdMode.FIXED else None
    rules, _ = read_rules(
        draw(
            st.lists(
                st.sampled_from(
                    [
                        {"kind": "label", "label": "b"},
                        {"kind": "metadata", "field": "site", "values": ["north"]},
                    ]
                ),
                max_size=2,
            )
        )
    )
    alike = {
        "version": "v",
        "target_accuracy": 0.9,
        "risk": draw(st.sampled_from([0.05, 0.1, 0.3])),
        "auto_send": draw(st.booleans()),
        "threshold_mode": mode,
        "created_at": AT,
        "created_by": "ada",
        "confidence_floor": draw(st.none() | shares),
        "audits": draw(plans),
        "rules": rules,
    }
    by = draw(st.sampled_from([None, "site", "ward", "text_length"]))
    if by is None:
        own = draw(shares | st.none()) if fixed is None else None
        state = GateState(ALL, own, draw(ids), draw(scorers), draw(ids))
        before = RoutingPolicy(
            **alike,
            threshold=own if fixed is None else fixed,
            certificate_id=state.certificate_id,
            certified_for=state.certified_for,
            trip_id=state.trip_id,
        )
        return before, Policy(**alike, fixed_threshold=fixed, states=(state,))
    banded = by == "text_length"
    listed = draw(states((*BANDS, OTHER) if banded else VALUES))
    bounds = (5,) if banded else ()
    most = draw(st.sampled_from([1, 3, 10]))
    covers = draw(st.none() | st.lists(st.sampled_from(VALUES), unique=True).map(tuple))
    before = RoutingPolicy(
        **alike,
        threshold=fixed,
        segmentation=Segmentation(by, bounds, most, covers),
        segments=tuple(SegmentRule(**vars(state)) for state in listed),
    )
    segment_by = SegmentBy(by, bounds, most, covers)
    return before, Policy(**alike, fixed_threshold=fixed, segment_by=segment_by, states=listed)


def facts(gate: RoutingPolicy | Gate) -> list[object]:
    """Return what is in force for the documents of a gate."""
    stored = gate if isinstance(gate, RoutingPolicy) else gate.state
    rests = [gate.risk, gate.threshold, gate.audits, gate.least_confidence, gate.unseen]
    return [
        *(*rests, gate.key, gate.sends, gate.rests_on_audits),
        *(stored.certificate_id, stored.certified_for, stored.trip_id),
        *(gate.least_of(SCORER), gate.certification_rate(SCORER)),
        ALL_DOCUMENTS if gate.segment is None else gate.segment,
    ]


@settings(max_examples=200, deadline=None)
@given(
    pair=pairs(),
    earlier=pairs(),
    confidence=shares,
    flags=st.tuples(st.booleans(), st.booleans()),
    draw=st.sampled_from([0.0, 0.15, 0.3, 0.7]),
    kept=metadata,
)
def test_a_gate_decides_as_the_policy_of_its_segment_did(
    pair: tuple[RoutingPolicy, Policy],
    earlier: tuple[RoutingPolicy, Policy],
    confidence: float,
    flags: tuple[bool, bool],
    draw: float,
    kept: dict[str, object] | None,
) -> None:
    (before, after), (old, then) = pair, earlier
    out_of_domain, uncalibrated = flags
    scored = scored_set(confidence, out_of_domain=out_of_domain)._replace(uncalibrated=uncalibrated)
    draws = Draws(draw, draw, draw)
    assert (before.sends, before.least_of(SCORER)) == (after.sends, after.least_of(SCORER))
    assert before.values == after.values
    assert [facts(gate) for gate in before.gates] == [facts(gate) for gate in after.gates]
    assert (before.division == old.division) == after.segment_by.is_like(then.segment_by)
    for key in (*KEYS, "text_length=0-4", "text_length=9-"):
        one, two = before.gate(key), after.gate_of(key)
        assert facts(one) == facts(two)
        assert one.route(scored, draws, kept or {}) == two.route(scored, draws, kept or {})
        assert one.decide(scored, kept or {}) == two.decide(scored, kept or {})
        assert one.is_covered_by(old.gate(key)) == two.is_covered_by(then.gate_of(key))
        assert old.draws_for(one, before) == two.counts_audits_of(then)
        stored = after.gate_of_stored(key, kept)
        if before.segmentation is not None:
            value = before.value_of(key, kept)
            assert value == (None if stored is None else stored.segment.value)
    for one, two in zip(before.gates, after.gates, strict=True):
        trip = replace(two.state, trip_id="trip")
        tripped = before.with_gate(replace(one, trip_id="trip")), after.with_gate(trip)
        assert [facts(gate) for gate in tripped[0].gates] == [facts(g) for g in tripped[1].gates]
    more, new = before.listing(["west", "north", "east"])
    assert (new, [facts(gate) for gate in more.gates]) == (
        after.listing(["west", "north", "east"])[1],
        [facts(gate) for gate in after.listing(["west", "north", "east"])[0].gates],
    )
