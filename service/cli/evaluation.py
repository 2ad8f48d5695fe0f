"""``evaluate``: test a model on documents that it has not seen, and report on it."""

# ruff: noqa: PLC0415 - numpy and scikit-learn import slowly: only where needed

import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from setwise.service.cli.console import (
    AsJson,
    CommandError,
    four_digits,
    note,
    print_json,
    print_table,
    progress,
    say,
    written_whole,
)
from setwise.service.cli.learning import (
    FormatName,
    LabelColumns,
    LabelsColumn,
    LabelSeparator,
    TextColumn,
    layout_learnt,
    layout_of,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.table import Table

    from setwise.models.data.datasets import Dataset
    from setwise.models.data.formats.layout import FileLayout
    from setwise.models.evaluation.metrics import Metrics
    from setwise.models.predictor import SetPredictor

commands = typer.Typer()

_FEW = 50
"""Documents below which figures say little."""


@commands.command()
def evaluate(
    artifact: Annotated[
        Path, typer.Argument(metavar="ARTIFACT", help="Folder that `setwise train` wrote.")
    ],
    data: Annotated[
        Path,
        typer.Argument(metavar="DATA", help="A file as for train, or a folder with a test file."),
    ],
    *,
    format_: FormatName = None,
    text_column: TextColumn = None,
    labels_column: LabelsColumn = None,
    label_column: LabelColumns = None,
    label_separator: LabelSeparator = None,
    labels: Annotated[
        bool, typer.Option("--labels", help="Show each label: precision, recall, errors.")
    ] = False,
    report: Annotated[
        Path | None, typer.Option(metavar="FILE.html", help="Also write a report to look at.")
    ] = None,
    compare: Annotated[
        Path | None,
        typer.Option(metavar="ARTIFACT", help="Another model, to compare on the same documents."),
    ] = None,
    target: Annotated[
        float, typer.Option(help="Accuracy that the report proves for what is sent.")
    ] = 0.95,
    as_json: AsJson = False,
) -> None:
    """Test a model on documents that it has not seen."""
    from setwise.models.evaluation.report.comparison import compare_models
    from setwise.models.evaluation.report.page import report as report_on
    from setwise.models.storage.artifacts import load

    layout = layout_of(format_, text_column, (labels_column, label_column), label_separator)
    predictor = load(artifact)
    other = None if compare is None else load(compare)
    dataset = _read(data, predictor, layout, text_is_named=text_column is not None)
    with progress("evaluate") as shown:
        made = report_on(
            predictor,
            dataset,
            compare=other,
            target=target,
            names=_names(artifact, compare),
            command=shlex.join(["setwise", *sys.argv[1:]]),
            progress=shown,
        )
    if report is not None:
        with written_whole(report) as file:
            file.write(made.html)
    metrics = made.findings[0].metrics
    if metrics.n < _FEW:
        note(
            f"{metrics.n} documents say little: with 90 % certainty, "
            f"{metrics.set_accuracy_low:.0%} to {metrics.set_accuracy_high:.0%} of the label sets "
            f"are right; evaluate on {_FEW} or more"
        )
    both = None if other is None else compare_models(*made.findings)
    if as_json:
        shown_metrics = metrics if labels else replace(metrics, labels=None)
        comparison = {} if both is None else {"comparison": both.sentence}
        print_json({**shown_metrics.to_json(), **comparison})
        return
    print_table(_metrics_table(metrics))
    print_table(_automation_table(metrics))
    say(f"\nThe confidence: {metrics.judgement}")
    if labels:
        say(f"\n{metrics.labels}")
    if both is not None:
        print_table(_table(("", *(each.name for each in made.findings)), both.rows))
        say(both.sentence)


def _read(
    data: Path, predictor: "SetPredictor", layout: "FileLayout", *, text_is_named: bool
) -> "Dataset":
    from setwise.models.data.dataset_files import data_file, read_dataset
    from setwise.models.data.formats.reading import fitting_layout

    file = data_file(data, "test")
    layout = fitting_layout(file, layout, layout_learnt(predictor), text_is_named=text_is_named)
    with progress("read") as shown:
        dataset = read_dataset(
            file,
            label_names=predictor.label_names,
            feature_names=predictor.feature_names if predictor.kind == "vectors" else None,
            layout=layout,
            external=predictor.kind == "external",
            numbers=predictor.numbers,
            progress=shown,
        )
    if dataset.kind != predictor.kind:
        raise CommandError(f"{data}: holds {dataset.kind}, but the model takes {predictor.kind}")
    return dataset


def _names(artifact: Path, compare: Path | None) -> tuple[str, str]:
    """Return the names of two artifacts; their paths if they end alike."""
    if compare is None or artifact.name != compare.name:
        return artifact.name, "" if compare is None else compare.name
    return str(artifact), str(compare)


def _table(heads: "Sequence[str]", rows: "Sequence[Sequence[str]]") -> "Table":
    from rich.table import Table

    table = Table(*heads, box=None)
    for row in rows:
        table.add_row(*row)
    return table


def _metrics_table(metrics: "Metrics") -> "Table":
    rows = [
        (name, four_digits(value))
        for name, value in metrics.to_json().items()
        if isinstance(value, int | float)
    ]
    for name in ("auroc", "aurc", "ece"):
        estimate = getattr(metrics.judgement, name)
        rows.append((name, four_digits(None if estimate is None else estimate.value)))
    return _table(("metric", "value"), rows)


def _automation_table(metrics: "Metrics") -> "Table":
    heads = ("target accuracy", "threshold", "coverage", "accuracy", "at least (95 %)")
    points = (
        (point.target, point.threshold, point.coverage, point.accuracy, point.accuracy_low)
        for point in metrics.automation
    )
    return _table(heads, [tuple(map(four_digits, point)) for point in points])
