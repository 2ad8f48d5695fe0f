"""Writes `benchmarks/RESULTS.md` from the rows of `benchmarks/results/`.

    python -m benchmarks.results [--check]

`results/sections.toml` has the questions, which columns of which table answer them, and what the
answers mean; its figures are read from the rows too, so that a sentence cannot outlive a table.
``--check`` writes nothing: it fails if the page differs from the rows, a row of learning is older
than the code that it measures, or the page is too long.
"""

import argparse
import re
import sys
import tomllib
from collections.abc import Iterable
from fnmatch import fnmatchcase
from functools import cache
from statistics import mean
from typing import Any

from benchmarks.rows import ROOT, TABLES, Figure, Row, read

PAGE = ROOT / "benchmarks" / "RESULTS.md"
MOST_WORDS = 3000
_FIGURE = re.compile(r"\{([^{}|]+)\|([^{}|]+)\|([^{}|:]+)(?::([^{}]*))?\}")


def figure_text(figure: Figure, spec: str = "") -> str:
    """Return a figure as the page shows it, a share without the zero before its point.

    Examples
    --------
    >>> figure_text(0.25, ".3f"), figure_text(-0.5, "+.1f"), figure_text(12.0, ".1f")
    ('.250', '-.5', '12.0')
    >>> figure_text("1 of 9"), figure_text(0.085, ".1%")
    ('1 of 9', '8.5 %')
    """
    shown = figure if isinstance(figure, str) else format(figure, spec).replace("%", " %")
    return re.sub(r"(?<![\d.])0(?=\.\d)", "", shown)


@cache
def rows_of(table: str) -> dict[str, Row]:
    """Return the rows of a table by subject; figures are means over its seeds."""
    seeds: dict[str, list[Row]] = {}
    for row in read(table):
        seeds.setdefault(row.subject, []).append(row)
    return {subject: _mean(rows) for subject, rows in seeds.items()}


def _mean(rows: list[Row]) -> Row:
    first = rows[0]
    figures = {
        name: mean(float(row.figures[name]) for row in rows) if isinstance(value, float) else value
        for name, value in first.figures.items()
    }
    return Row(**{**vars(first), "figures": figures})


def filled(text: str) -> str:
    """Return a text with the figures that it names as ``{table|subject|column:format}``."""
    return _FIGURE.sub(
        lambda name: figure_text(rows_of(name[1])[name[2]].figures[name[3]], name[4] or ""), text
    )


def _table(section: dict[str, Any]) -> list[str]:
    """Return the lines of a section's table, and where its figures come from."""
    rows = _chosen(rows_of(section["table"]).values(), section.get("rows", ["*"]))
    columns = section.get("columns") or [[name, f"{{{name}}}"] for name in rows[0].figures]
    heads = [section.get("head", ""), *(head for head, _ in columns)]
    lines = [f"| {' | '.join(heads)} |", "|" + "---|" * len(heads)]
    for row in rows:
        cells = [_cell(template, row) for _, template in columns]
        lines.append(f"| {' | '.join([row.subject, *cells])} |")
    return [*lines, "", _origin(section["table"], rows)]


def _chosen(rows: Iterable[Row], patterns: list[str]) -> list[Row]:
    return [row for row in rows if any(fnmatchcase(row.subject, one) for one in patterns)]


def _cell(template: str, row: Row) -> str:
    """Return a template with figures as ``{column}`` or ``{column:format}``."""

    def figure(name: re.Match[str]) -> str:
        return figure_text(row.figures.get(name[1], ""), name[2] or "")

    return re.sub(r"\{([^{}:]+)(?::([^{}]*))?\}", figure, template).strip(" /")


def _origin(table: str, rows: list[Row]) -> str:
    commits = sorted({row.commit for row in rows})
    days = sorted({row.measured_at for row in rows})
    when = days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"
    seeds = sorted({row.seed for row in rows if row.seed is not None})
    seed = f", seed {', '.join(map(str, seeds))}" if seeds else ""
    return f"*[{table}](results/{table}.jsonl): {when}, commit {', '.join(commits)}{seed}.*"


def page() -> str:
    """Return the page that the rows give."""
    plan = tomllib.loads((TABLES / "sections.toml").read_text("utf-8"))
    parts = [f"# Results\n\n{filled(plan['opening'].strip())}"]
    for section in plan["section"]:
        lines = [f"## {section['title']}", "", filled(section["question"].strip())]
        if "table" in section:
            lines += ["", *_table(section)]
        if "meaning" in section:
            lines += ["", filled(section["meaning"].strip())]
        parts.append("\n".join(lines))
    return "\n\n".join(parts) + "\n"


def outdated() -> list[str]:
    """Return a line for each row of learning that is older than the code it measures."""
    lines = []
    for file in sorted(TABLES.glob("*.jsonl")):
        for row in read(file.stem):
            if changed := row.outdated():
                paths = ", ".join(changed)
                lines.append(f"{file.name}: {row.subject}: {paths} changed since; {row.command}")
    return lines


def faults() -> list[str]:
    """Return what is wrong with the page and its rows."""
    text = page()
    found = outdated()
    if PAGE.read_text("utf-8") != text:
        found.append("RESULTS.md differs from its rows: python -m benchmarks.results")
    if len(text.split()) > MOST_WORDS:
        found.append(f"RESULTS.md has {len(text.split())} words, at most {MOST_WORDS}")
    return found


def main() -> None:
    """Write the page, or check it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true")
    if parser.parse_args().check:
        sys.exit("\n".join(faults()) or 0)
    PAGE.write_text(page(), "utf-8")


if __name__ == "__main__":
    main()
