"""Forms: what is typed becomes the request that JSON states."""

import pytest
from pydantic import BaseModel

from setwise.service.pages.forms import Filled, inputs
from setwise.service.requests.accounts import KeyRequest, PersonChange
from setwise.service.requests.annotators import GroupRequest
from setwise.service.requests.models import CompareRequest, RetrainRequest
from setwise.service.requests.policy import PolicyRequest
from setwise.service.requests.recalibration import CalibrationRequest
from setwise.service.requests.webhooks import WebhookRequest

POLICY = {
    "target_accuracy": "95,5 %",
    "risk": "7",
    "auto_send": "yes",
    "threshold.mode": "certified",
    "threshold.value": "not read in this mode",
    "confidence_floor": "0.3",
    "audit.certification_rate": "4",
    "audit.rest_rate": "",
    "audit.ramp_up_rate": "",
    "audit.training_rate": "0",
    "audit.mode": "send",
    "overlap_rate": "12.5",
    "gold_reread_rate": "0",
    "segment_by": "text_length",
    "segment_bounds": "500, 2000",
    "most_segments": "4",
}


@pytest.mark.parametrize(
    ("model", "typed", "stated"),
    [
        (
            KeyRequest,
            {"name": "a", "role": "lead", "scopes": ["report"], "expires_at": "2026-12-31"},
            {
                "name": "a",
                "role": "lead",
                "scopes": ["report"],
                "expires_at": "2027-01-01T00:00:00Z",
            },
        ),
        (PersonChange, {"name": " Ann ", "role": "admin", "password": " b "},
         {"name": "Ann", "role": "admin", "password": " b "}),
        (
            WebhookRequest,
            {"url": "https://a.example", "description": "", "enabled": "yes"},
            {"url": "https://a.example"},
        ),
        (WebhookRequest, {"url": "u"}, {"url": "u", "enabled": False}),
        (RetrainRequest, {"noise": "known", "preset": ""}, {"noise": "known"}),
        (CompareRequest, {"documents": "20"}, {"documents": 20}),
        (CalibrationRequest, {"rates.alpha": "", "rates.beta": ""}, {}),
        (
            CalibrationRequest,
            {"noise": "known", "rates.alpha": "10", "rates.beta": "0"},
            {"noise": "known", "rates": {"alpha": 0.1, "beta": 0}},
        ),
        (
            GroupRequest,
            {"name": "a", "noise.mode": "estimated", "noise.alpha": "not read in this mode"},
            {"name": "a", "noise": {"mode": "estimated"}},
        ),
        (
            PolicyRequest,
            POLICY,
            {
                "target_accuracy": 0.955,
                "risk": 0.07,
                "threshold": {"mode": "certified"},
                "confidence_floor": 0.3,
                "audit": {"certification_rate": 0.04, "mode": "send"},
                "overlap_rate": 0.125,
                "segment_by": "text_length",
                "segment_bounds": [500, 2000],
                "most_segments": 4,
            },
        ),
    ],
)  # fmt: skip
def test_what_is_typed_is_the_request_that_json_states(
    model: type[BaseModel], typed: dict[str, str | list[str]], stated: dict[str, object]
) -> None:
    form = Filled.of(**typed)
    assert (form.read(model), form.faults) == (model.model_validate(stated), {})


@pytest.mark.parametrize(
    ("changed", "field", "said"),
    [
        ({"target_accuracy": "100"}, "target_accuracy", "both excluded"),
        ({"audit.training_rate": ""}, "audit.training_rate", "Enter a value."),
        ({"threshold.mode": "fixed", "threshold.value": ""}, "threshold.value", "Enter a value."),
        ({"threshold.mode": "known"}, "threshold.mode", "Choose one of 'certified' or 'fixed'."),
        ({"reason": "x" * 1001}, "reason", "It must have at most 1000 characters."),
        ({"most_segments": "1e999999"}, "most_segments", "Enter a number from"),
        ({"segment_bounds": "500; 2000"}, "segment_bounds", "“500;” is not a number."),
    ],
)
def test_a_fault_stands_at_its_field_alone(changed: dict[str, str], field: str, said: str) -> None:
    form = Filled.of(**(POLICY | changed))
    assert form.read(PolicyRequest) is None
    assert list(form.faults) == [field]
    assert said in form.faults[field][0]


def test_a_hint_is_the_description_unless_the_form_says_more() -> None:
    hints = {each.name: each.input.hint for each in inputs(WebhookRequest)}
    model_fields = WebhookRequest.model_fields
    assert hints["url"] == model_fields["url"].description
    assert hints["enabled"] != model_fields["enabled"].description
