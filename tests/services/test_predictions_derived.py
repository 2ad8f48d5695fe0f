"""Stored decisions are derived again, on every database."""

from setwise.service.domain.accounts.callers import Caller, Role
from setwise.service.domain.predictions import Document, Prediction
from setwise.service.domain.routing.audits import AuditPlan
from setwise.service.services.policy import Policies
from setwise.service.services.predictions import Predictions
from setwise.service.stores.transaction import Transactions
from tests.building import predict_one
from tests.fakes import LOTTERY, FakeClock, FakeIds, FakePredictors
from tests.samples import ADMIN, CLIENT, change

AUDITOR = Caller("019b7a0b-0000-7000-9000-000000000041", "Otto", Role.AUDITOR)
RULES = [{"kind": "metadata", "field": "site", "values": ["north"]}]


def service(begin: Transactions) -> Predictions:
    return Predictions(FakePredictors(), begin, FakeClock(), FakeIds(0x2000), LOTTERY)


def test_decisions_of_every_policy_follow_from_what_is_stored(begin: Transactions) -> None:
    change_policy = Policies(begin, FakeClock(), FakeIds(0x1000)).change
    predictions = service(begin)
    new_predictions: list[Prediction] = []
    for place, changed_change in enumerate(
        (
            change(threshold=0.8),
            change(threshold=0.3, audits=AuditPlan(0.4, 0.3)),
            change(threshold=0.3, rules=RULES),
            change(threshold=0.3, confidence_floor=0.7),
        )
    ):
        version = change_policy(ADMIN, changed_change, None).version
        for number, text in enumerate(["0.2", "0.5", "0.75", "0.9", "unknown"] * 4):
            metadata = {"site": "north" if number % 3 else "south"}
            document = Document(id=f"note {place}/{number}", text=text, metadata=metadata)
            new_predictions.append(predict_one(predictions, CLIENT, document))
            assert new_predictions[-1].policy_version == version
    assert len({(one.decision, one.reason) for one in new_predictions}) >= 5
    derive = predictions.derive
    for one in new_predictions:
        derivation = derive(AUDITOR, one.id)
        assert derivation.equal is True
        assert derivation.draw_again == one.selection.draw
        assert derivation.policy.version == one.policy_version
        assert derivation.prediction == one
