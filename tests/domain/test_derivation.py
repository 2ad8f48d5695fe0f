"""A decision follows again from what is stored, and from nothing else."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from setwise.service.domain.certification import Scorer
from setwise.service.domain.policy import Policy, ThresholdMode
from setwise.service.domain.predictions import Document, Prediction, Reason
from setwise.service.domain.routing.audits import (
    NOT_DRAWN,
    AuditMode,
    AuditPlan,
    AuditRole,
    Lottery,
)
from setwise.service.domain.routing.copies import Likeness
from setwise.service.domain.routing.derivations import Derivation
from setwise.service.domain.routing.rules import read_rules
from setwise.service.domain.routing.segments import ALL, GateState
from tests.fakes import LOTTERY, START, scored_set
from tests.samples import CLIENT

NORTH = {"kind": "metadata", "field": "site", "values": ["north"]}
NO_B = {"kind": "label", "label": "b"}
SHARES = st.floats(0.0, 0.5)


def policy(**fields: object) -> Policy:
    plain = Policy(
        version="019b7a0b-0000-7000-8000-000000000001",
        target_accuracy=0.9,
        risk=0.1,
        auto_send=True,
        threshold_mode=ThresholdMode.FIXED,
        fixed_threshold=0.8,
        created_at=START,
        created_by="ada",
    )
    return replace(plain, **fields)


def decided(by: Policy, document: Document, confidence: float = 0.9) -> Prediction:
    """Decide as `Predictions` does."""
    score = scored_set(confidence)
    likeness = document.likeness or Likeness(b"")
    draws = LOTTERY(CLIENT.id, document.id or "id", document.content or b"", likeness.form)
    decision, reason, selection, threshold, rule = by.gate_of(None).route(
        score, draws, document.metadata
    )
    return Prediction(
        id="id",
        client_id=CLIENT.id,
        document=document,
        scored=score,
        decision=decision,
        reason=reason,
        threshold=threshold,
        policy_version=by.version,
        created_at=START,
        selection=selection,
        rule=rule,
    )


@st.composite
def policies(draw: st.DrawFn) -> Policy:
    scorer = Scorer(scored_set().model_version, scored_set().calibrator_version)
    mode, threshold = draw(st.sampled_from(ThresholdMode)), draw(st.floats(0.0, 1.0))
    fixed = mode is ThresholdMode.FIXED
    return policy(
        auto_send=draw(st.booleans()),
        threshold_mode=mode,
        fixed_threshold=threshold if fixed else None,
        confidence_floor=draw(st.none() | st.floats(0.0, 1.0)),
        audits=AuditPlan(draw(SHARES), draw(SHARES), draw(st.sampled_from(AuditMode))),
        rules=read_rules(draw(st.lists(st.sampled_from([NORTH, NO_B]), max_size=2)))[0],
        states=(
            GateState(
                ALL,
                None if fixed else draw(st.none() | st.just(threshold)),
                certified_for=draw(st.none() | st.just(scorer)),
            ),
        ),
    )


@given(
    by=policies(),
    confidence=st.floats(0.0, 1.0),
    name=st.text("abc", min_size=1, max_size=8),
    metadata=st.sampled_from([{}, {"site": "north"}, {"site": "south"}]),
)
def test_every_decision_follows_again(by, confidence, name, metadata):
    made = decided(by, Document(id=name, text="x", metadata=metadata), confidence)
    found = Derivation.of(made, by, LOTTERY)
    assert found.equal is True
    assert found.draw_again == made.selection.draw


def test_another_version_score_or_draw_shows():
    by = policy(audits=AuditPlan(certification_rate=0.5))
    made = decided(by, Document(id="note", text="x"))
    assert made.selection.draw is not None
    flipped = made.selection._replace(draw=(made.selection.draw + 0.5) % 1.0)
    for prediction, version in (
        (made, policy(fixed_threshold=0.95)),
        (made._replace(scored=scored_set(0.5)), by),
        (made._replace(selection=flipped), by),
        (made._replace(threshold=0.7), by),
    ):
        assert Derivation.of(prediction, version, LOTTERY).equal is False


def test_a_rule_on_forgotten_metadata_cannot_be_derived_again():
    by = policy(rules=read_rules([NORTH])[0])
    made = decided(by, Document(id="note", text="x", metadata={"site": "north"}))
    assert made.reason is Reason.RULE
    assert Derivation.of(made, by, LOTTERY).equal is True
    forgotten = made._replace(document=Document(id="note"))
    assert Derivation.of(forgotten, by, LOTTERY).equal is None
    # What rules read from the labels is still there.
    by = policy(rules=read_rules([NO_B])[0])
    made = decided(by, Document(id="note", text="x"))._replace(document=Document(id="note"))
    assert Derivation.of(made, by, LOTTERY).equal is True


def test_the_draw_comes_again_while_the_content_and_the_key_are_known():
    by = policy()
    made = decided(by, Document(id="note", text="x"))
    assert Derivation.of(made, by, LOTTERY).draw_again == made.selection.draw
    assert Derivation.of(made, by, Lottery(b"another")).draw_again != made.selection.draw
    for other in (Document(id="other", text="x"), Document(id="note", text="X")):
        again = Derivation.of(made._replace(document=other), by, LOTTERY).draw_again
        assert again not in {None, made.selection.draw}, "another message"
    erased = made._replace(document=Document())
    found = Derivation.of(erased, by, LOTTERY)
    assert (found.draw_again, found.equal) == (None, True)


@pytest.mark.parametrize("confidence", [0.5, 0.9])
def test_predictions_from_before_there_were_audits_follow_as_well(confidence):
    by = policy()
    made = decided(by, Document(id="old", text="x"), confidence)._replace(selection=NOT_DRAWN)
    found = Derivation.of(made, by, LOTTERY)
    assert (found.equal, found.draw_again) == (True, None)
    assert found.derived.audit_role is AuditRole.NONE
