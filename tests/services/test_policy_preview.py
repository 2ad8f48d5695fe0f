"""What a change of the policy would do, before it is made."""

import pytest

from setwise.service.domain.errors import InvalidRequest
from setwise.service.domain.policy import ThresholdMode
from setwise.service.domain.predictions import Decision, Reason
from setwise.service.services.policy import Policies
from tests.fakes import FakeClock, FakeIds
from tests.kit.databases import Database
from tests.samples import ADMIN, add_predictions, certification, change, prediction


@pytest.fixture
def database() -> Database:
    database = Database()
    with database() as transaction:
        for confidence in (0.95, 0.85, 0.6, 0.3):
            add_predictions(transaction, prediction(confidence=confidence))
        sent_prediction = prediction(
            confidence=0.9, decision=Decision.AUTO, reason=Reason.ABOVE_THRESHOLD
        )
        add_predictions(transaction, sent_prediction)
    return database


def preview(database: Database, **fields: object) -> object:
    return Policies(database, FakeClock(), FakeIds()).preview_change(ADMIN, change(**fields))


def test_both_policies_are_held_against_the_same_documents(database: Database) -> None:
    effect = preview(database, threshold=0.85)
    assert effect.now.threshold is None
    assert (effect.now.sent, effect.now.documents) == (0, 5)
    assert (effect.then.sent, effect.then.documents) == (3, 5)
    assert effect.then.expected_accuracy == pytest.approx(0.9)
    assert effect.after.version == effect.before.version  # nothing is stored


def test_a_floor_and_a_switch_count(database: Database) -> None:
    assert preview(database, threshold=0.5, confidence_floor=0.92).then.sent == 1
    assert preview(database, threshold=0.5, auto_send=False).then.sent == 0


def test_each_rule_says_how_many_documents_it_keeps(database: Database) -> None:
    rules = [
        {"kind": "metadata", "field": "ward", "values": [3]},
        {"kind": "metadata", "field": "ward", "values": [4]},
    ]
    effect = preview(database, threshold=0.5, rules=rules)
    assert [held.documents for held in effect.held_back] == [5, 0]
    assert effect.then.sent == 0


def test_a_certified_policy_gets_the_certificate_that_it_would_get(
    database: Database,
) -> None:
    wanted = {"threshold_mode": ThresholdMode.CERTIFIED, "threshold": None, "risk": 0.1}
    bare = preview(database, **wanted)
    assert (bare.after.has_threshold, bare.then.sent) == (False, 0)
    proof = certification(0.8)
    with database() as transaction:
        transaction.certifications.add(proof)
    proved = preview(database, **wanted)
    (state,) = proved.after.states
    assert (state.threshold, state.certificate_id) == (0.8, proof.id)
    assert proved.then.sent == 3


def test_a_threshold_set_by_hand_sends_nothing_of_a_model_that_nothing_has_taught(
    database: Database,
) -> None:
    untaught = prediction(confidence=0.99)
    untaught = untaught._replace(scored=untaught.scored._replace(uncalibrated=True))
    with database() as transaction:
        add_predictions(transaction, untaught)
    policies = Policies(database, FakeClock(), FakeIds())
    by_hand = preview(database, threshold=0.85)
    what_if = policies.preview(ADMIN, threshold=0.85)
    for found in (by_hand, what_if):
        assert (found.then.sent, found.then.documents) == (3, 6)
        assert "no review has taught" in (found.warning or "")
    assert not by_hand.contradicted  # so it takes no reason
    certified = {"threshold_mode": ThresholdMode.CERTIFIED, "threshold": None}
    assert preview(database, **certified).warning is None
    with database() as transaction:
        add_predictions(transaction, prediction(confidence=0.9))  # recalibrated since
    assert preview(database, threshold=0.85).warning is None


def test_what_cannot_be_is_refused(database: Database) -> None:
    with pytest.raises(InvalidRequest) as error:
        preview(database, threshold=1.5)
    assert [fault.pointer for fault in error.value.faults] == ["/threshold/value"]
