"""A chart as an SVG file of its own, with its sentence, legend and colours inside."""

import base64
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from markupsafe import Markup, escape

from setwise.models.figures.chart import PER_CHARACTER, ChartFrame, contents
from setwise.models.figures.marks import Mark, element, text

_MARGIN = 16
_LINE = 18
_SWATCH = 12
_BETWEEN = 18
"""Between two entries of a legend."""


@dataclass(frozen=True)
class Picture:
    """An SVG file; notebooks show it.

    Attributes
    ----------
    svg : str
        The whole file. It follows the light or dark scheme of whoever looks at it.
    words : str
        What it says, for those who do not see it.
    """

    svg: str
    words: str

    def save(self, path: str | Path) -> Path:
        """Write the file, and return its path."""
        Path(path).write_text(self.svg, encoding="utf-8")
        return Path(path)

    def _repr_html_(self) -> str:
        # In an image the style sheet reaches nothing else of the notebook.
        content = base64.b64encode(self.svg.encode()).decode()
        return str(
            element("img", src=f"data:image/svg+xml;base64,{content}", alt=self.words, width="656")
        )


def picture(
    title: str,
    sentences: Sequence[str],
    frame: ChartFrame,
    marks: Sequence[Mark],
    legend: Sequence[tuple[str, str]],
) -> Picture:
    """Return a chart below its title, its sentences and a legend of tones with their words."""
    entries = [*_legend(legend, frame.width)]
    rows = 1 + max((row for row, *_ in entries), default=-1)
    head = _MARGIN + 16 + _LINE * (1 + len(sentences))
    top = head + _LINE * rows + 4
    inside, left, right = contents(frame, marks)
    width, height = frame.width + 2 * _MARGIN, top + frame.height + _MARGIN
    words = " ".join(sentences)
    drawn = element(
        "svg",
        element("title", escape(title), id="title"),
        element("desc", escape(words), id="desc"),
        element("style", figures_style()),
        element("rect", x=0, y=0, width=width, height=height, class_="card"),
        text(title, _MARGIN, _MARGIN + 8, "start", "title"),
        *(
            text(sentence, _MARGIN, _MARGIN + 10 + _LINE * (row + 1), "start")
            for row, sentence in enumerate(sentences)
        ),
        *(
            element(
                "g",
                element(
                    "rect", x=x, y=head + _LINE * row - 10, width=_SWATCH, height=10, class_="piece"
                ),
                text(label, x + _SWATCH + 6, head + _LINE * row, "start"),
                class_=tone,
            )
            for row, x, tone, label in entries
        ),
        element("g", *inside, *left.words, *right.words, transform=f"translate({_MARGIN} {top})"),
        xmlns="http://www.w3.org/2000/svg",
        class_="chart",
        viewBox=f"0 0 {width} {height}",
        width=width,
        height=height,
        role="img",
        aria_labelledby="title desc",
    )
    return Picture(f"{drawn}\n", words)


def _legend(
    legend: Sequence[tuple[str, str]], width: float
) -> Iterator[tuple[int, float, str, str]]:
    """Yield each entry with its row and place; what finds no room begins a row."""
    row, x = 0, float(_MARGIN)
    for tone, label in legend:
        wide = _SWATCH + 6 + PER_CHARACTER * len(label) + _BETWEEN
        if x > _MARGIN and x + wide > width:
            row, x = row + 1, float(_MARGIN)
        yield row, x, tone, label
        x += wide


@cache
def figures_style() -> Markup:
    """Return the style sheet of the charts: their marks, and colours for light, dark and print."""
    sheets = (Path(__file__).with_name(name) for name in ("figures.css", "marks.css"))
    return Markup("".join(sheet.read_text("utf-8") for sheet in sheets))  # noqa: S704 -- ours
