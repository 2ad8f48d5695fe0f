"""What another policy would have done with recent documents, beside the policy in force."""

from collections.abc import Sequence
from dataclasses import dataclass

from setwise.service.domain.evidence import CheckedDocument
from setwise.service.domain.policy import Policy
from setwise.service.domain.routing.rules import Rule
from setwise.service.services.analysis.advice import Advice, advise, misses, warning
from setwise.service.services.analysis.forecast import Forecast, over, under

RECENT = 5_000
"""Documents that the answer stands on, the newest; their labels and metadata are read."""

STEPS = 200
"""Steps between the thresholds 0 and 1 of a curve."""


@dataclass(frozen=True)
class HeldBack:
    """Number of documents that a rule sends to review, regardless of confidence."""

    rule: Rule
    documents: int


@dataclass(frozen=True)
class WhatIf:
    """The policy in force and another one, held against the same recent documents."""

    before: Policy
    after: Policy
    """The other policy, with the certificate that it would get or the threshold that checks
    support.
    """
    tried: bool
    """Whether another policy was asked for; otherwise ``after`` is ``before``."""
    now: Forecast
    """With the policy in force, as if the breaker had not tripped: no change resets it."""
    then: Forecast
    """The same with the other policy."""
    curve: Sequence[Forecast]
    """The other policy at each threshold from 0 to 1, in `STEPS`."""
    advice: Advice | None
    """The threshold that checks support, or what is missing; None unless a target was given."""
    untaught: bool
    """Whether a threshold set by hand sends nothing, because no review has taught the model."""
    certificate_ends: str | None
    """Why the change would end the certificate in force, so that nothing would be sent until audits
    certify a threshold again; None if it would not.
    """
    held_back: tuple[HeldBack, ...]
    """One for each rule of the other policy."""
    seconds: float | None
    """Mean time per review since the day of the oldest document; None before the first one."""
    by_segment: bool
    """Whether the documents are of several segments, each with its own threshold."""

    @property
    def contradicted(self) -> bool:
        """Whether checks contradict the target at the other policy."""
        return misses(self.then, self.after.target_accuracy)

    @property
    def warning(self) -> str | None:
        """What speaks against the other policy; None if nothing does.

        Either the upper bound of `then` misses the policy's target, or a threshold set by hand
        sends nothing of a model that no review has taught how sure to be.
        """
        return _UNTAUGHT if self.untaught else warning(self.then, self.after.target_accuracy)


def hold_against(
    evidence: Sequence[CheckedDocument],
    before: Policy,
    after: Policy,
    *,
    tried: bool = True,
    certificate_ends: str | None = None,
    advice: Advice | None = None,
    seconds: float | None = None,
    segment: str | None = None,
) -> WhatIf:
    """Return what both policies do with the documents.

    ``segment``: Of which all the documents are.
    """
    return WhatIf(
        before=before,
        after=after,
        tried=tried,
        now=under(evidence, before, segment, tripped=True),
        then=under(evidence, after, segment, tripped=True),
        curve=over(evidence, [step / STEPS for step in range(STEPS + 1)], after, segment),
        advice=advice,
        untaught=_untaught(evidence, after),
        certificate_ends=certificate_ends,
        held_back=tuple(
            HeldBack(
                rule,
                sum(rule.holds_back(frozenset(each.labels), each.facts) for each in evidence),
            )
            for rule in after.rules
        ),
        seconds=seconds,
        by_segment=before.gate_for(segment) is None,
    )


def advise_on(
    evidence: Sequence[CheckedDocument], policy: Policy, segment: str | None = None
) -> Advice:
    """Return the lowest threshold that supports a policy's target under its rules."""
    from setwise.models.guarantees.sequence import plan_sequence  # noqa: PLC0415 -- loads slowly

    confidences = [each.confidence for each in evidence]
    thresholds = plan_sequence(confidences).thresholds.tolist() if confidences else []
    risk = (policy.gate_for(segment) or policy).risk
    return advise(over(evidence, thresholds, policy, segment), policy.target_accuracy, risk)


_UNTAUGHT = (
    "Nothing would be sent now: no review has taught the model how sure to be, so a threshold set "
    "by hand does not hold for it. Recalibrate once enough is reviewed."
)


def _untaught(evidence: Sequence[CheckedDocument], policy: Policy) -> bool:
    return not policy.certified and any(each.uncalibrated for each in evidence[:1])
