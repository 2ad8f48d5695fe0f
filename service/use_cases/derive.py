"""Derive a decision again, for whoever must account for it."""

from dataclasses import dataclass

from service.domain.audits import Lottery
from service.domain.derivation import Derivation
from service.domain.errors import PredictionNotFound
from service.domain.people import Caller, Permission
from service.use_cases.ports import Begin


@dataclass(frozen=True)
class DeriveDecision:
    """Decide again on what is stored of a prediction, and compare."""

    begin: Begin
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
