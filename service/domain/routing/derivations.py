"""Decisions derived again from what is stored."""

from dataclasses import dataclass
from typing import Self

from setwise.service.domain.policy import Gate, Policy
from setwise.service.domain.predictions import Decision, Prediction, Reason, ScoredSet
from setwise.service.domain.routing.audits import (
    AuditRole,
    Draws,
    Lottery,
)
from setwise.service.domain.routing.rules import Metadata
from setwise.shown import Shown


@dataclass(frozen=True)
class DecisionResult(Shown):
    """A decision, its reason and its audit."""

    decision: Decision
    reason: Reason
    threshold: float | None
    """Least confidence that would have been sent; null where nothing would."""
    rule: str | None
    """The rule that held the document back."""
    audit_role: AuditRole
    """Purpose of the audit that the document was drawn for."""
    inclusion_probability: float | None
    """Probability, before the draw, that a person would read the document."""
    audit_chance: float | None
    """Probability, before the draw, that it would be audited to certify, were it not held back by a
    rule or out of domain.
    """

    @classmethod
    def of(cls, prediction: Prediction) -> Self:
        """Return the stored decision on a prediction."""
        selection = prediction.selection
        return cls(
            prediction.decision,
            prediction.reason,
            prediction.threshold,
            prediction.rule,
            selection.role,
            selection.inclusion_probability,
            selection.audit_chance,
        )

    @classmethod
    def derived(cls, gate: Gate, scored: ScoredSet, draw: float | None, facts: Metadata) -> Self:
        """Return a gate's decision on a score, the document's draw and what rules look at."""
        # Predictions from before audits existed have no draw, and their policies have no audits.
        draws = Draws(audit=1.0 if draw is None else draw, overlap=1.0, reread=1.0)
        decision, reason, selection, threshold, rule = gate.route(scored, draws, facts)
        return cls(
            decision,
            reason,
            threshold,
            rule,
            selection.role,
            None if draw is None else selection.inclusion_probability,
            None if draw is None else selection.audit_chance,
        )


@dataclass(frozen=True)
class DecisionInputs(Shown):
    """The inputs of a decision, as stored with the prediction."""

    labels: tuple[str, ...] | None
    """null, as the confidence and the versions, if there was no model yet."""
    confidence: float | None
    out_of_domain: bool
    uncalibrated: bool
    """Nothing has taught the model how sure to be: a fixed threshold does not apply."""
    model_version: str | None
    calibrator_version: str | None
    policy_version: str
    draw: float | None
    """The number in [0, 1) that decided whether the document is audited; null for predictions from
    before there were audits.
    """


@dataclass(frozen=True)
class Derivation:
    """A stored decision, and the same decision derived again."""

    prediction: Prediction
    """It holds the score and, in its selection, the draw."""
    policy: Policy
    """The version that decided."""
    derived: DecisionResult
    """The decision derived again."""
    draw_again: float | None
    """What the document's id and content draw with the present key: `inputs.draw`, unless the key
    was changed; None where its content is erased or nothing was drawn.
    """

    @classmethod
    def of(cls, prediction: Prediction, policy: Policy, lottery: Lottery) -> Self:
        """Derive a decision again, by the policy version that made it."""
        content, draw = prediction.content, prediction.selection.draw
        again = None
        if draw is not None and content is not None:
            again = lottery.audit(prediction.client_id, prediction.name, content)
        return cls(
            prediction=prediction,
            policy=policy,
            derived=DecisionResult.derived(
                policy.gate_of(prediction.segment), prediction.scored, draw, prediction.facts
            ),
            draw_again=again,
        )

    @property
    def stored(self) -> DecisionResult:
        """The stored decision."""
        return DecisionResult.of(self.prediction)

    @property
    def inputs(self) -> DecisionInputs:
        """What the decision was made from."""
        prediction, scored = self.prediction, self.prediction.scored
        return DecisionInputs(
            labels=scored.labels,
            confidence=scored.confidence,
            out_of_domain=scored.out_of_domain,
            uncalibrated=scored.uncalibrated,
            model_version=scored.model_version,
            calibrator_version=scored.calibrator_version,
            policy_version=prediction.policy_version,
            draw=prediction.selection.draw,
        )

    @property
    def equal(self) -> bool | None:
        """Whether the same follows again; None if a rule read forgotten metadata."""
        if self.derived == self.stored:
            return True
        forgotten = not self.prediction.document.kept
        by_rule = Reason.RULE in {self.stored.reason, self.derived.reason}
        return None if forgotten and by_rule else False
