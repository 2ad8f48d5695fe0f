"""Numbers in, marks out: charts put things where they belong, and run nothing."""

import itertools
import re
from xml.etree import ElementTree as ET

import pytest

from setwise.models.figures.chart import (
    PER_CHARACTER,
    Axis,
    ChartFrame,
    chart,
    percent_ticks,
    round_step,
    round_ticks,
)
from setwise.models.figures.marks import (
    Band,
    Bar,
    Bars,
    Diagonal,
    Intervals,
    LineMark,
    Mark,
    RowsMark,
    RuleMark,
)

# From 52 to 586 across and from 174 up to 18.
FRAME = ChartFrame(Axis(0, 10, [(0, "0"), (10, "10")]), Axis(0, 100, [(50, "half")]), height=200)
LEFT, RIGHT, BOTTOM, TOP = 52.0, 626.0, 174.0, 18.0


def drawn(*marks: Mark, frame: ChartFrame = FRAME, on_right: tuple[Mark, ...] = ()) -> ET.Element:
    return ET.fromstring(chart("it", "A <title>", "What & why", frame, marks, on_right=on_right))


def found(root: ET.Element, tag: str, tone: str) -> list[dict[str, str]]:
    return [one.attrib for one in root.iter(tag) if tone in one.get("class", "").split()]


def places(path: str) -> list[tuple[float, float]]:
    return [(float(a), float(b)) for a, b in re.findall(r"[ML]([\d.]+) ([\d.]+)", path)]


def test_a_chart_is_an_image_with_a_name_and_a_description() -> None:
    image = drawn()[0]
    assert image.get("role") == "img"
    assert image.get("aria-labelledby") == "it-title it-desc"
    named = {one.get("id"): one.text for one in image if one.get("id")}
    assert named == {"it-title": "A <title>", "it-desc": "What & why"}


def test_a_line_goes_through_its_points() -> None:
    (line,) = found(drawn(LineMark([(0, 0), (5, 50), (10, 100)], "good")), "path", "line")
    middle = ((LEFT + RIGHT) / 2, (BOTTOM + TOP) / 2)
    assert places(line["d"]) == [(LEFT, BOTTOM), middle, (RIGHT, TOP)]


def test_what_lies_outside_the_axes_stays_at_the_edge() -> None:
    (line,) = found(drawn(LineMark([(-5, -5), (20, 900)], "good")), "path", "line")
    assert places(line["d"]) == [(LEFT, BOTTOM), (RIGHT, TOP)]


def test_a_band_runs_along_the_top_and_back_along_the_bottom() -> None:
    (band,) = found(drawn(Band([0, 10], [0, 50], [100, 100], "good")), "path", "band")
    assert places(band["d"]) == [(LEFT, TOP), (RIGHT, TOP), (RIGHT, 96.0), (LEFT, BOTTOM)]
    assert band["d"].endswith("Z")


def test_parts_of_a_bar_lie_upon_each_other() -> None:
    bar = Bar(0, 1, [(25, "low"), (0, "none"), (75, "high")], "one & all")
    root = drawn(Bars([bar], gap=0))
    (low,), (high,) = found(root, "rect", "low"), found(root, "rect", "high")
    assert not found(root, "rect", "none")
    assert float(low["y"]) + float(low["height"]) == pytest.approx(BOTTOM)
    assert float(high["y"]) + float(high["height"]) == pytest.approx(float(low["y"]))
    assert float(high["y"]) == pytest.approx(TOP)
    assert float(low["width"]) == pytest.approx((RIGHT - LEFT) / 10, abs=0.06)
    assert "one & all" in [one.text for one in root.iter("title")]


def test_rows_lie_one_below_the_other_with_their_names() -> None:
    frame = ChartFrame(Axis(0, 10, ()), Axis(2, 0, ()), height=200)
    root = drawn(RowsMark(["first", "second"], [[(10, "x")], [(5, "x")]], ["1", "2"]), frame=frame)
    first, second = found(root, "rect", "x")
    assert float(first["y"]) < float(second["y"])
    assert float(first["width"]) == pytest.approx(2 * float(second["width"]))
    assert {one.text for one in root.iter("text")} >= {"first", "second"}


def test_intervals_reach_from_bound_to_bound_around_the_estimate() -> None:
    root = drawn(Intervals([(5, 50, 0, 100)], "good", ["half"]))
    (line,), (dot,) = found(root, "path", "whisker"), found(root, "circle", "dot")
    middle = (LEFT + RIGHT) / 2
    assert places(line["d"]) == [(middle, BOTTOM), (middle, TOP)]
    assert (float(dot["cx"]), float(dot["cy"])) == (middle, (BOTTOM + TOP) / 2)
    lying = drawn(Intervals([(50, 5, 0, 10)], "good", ["half"], lying=True))
    assert places(found(lying, "path", "whisker")[0]["d"]) == [(LEFT, 96.0), (RIGHT, 96.0)]


