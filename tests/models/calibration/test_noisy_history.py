"""Noise rates of those who labelled the training documents: their form and their rows."""

import pytest

from setwise.models.calibration.noisy_history import RowRates, checked_noise
from setwise.models.guarantees.noise import NoiseRates

NOISE = {
    "ann": {"alpha": 0.1, "beta": 0.05},
    "trainees": {"alpha": 0.3, "annotators": ["bob", "eve"]},
}


def test_an_entry_is_of_an_annotator_or_of_a_group() -> None:
    novice = NoiseRates(0.3, 0.0)
    assert checked_noise(NOISE) == {"ann": NoiseRates(0.1, 0.05), "bob": novice, "eve": novice}


@pytest.mark.parametrize(
    ("noise", "fault"),
    [
        ({}, "give noise rates"),
        ({"ann": 0.2}, "is an object with"),
        ({"ann": {"beta": 0.2}}, "is an object with"),
        ({"ann": {"alpha": 0.2, "gamma": 1}}, "is an object with"),
        ({"ann": {"alpha": "0.2"}}, "must be numbers"),
        ({"ann": {"alpha": True}}, "must be numbers"),
        ({"ann": {"alpha": float("nan")}}, "between 0 and 1"),
        ({"ann": {"alpha": 0.6, "beta": 0.4}}, "say nothing"),
        ({"a": {"alpha": 0.2, "annotators": "bob"}}, "list of names"),
        ({"a": {"alpha": 0.2, "annotators": ["gold"]}}, "no noise"),
        ({"bob": {"alpha": 0.1}, "a": {"alpha": 0.2, "annotators": ["bob"]}}, "given twice"),
    ],
)
def test_rates_of_another_form_are_refused(noise: dict[str, object], fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        checked_noise(noise)


def test_rows_have_the_rates_of_those_who_labelled_them() -> None:
    rates = RowRates.of(NOISE, ("ann", "eve", "gold", None), 4)
    assert rates.alpha.tolist() == [0.1, 0.3, 0.0, 0.0]
    assert rates.beta.tolist() == [0.05, 0.0, 0.0, 0.0]


def test_everybody_else_has_the_rates_of_the_star() -> None:
    rates = RowRates.of({**NOISE, "*": {"alpha": 0.2}}, ("ann", "zoe", "gold", None), 4)
    assert rates.alpha.tolist() == [0.1, 0.2, 0.0, 0.2]
    assert RowRates.of({"*": {"alpha": 0.2}}, None, 2).alpha.tolist() == [0.2, 0.2]


def test_an_annotator_without_rates_is_named() -> None:
    with pytest.raises(ValueError, match="no noise rates of zoe; add them"):
        RowRates.of(NOISE, ("ann", "zoe"), 2)
