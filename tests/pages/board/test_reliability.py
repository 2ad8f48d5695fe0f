"""The reliability diagram of a calibrator, from the report that is stored with it."""

import csv
import io
from dataclasses import replace

import numpy as np
import pytest

from setwise.models.calibration.recalibration import ReviewOutcomes
from setwise.service.domain.recalibration.report import (
    CalibrationMeasures,
    CalibrationReport,
    CalibratorComparison,
)
from setwise.service.pages.board.recalibration import measures
from setwise.service.pages.board.reliability import reliability
from setwise.service.services.analysis.lessons import measure
from tests.samples import calibration_report

N = 600


def half(*, honest: bool, n: int = N) -> CalibrationMeasures:
    """Return what a report says of confidences."""
    draw = np.random.default_rng(5)
    confidence = draw.uniform(0.2, 0.95, n)
    mask = draw.random(n) < (confidence if honest else confidence**3)
    return measure(confidence, ReviewOutcomes.of(mask.astype(float)))


@pytest.fixture(scope="module")
def report() -> CalibrationReport:
    comparison = CalibratorComparison.tested(N, 0.01, 0.2)
    return replace(
        calibration_report(),
        before=half(honest=False),
        after=half(honest=True),
        comparison=comparison,
    )


def test_both_curves_are_drawn_and_told(report: CalibrationReport) -> None:
    figure = reliability(report)
    assert figure.svg is not None
    assert figure.svg.count('class="line waiting"') == figure.svg.count('class="line link"') == 1
    assert figure.svg.count('class="band link"') == 1
    assert figure.says == "Before: no. After: yes, as far as these documents tell."
    before, _, after = figure.method.partition("After")
    assert before.startswith("Before, the curve strays further")
    assert after.startswith(", the curve stays where calibrated confidence would lie")
    assert figure.method.endswith("600 documents, each judged by a fit that has not seen it.")


def test_a_calibrator_that_has_seen_the_rows_is_said_to_be_flattered(
    report: CalibrationReport,
) -> None:
    newer = replace(report, comparison=CalibratorComparison.skipped(150, "too few"))
    method = reliability(newer).method
    assert method.endswith("calibrator was trained on 450 of them, which flatters it.")
    assert "flatters" not in reliability(report).method


def test_its_numbers_are_those_of_the_report(report: CalibrationReport) -> None:
    rows = list(csv.DictReader(io.StringIO(reliability(report).as_csv())))
    for when, half in (("before", report.before), ("after", report.after)):
        mine = [row for row in rows if row["calibrator"] == when]
        for name in ("confidence", "accuracy", "low", "high"):
            assert tuple(float(row[name]) for row in mine) == getattr(half.reliability, name)


def test_too_few_rows_are_told_with_how_many_it_takes(report: CalibrationReport) -> None:
    few = replace(report, before=half(honest=True, n=12), after=half(honest=True, n=12))
    figure = reliability(few)
    assert figure.svg is None
    assert figure.empty == "It needs at least 200 reviewed documents; there were 12."
    assert [line.name for line in measures(few)] == ["Sent automatically"]


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
    report: CalibrationReport, gain: float, p_value: float, says: str, better: bool | None
) -> None:
    comparison = CalibratorComparison.tested(400, gain, p_value)
    assert comparison.sentence.startswith(f"{says}: the Brier score ")
    brier, *others = measures(replace(report, comparison=comparison))
    assert brier.better is better
    assert len(others) == 3
    assert {one.better for one in others} == {None}