def test_rules_cross_the_chart_with_their_label_inside() -> None:
    root = drawn(RuleMark(10, "mark", "here"), RuleMark(100, "mark", "top", level=True), Diagonal())
    upright, level, _ = (places(one["d"]) for one in found(root, "path", "rule"))
    assert upright == [(RIGHT, BOTTOM), (RIGHT, TOP)]
    assert level == [(LEFT, TOP), (RIGHT, TOP)]
    labels = {one.text: one.attrib for one in root.iter("text") if "mark" in one.get("class", "")}
    assert labels["here"]["text-anchor"] == "end"
    assert float(labels["here"]["x"]) < RIGHT


def test_a_right_axis_measures_what_is_drawn_on_it() -> None:
    frame = ChartFrame(Axis(0, 10, ()), Axis(0, 1, ()), Axis(0, 8, [(8, "8")], "hours"), height=200)
    root = drawn(LineMark([(0, 1)], "left"), frame=frame, on_right=(LineMark([(0, 8)], "right"),))
    (left,), (right,) = found(root, "path", "left"), found(root, "path", "right")
    assert places(left["d"]) == places(right["d"])
    assert {one.text for one in root.iter("text")} >= {"8", "hours"}


def test_labels_that_would_meet_are_left_out_but_not_the_last() -> None:
    ticks = [(float(n), f"{n} November") for n in range(100)]
    root = drawn(frame=ChartFrame(Axis(0, 99, ticks), Axis(0, 1, ())))
    shown = [one.text for one in root.iter("text")]
    assert shown[-1] == "99 November"
    assert 5 < len(shown) < 12


def test_numbers_at_the_ends_stay_inside_the_picture_and_off_the_strip_of_the_axis() -> None:
    root = drawn(frame=ChartFrame(Axis(0, 1, [(0, "0.00 %"), (1, "100.00 %")]), Axis(0, 1, ())))
    first, last = (
        (float(each.attrib["x"]), len(each.text or "") * PER_CHARACTER / 2)
        for each in root.iter("text")
    )
    assert first[0] - first[1] >= LEFT - 6
    assert last[0] + last[1] <= 640


def test_markup_in_words_stays_words() -> None:
    hostile = '"><script>alert(1)</script>'
    made = chart(hostile, hostile, hostile, FRAME, [RuleMark(1, "x", hostile), LineMark([], "x")])
    assert "<script" not in made
    assert "style=" not in made
    ET.fromstring(made)


@pytest.mark.parametrize(("low", "high"), [(0, 1), (0, 0.0031), (0.43, 1), (0, 123_456), (0, 7)])
def test_ticks_are_round_and_few(low: float, high: float) -> None:
    values = [value for value, _ in round_ticks(low, high)]
    assert 2 <= len(values) <= 8
    assert all(low - 1e-9 <= value <= high + 1e-9 for value in values)
    steps = {round(b - a, 9) for a, b in itertools.pairwise(values)}
    assert len(steps) == 1
    assert round_step(steps.pop()) == round_step((high - low) / 6)


def test_shares_are_written_in_percent() -> None:
    assert percent_ticks(0, 1)[-1] == (1.0, "100 %")


def test_axes_upwards_are_strips_that_readers_of_the_chart_need_not_hear() -> None:
    frame = ChartFrame(
        Axis(0, 10, [(0, "0")]),
        Axis(0, 1, [(1, "all")]),
        Axis(0, 8, [(8, "8")], "hours"),
        width=640,
        height=200,
    )
    image, axes = drawn(frame=frame)
    assert [one.text for one in image.iter("text")] == ["0"]
    left, right = axes
    assert [one.get("aria-hidden") for one in axes] == ["true", "true"]
    assert [one.text for one in left.iter("text")] == ["all"]
    assert {one.text for one in right.iter("text")} == {"8", "hours"}
    for one in axes:
        start, _, width, height = map(float, one.attrib["viewBox"].split())
        assert height == 200
        assert 0 <= start < start + width <= 640
        # At the scale of the chart, whatever its size.
        assert float(one.attrib["width"].removesuffix("%")) == pytest.approx(100 * width / 640)


def test_a_chart_without_numbers_beside_it_has_no_strips() -> None:
    root = drawn(frame=ChartFrame(Axis(0, 10, ()), Axis(2, 0, ())))
    assert [one.tag for one in root] == ["svg"]


def test_the_title_of_an_axis_keeps_away_from_its_highest_number() -> None:
    root = drawn(frame=ChartFrame(Axis(0, 1, ()), Axis(0, 100, [(100, "100")], "documents")))
    heights = {one.text: float(one.attrib["y"]) for one in root.iter("text")}
    assert heights["100"] - heights["documents"] >= 20


def test_large_and_small_numbers_are_written_out() -> None:
    assert round_ticks(0, 2_000_000)[-1] == (2_000_000, "2,000,000")
    assert round_ticks(0, 0.00003)[-1][1] == "0.00003"
    assert percent_ticks(0, 1e-6)[-1][1] == "0.0001 %"
