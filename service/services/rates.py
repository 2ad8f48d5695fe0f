"""Error rates that recalibration corrects for, from the groups that annotators belong to."""

from dataclasses import dataclass

from setwise.service.domain.errors import RatesUnknown
from setwise.service.domain.recalibration import NO_RATES, RUBBER_STAMP, Noise, Rates, RatesOf
from setwise.service.domain.reviews import Annotation
from setwise.service.stores.transaction import Transaction

MOST_REASONS = 3
"""Groups of which a refusal says what is missing."""


@dataclass(frozen=True)
class ReportedRates:
    """Fills the port `GroupRates`.

    ``known`` rates are those that the owner has set, ``estimated`` ones also those that gold labels
    tell. What the noise report forbids to learn from is left out: groups with too few gold labels
    or too many errors, and people who agree with everything.
    """

    def rates(self, transaction: Transaction, noise: Noise) -> RatesOf:
        """Return what tells the rates of an answer, by its group at the time.

        Raises
        ------
        RatesUnknown
            If no group has rates to go by, with what would give it some.
        """
        from setwise.service.services.noise import report_noise  # noqa: PLC0415 -- scipy loads slowly

        found = report_noise(transaction)
        known = {
            name: group
            for name, group in found.groups.items()
            if group.usable and (noise is Noise.ESTIMATED or group.group.fixed is not None)
        }
        if not known:
            reasons = [
                finding.message
                for group in found.groups.values()
                for finding in group.findings
                if finding.blocking
            ]
            raise RatesUnknown(
                f"No group of annotators has error rates to go by with noise '{noise}'. "
                + ("; ".join(reasons[:MOST_REASONS]) or "Set them: PUT /v1/admin/groups/{id}")
                + ". Or send `rates` with noise 'known', or ask with noise 'none'."
            )

        def of(said: Annotation, confidence: float) -> Rates | str:
            if said.reviewer in found.stamps:
                return RUBBER_STAMP
            group = known.get(said.group)
            if group is None:
                return NO_RATES
            alpha, beta = group.training_rates([confidence])
            return Rates(float(alpha[0]), float(beta[0]))

        return of
