"""Annotators' noise rates, which recalibration corrects for."""

from setwise.service.domain.annotators import Rates
from setwise.service.domain.errors import FieldFault, InvalidRequest, RatesUnknown
from setwise.service.domain.recalibration import (
    NO_RATES,
    NO_RATES_WITH_SUGGESTION,
    Noise,
    RatesOf,
)
from setwise.service.domain.truth import PersonAnswer
from setwise.service.stores.transaction import Transaction

MOST_REASONS = 3
"""Most reasons that a refusal names."""


def refuse_contradicted(transaction: Transaction, rates: Rates) -> None:
    """Raise `InvalidRequest` if gold labels of a group contradict rates meant for all reviewers."""
    from setwise.service.services.analysis.noise import (  # noqa: PLC0415 -- scipy loads slowly
        outside,
        report_noise,
    )

    for report in report_noise(transaction).groups.values():
        if (why := outside(rates, report.estimate)) is not None:
            detail = "Gold labels contradict these rates; ask with noise 'estimated'."
            raise InvalidRequest(detail, [FieldFault("/rates", why)])


def group_rates(transaction: Transaction, noise: Noise) -> RatesOf:
    """Return a function from a person's answer to the noise rates of its group.

    With noise ``known``, these are the rates set by the owner; with ``estimated``, also those
    estimated from gold labels, of blind answers alone: those given with the suggestion in view
    have rates of their own, set by hand. Groups with too few gold labels or too many errors are
    left out.

    Raises `RatesUnknown` if no group has usable rates; the detail says how to get some.
    """
    from setwise.service.services.analysis.noise import (  # noqa: PLC0415 -- scipy loads slowly
        GroupReport,
        report_noise,
    )

    noise_report = report_noise(transaction)

    def usable(report: GroupReport, *, shown: bool) -> bool:
        fixed = report.group.fixed_with_suggestion if shown else report.group.fixed
        known = noise is Noise.ESTIMATED or fixed is not None
        return known and (report.usable_with_suggestion if shown else report.usable)

    groups = noise_report.groups.values()
    some = {
        group.group.id
        for group in groups
        if usable(group, shown=False) or usable(group, shown=True)
    }
    if not some:
        reasons = [
            finding.message for group in groups for finding in group.findings if finding.blocking
        ]
        raise RatesUnknown(
            f"No group of annotators has usable error rates with noise '{noise}'. "
            + ("; ".join(reasons[:MOST_REASONS]) or "Set them: PUT /v1/admin/groups/{id}")
            + ". Or send `rates` with noise 'known', or ask with noise 'none'."
        )

    def of(answer: PersonAnswer, confidence: float) -> Rates | str:
        if answer.group not in some:
            return NO_RATES
        group, shown = noise_report.groups[answer.group], answer.shown
        if not usable(group, shown=shown):
            return NO_RATES_WITH_SUGGESTION if shown else NO_RATES
        alpha, beta = group.training_rates([confidence], suggestion_shown=shown)
        return Rates(float(alpha[0]), float(beta[0]))

    return of
