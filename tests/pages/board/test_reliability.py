"""The reliability diagram of a calibrator, from the report that is stored with it."""

import csv
import io
import json

import numpy as np
import pytest

from setwise.models.evaluation.reports import report_calibration
from setwise.service.domain.recalibration import verdict
from setwise.service.pages.board.recalibration import measures
from setwise.service.pages.board.reliability import reliability

N = 600


def half(*, honest: bool, n: int = N) -> object:
    """Return what a stored report says of confidences, as JSON gives it back."""
    draw = np.random.default_rng(5)
    confidence = draw.uniform(0.2, 0.95, n)
    agreed = draw.random(n) < (confidence if honest else confidence**3)
    return json.loads(json.dumps(report_calibration(confidence, agreed).to_json()))


@pytest.fixture(scope="module")
def report() -> dict[str, object]:
    return {"before": half(honest=False), "after": half(honest=True)}


def test_both_curves_are_drawn_and_told(report: dict[str, object]) -> None:
    figure = reliability(report)
    assert figure.svg is not None
    assert figure.svg.count('class="line waiting"') == figure.svg.count('class="line link"') == 1
    assert figure.svg.count('class="band link"') == 1
    before, _, after = figure.says.partition("After")
    assert before.startswith("Before, the curve strays further")
    assert after.startswith(", the curve stays where calibrated confidence would lie")
    assert figure.says.endswith("600 documents, each judged by a fit that has not seen it.")


def test_a_calibrator_that_has_seen_the_rows_is_said_to_be_flattered(
    report: dict[str, object],
) -> None:
    says = reliability(report | {"comparison": {"n": 150}}).says
    assert says.endswith("calibrator was trained on 450 of them, which flatters it.")
    assert "flatters" not in reliability(report | {"comparison": {"n": N}}).says


def test_its_numbers_are_those_of_the_report(report: dict[str, object]) -> None:
    rows = list(csv.DictReader(io.StringIO(reliability(report).as_csv())))
    for when in ("before", "after"):
        drawn = report[when]["reliability"]
        mine = [row for row in rows if row["calibrator"] == when]
        for name in ("confidence", "accuracy", "low", "high"):
            assert [float(row[name]) for row in mine] == drawn[name]


def test_too_few_rows_are_told_with_how_many_it_takes() -> None:
    few = half(honest=True, n=12)
    figure = reliability({"before": few, "after": few})
    assert figure.svg is None
    assert figure.empty == "It needs at least 200 reviewed documents; there were 12."


@pytest.mark.parametrize("report", [{}, {"before": None, "after": {"brier": {"value": 0.1}}}])
def test_a_report_without_a_curve_is_not_a_fault(report: dict[str, object]) -> None:
    assert reliability(report).svg is None


@pytest.mark.parametrize(
    ("gain", "p_value", "says", "better"),
    [
        (0.01, 0.04, "proved better", True),
        (0.01, 0.06, "not proved better", None),
        (-0.01, 0.94, "not proved better", None),
        (-0.01, 0.96, "proved worse", False),
    ],
)
def test_one_paired_test_decides_sentence_and_colour(
    gain: float, p_value: float, says: str, better: bool | None
) -> None:
    before = {"value": 0.2, "low": 0.1, "high": 0.3}
    after = {**before, "value": 0.2 - gain}
    names = ("brier", "alignment_error", "sharpness")
    report = {
        "comparison": {"gain": gain, "p_value": p_value, "n": 400},
        "before": dict.fromkeys(names, before),
        "after": dict.fromkeys(names, after),
    }
    assert verdict(report).startswith(f"{says}: the Brier score ")
    brier, *others = measures(report)
    assert brier.better is better
    assert {one.better for one in others} == {None}
