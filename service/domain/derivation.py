"""Decisions derived again from what is stored: the versions, the score and the draw."""

from dataclasses import dataclass
from typing import NamedTuple, Self

from setwise.service.domain.audits import AuditRole, Draws, Lottery
from setwise.service.domain.policy import RoutingPolicy
from setwise.service.domain.predictions import Decision, Document, Prediction, Reason, ScoredSet


class Result(NamedTuple):
    """What a decision comes to.

    Attributes
    ----------
    threshold : float or None
        Least confidence that would have been sent; None where nothing would.
    rule : str or None
        Name of the rule that held the document back.
    audit_role : AuditRole
        What the document was drawn for.
    inclusion_probability : float or None
        Probability, before the draw, that a person would read it; None where no draw is stored.
    """

    decision: Decision
    reason: Reason
    threshold: float | None
    rule: str | None
    audit_role: AuditRole
    inclusion_probability: float | None

    @classmethod
    def of(cls, prediction: Prediction) -> Self:
        """Return what was decided."""
        selection = prediction.selection
        return cls(
            prediction.decision,
            prediction.reason,
            prediction.threshold,
            prediction.rule,
            selection.role,
            selection.inclusion_probability,
        )

    @classmethod
    def derived(
        cls, policy: RoutingPolicy, scored: ScoredSet, draw: float | None, document: Document
    ) -> Self:
        """Decide by a policy on a score and the number that was drawn for the document."""
        # Predictions from before there were audits have no draw, nor their policies audits.
        draws = Draws(audit=1.0 if draw is None else draw, overlap=1.0, reread=1.0)
        decision, reason, selection, threshold, rule = policy.route(
            scored, draws, document.metadata
        )
        return cls(
            decision,
            reason,
            threshold,
            rule,
            selection.role,
            None if draw is None else selection.inclusion_probability,
        )


@dataclass(frozen=True)
class Derivation:
    """A decision as it is stored, and as it follows from what it rests on.

    Attributes
    ----------
    prediction : Prediction
        With the score, and the draw among its selection.
    policy : RoutingPolicy
        The version that decided.
    derived : Result
        What follows.
    draw_again : float or None
        The number that the lottery gives the document now; None where its name is forgotten, or
        nothing was drawn. Another one than the stored one means another key.
    """

    prediction: Prediction
    policy: RoutingPolicy
    derived: Result
    draw_again: float | None

    @classmethod
    def of(cls, prediction: Prediction, policy: RoutingPolicy, lottery: Lottery) -> Self:
        """Derive the decision on a prediction again, by the version of the policy that it names."""
        document, draw = prediction.document, prediction.selection.draw
        # Without its content a document may have lost its name as well.
        named = document.id is not None or _content_kept(document)
        again = lottery(prediction.client_id, prediction.name).audit
        return cls(
            prediction=prediction,
            policy=policy,
            derived=Result.derived(policy, prediction.scored, draw, document),
            draw_again=again if named and draw is not None else None,
        )

    @property
    def stored(self) -> Result:
        """What was decided."""
        return Result.of(self.prediction)

    @property
    def equal(self) -> bool | None:
        """Whether the same follows again; None where a rule read metadata that is forgotten."""
        if self.derived == self.stored:
            return True
        forgotten = not _content_kept(self.prediction.document)
        by_rule = Reason.RULE in {self.stored.reason, self.derived.reason}
        return None if forgotten and by_rule else False


def _content_kept(document: Document) -> bool:
    """Tell whether the document is still what it was; metadata is forgotten with the text."""
    return document.text is not None or document.features is not None
