"""Requests for annotators and their groups."""

from typing import Annotated, Literal

from pydantic import Field

from setwise.service.domain.annotators import GroupChange, Rates
from setwise.service.domain.errors import FieldFault, InvalidRequest
from setwise.service.requests import Input, Number, RequestBody

SET_BY_HAND = ("fixed", "Set by hand", "You vouch for them.")
_SOURCES = (
    ("estimated", "Estimated", "From audits that a lead decided, with intervals."),
    SET_BY_HAND,
)
_ONLY_FIXED = "Only used when rates are set by hand."
ERROR_RATES = "Error rates"
_FIXED = ("noise.mode", "fixed")
_SEEN_FIXED = ("source_seen", "fixed")


class FixedRates(RequestBody):
    """Noise rates that you set."""

    alpha: Annotated[
        Number,
        Input(
            "Right sets rejected with the suggestion in view, in %",
            _ONLY_FIXED,
            percent="any",
            when=_SEEN_FIXED,
            fold=ERROR_RATES,
        ),
    ] = Field(description="How often right predictions are contradicted.")
    beta: Annotated[
        Number,
        Input(
            "Wrong sets accepted with the suggestion in view, in %",
            _ONLY_FIXED,
            percent="any",
            when=_SEEN_FIXED,
            fold=ERROR_RATES,
        ),
    ] = Field(description="How often wrong predictions are agreed with.")


class GroupNoiseBody(RequestBody):
    """Where a group's noise rates come from.

    People tend to follow a suggestion they see, so answers given with it in view have other rates.
    """

    mode: Annotated[
        Literal["fixed", "estimated"],
        Input("Error rates of blind answers", "", "radio", _SOURCES, fold=ERROR_RATES),
    ] = Field(description="Of blind answers. `fixed`: set by you; `estimated`: from gold labels.")
    alpha: Annotated[
        Number | None,
        Input(
            "Right sets rejected, in %", _ONLY_FIXED, percent="any", when=_FIXED, fold=ERROR_RATES
        ),
    ] = Field(None, description="How often right predictions are contradicted.")
    beta: Annotated[
        Number | None,
        Input(
            "Wrong sets accepted, in %", _ONLY_FIXED, percent="any", when=_FIXED, fold=ERROR_RATES
        ),
    ] = Field(None, description="How often wrong predictions are agreed with.")

    with_suggestion: FixedRates | None = Field(
        None,
        description="Rates that you set for answers given with the suggestion in view. null: "
        "unknown; calibrators that correct for errors leave such answers out.",
    )

    def as_rates(self) -> Rates | None:
        """Return the rates of blind answers; raises `InvalidRequest` if they are inconsistent."""
        rates = {"alpha": self.alpha, "beta": self.beta}
        fixed = self.mode == "fixed"
        faults = [
            FieldFault(
                f"/noise/{name}",
                "is missing; mode 'fixed' needs a number from 0, below 1"
                if fixed
                else "must be null in mode 'estimated', where gold labels give it",
            )
            for name, rate in rates.items()
            if (rate is None) is fixed
        ]
        if faults:
            raise InvalidRequest("The group cannot be stored like this.", faults)
        return None if self.alpha is None or self.beta is None else Rates(self.alpha, self.beta)


class GroupRequest(RequestBody):
    """A group of annotators with the same error rates."""

    name: Annotated[str, Input("Name", "As people see it.")]
    noise: GroupNoiseBody = Field(
        default_factory=lambda: GroupNoiseBody(mode="estimated", alpha=None, beta=None)
    )

    def as_change(self) -> GroupChange:
        """Return the change for the service."""
        shown = self.noise.with_suggestion
        return GroupChange(
            self.name,
            self.noise.as_rates(),
            None if shown is None else Rates(shown.alpha, shown.beta),
        )


class AnnotatorRequest(RequestBody):
    """The group of an annotator."""

    group: Annotated[str, Input("Group")] = Field(
        description="Its id. Answers given before stay with the group before."
    )
