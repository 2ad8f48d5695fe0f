"""A gate decides on its segment as a policy of its own would."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from setwise.service.domain.certification import Scorer
from setwise.service.domain.policy import Policy, ThresholdMode
from setwise.service.domain.routing.audits import AuditMode, AuditPlan, Draws
from setwise.service.domain.routing.rules import read_rules
from setwise.service.domain.routing.segments import (
    ALL,
    OTHER,
    GateState,
    SegmentBy,
)
from tests.fakes import START, scored_set

SCORED = scored_set()
SCORER = Scorer(SCORED.model_version, SCORED.calibrator_version)
VALUES = ("north", "south", "new", OTHER, ALL)
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
metadata = st.sampled_from([{}, {"site": "north"}, {"site": "new", "ward": "south"}])


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
def policies(draw: st.DrawFn) -> Policy:
    """Draw a policy that divides documents by a field or by their length."""
    mode = draw(st.sampled_from(ThresholdMode))
    declared = [
        {"kind": "label", "label": "b"},
        {"kind": "metadata", "field": "site", "values": ["north"]},
    ]
    banded = draw(st.booleans())
    return Policy(
        version="v",
        target_accuracy=0.9,
        risk=0.1,
        auto_send=draw(st.booleans()),
        threshold_mode=mode,
        fixed_threshold=draw(shares) if mode is ThresholdMode.FIXED else None,
        created_at=START,
        created_by="ada",
        confidence_floor=draw(st.none() | shares),
        audits=draw(plans),
        rules=read_rules(draw(st.lists(st.sampled_from(declared), max_size=2)))[0],
        segment_by=SegmentBy("text_length", (5,)) if banded else SegmentBy("site"),
        states=draw(states((*BANDS, OTHER) if banded else VALUES)),
    )


@given(
    policy=policies(),
    confidence=shares,
    flags=st.tuples(st.booleans(), st.booleans()),
    draw=st.sampled_from([0.0, 0.15, 0.3, 0.7]),
    kept=metadata,
)
def test_a_gate_decides_as_a_policy_of_its_own_would(
    policy: Policy,
    confidence: float,
    flags: tuple[bool, bool],
    draw: float,
    kept: dict[str, object],
) -> None:
    out_of_domain, uncalibrated = flags
    score = scored_set(confidence, out_of_domain=out_of_domain)._replace(uncalibrated=uncalibrated)
    for gate in policy.gates:
        state = replace(gate.state, value=ALL)
        alone = replace(policy, audits=gate.audits, segment_by=SegmentBy(), states=(state,)).whole
        assert alone is not None
        assert gate.route(score, Draws(draw, draw, draw), kept) == alone.route(
            score, Draws(draw, draw, draw), kept
        )
        assert (gate.sends, gate.least_of(SCORER)) == (alone.sends, alone.least_of(SCORER))
        assert gate.risk == alone.risk / policy.segment_by.most
    least = [gate.least_of(SCORER) for gate in policy.gates]
    assert policy.least_of(SCORER) == min(
        (each for each in least if each is not None), default=None
    )
