"""Error rates of annotators where nobody keeps any."""

from collections.abc import Mapping, Sequence

from service.domain.calibration import Noise, Rates
from service.domain.errors import RatesUnknown
from service.use_cases.ports import UnitOfWork


class NoGroupRates:
    """Fills the port `GroupRates` before annotators have groups."""

    def rates(
        self,
        transaction: UnitOfWork,  # noqa: ARG002 -- the port's
        noise: Noise,
        annotators: Sequence[str],  # noqa: ARG002 -- as above
    ) -> Mapping[str, Rates]:
        """Refuse, and say what can be done."""
        raise RatesUnknown(
            f"No error rates of reviewers are kept, so noise '{noise}' has nothing to go by. Send "
            "`rates` with noise 'known', or ask with noise 'none'."
        )
