"""Requests for models."""

from typing import Annotated, Literal

from pydantic import Field

from setwise.service.domain.recalibration import Noise
from setwise.service.domain.retraining import Retrain
from setwise.service.requests import Input, RequestBody
from setwise.service.requests.recalibration import NOISE


class RetrainRequest(RequestBody):
    """What to train on, and how."""

    training_data: Annotated[str | None, Input("File of earlier training documents")] = Field(
        None,
        max_length=1_000,
        description="Name of a file of earlier training documents in the folder that the setting "
        "`TRAINING_DATA` names. Without one, the model learns from reviewed documents alone.",
    )
    preset: Annotated[str | None, Input("Preset")] = Field(
        None,
        max_length=20,
        description="`fast`, `best` or `paper`; by default that of the model that serves.",
    )
    noise: Annotated[Literal["none", "known", "estimated"], NOISE] = Field(
        "none",
        description="Which error rates of reviewers to correct for, as in a recalibration. With "
        "rates, answers of people without any teach nothing, a lead's decision is the truth, and "
        "earlier training documents are as noisy as those of the model that serves.",
    )
    texts: Annotated[
        bool, Input("Make a model of texts, which needs no other model's answers", widget="tick")
    ] = Field(
        False,
        description="Whether to make a model of texts, though one of another kind serves, such as "
        "an external one. Once it is active, documents with another model's answers are refused.",
    )

    def as_options(self) -> Retrain:
        """Return the options for the service."""
        return Retrain(self.training_data, self.preset, Noise(self.noise), self.texts)


class CompareRequest(RequestBody):
    """How many documents to compare."""

    documents: Annotated[int, Input("Newest documents", required=True)] = Field(
        1_000,
        description="Number of most recent documents, up to 100000, that are scored again in the "
        "background if their text is still stored.",
    )
