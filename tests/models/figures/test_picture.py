"""A chart in a file of its own: nothing is missing in it, and words stay words."""

from xml.etree import ElementTree as ET

from setwise.models.figures.chart import Axis, ChartFrame
from setwise.models.figures.marks import LineMark
from setwise.models.figures.picture import picture

SVG = "{http://www.w3.org/2000/svg}"
FRAME = ChartFrame(Axis(0, 1, [(1, "one")], "across"), Axis(0, 1, [(1, "all")], "up"))


def test_the_file_has_its_colours_axes_and_legend_and_loads_nothing(tmp_path):
    made = picture("Why <b>?", ["Because & so."], FRAME, [LineMark([(0, 0)], "x")], [("x", "it")])
    svg = made.save(tmp_path / "it.svg").read_text("utf-8")
    root = ET.fromstring(svg)
    words = {each.text for each in root.iter(f"{SVG}text")}
    assert words == {"Why <b>?", "Because & so.", "it", "one", "across", "all", "up"}
    (style,) = root.iter(f"{SVG}style")
    assert "prefers-color-scheme: dark" in style.text
    for address in ("href", "src=", "url(", "<script", "@import"):
        assert address not in svg


def test_entries_of_a_legend_that_find_no_room_begin_a_row():
    entries = [("x", f"entry {n} " + "long " * 10) for n in range(4)]
    root = ET.fromstring(picture("It", [], FRAME, [], entries).svg)
    places = [
        (float(each.get("x")), float(each.get("y")))
        for each in root.iter(f"{SVG}text")
        if each.text.startswith("entry")
    ]
    assert len({y for _, y in places}) > 1
    assert len(set(places)) == len(places)
    _, _, width, height = map(float, root.get("viewBox").split())
    assert all(x < width and y < height for x, y in places)
