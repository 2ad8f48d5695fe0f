"""Derive a decision again, for whoever must account for it."""

from dataclasses import dataclass

from setwise.service.domain.audits import Lottery
from setwise.service.domain.callers import Caller, Permission
from setwise.service.domain.derivation import Derivation
from setwise.service.domain.errors import PredictionNotFound
from setwise.service.stores.transaction import Transactions


@dataclass(frozen=True)
class DeriveDecision:
    """Decide again on what is stored of a prediction, and compare."""

    begin: Transactions
    lottery: Lottery

    def __call__(self, caller: Caller, prediction_id: str) -> Derivation:
        """Return what was decided and what follows again.

        Raises
        ------
        PredictionNotFound
            If there is no such prediction.
        """
        caller.require(Permission.REPORT)
        with self.begin(read_only=True) as transaction:
            prediction = transaction.predictions.get(prediction_id)
            if prediction is None:
                raise PredictionNotFound(f"No prediction has the id {prediction_id!r}.")
            policy = transaction.policies.get(prediction.policy_version)
        return Derivation.of(prediction, policy, self.lottery)
