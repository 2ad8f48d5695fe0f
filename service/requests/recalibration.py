"""Requests for calibrators learnt from reviews."""

from typing import Annotated, Literal

from pydantic import Field

from setwise.service.domain.annotators import Rates
from setwise.service.domain.recalibration import Activate, Noise, Options
from setwise.service.requests import Input, RequestBody

NOISE = Input(
    "Reviewers' errors",
    "",
    "radio",
    (
        (Noise.NONE.value, "Trust every answer", ""),
        (
            Noise.KNOWN.value,
            "Correct for known error rates",
            "Those set for the reviewers' groups.",
        ),
        (
            Noise.ESTIMATED.value,
            "Correct for estimated error rates",
            "Estimated for each group from answers that a lead decided.",
        ),
    ),
    fold="Advanced",
)
_ACTIVATE = (
    (Activate.NEVER.value, "Wait until someone activates it", ""),
    (
        Activate.IF_BETTER.value,
        "Activate it if it is proved better",
        "By a paired test on documents that it has not seen.",
    ),
)


class ErrorRates(RequestBody):
    """Error rates of all reviewers."""

    alpha: Annotated[
        float,
        Input(
            "Right sets that reviewers reject, in %",
            "The same for everyone; groups can have separate rates. Only for known error rates.",
            percent="any",
            fold="Advanced",
        ),
    ] = Field(description="Share of right predictions that a reviewer contradicts.")
    beta: Annotated[
        float,
        Input(
            "Wrong sets that reviewers accept, in %",
            "The same for everyone; only for known error rates.",
            percent="any",
            fold="Advanced",
        ),
    ] = Field(description="Share of wrong predictions that a reviewer agrees with.")


class CalibrationRequest(RequestBody):
    """Options of a recalibration."""

    noise: Annotated[Literal["none", "known", "estimated"], NOISE] = Field(
        default="none",
        description=(
            "`none` trusts every review; `known` corrects for the error rates that are set, "
            "`estimated` for those estimated from answers that a lead decided."
        ),
    )
    rates: ErrorRates | None = Field(
        default=None,
        description="With `known`: rates of all reviewers, instead of the rates of groups; for "
        "blind answers and for those given with the suggestion in view alike. Groups keep them "
        "apart.",
    )
    activate: Annotated[
        Literal["never", "if-better"],
        Input("When it is trained", "", "radio", _ACTIVATE),
    ] = Field(
        default="never",
        description="`if-better` activates it if a paired test on unseen rows finds it better.",
    )

    def as_options(self) -> Options:
        """Return the options for the service."""
        rates = self.rates
        return Options(
            Noise(self.noise),
            Activate(self.activate),
            None if rates is None else Rates(rates.alpha, rates.beta),
        )
