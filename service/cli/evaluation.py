"""``evaluate``: test a model on documents that it has not seen, and report on it."""

# ruff: noqa: PLC0415 - numpy and scikit-learn import slowly: only where needed

import shlex
import sys
import warnings
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from setwise.service.cli.console import (
    AsJson,
    CommandError,
    check_share,
    four_digits,
    note,
    print_json,
    print_table,
    progress,
    say,
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
from setwise.service.cli.targets import refuse_ending, refuse_inputs, written_whole

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.table import Table

    from setwise.models.data.datasets import Dataset
    from setwise.models.data.formats.layout import FileLayout
    from setwise.models.evaluation.metrics import Metrics
    from setwise.models.predictor import SetPredictor

commands = typer.Typer()


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
    target: Annotated[float, typer.Option(help="Accuracy to prove for what is sent.")] = 0.95,
    by: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="In the report, also figures for each value of this column or metadata; may be "
            "repeated.",
        ),
    ] = None,
    trained_on: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="What the model learnt from: documents of it are found again. By default the "
            "training file of the folder DATA.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Test a model on documents that it has not seen."""
    from setwise.models.data.dataset_files import data_file
    from setwise.models.data.lines import DataWarning
    from setwise.models.evaluation.report.comparison import compare_models
    from setwise.models.evaluation.report.opening import two_thresholds, verdict
    from setwise.models.evaluation.report.page import report as report_on
    from setwise.models.storage.artifacts import load

    layout = layout_of(format_, text_column, (labels_column, label_column), label_separator)
    check_share("--target", target)
    inputs = [artifact, data, compare, trained_on]
    if report is not None:
        refuse_inputs(report, inputs)  # before any work
        refuse_ending(report, ".html", ".htm")
    predictor = load(artifact)
    other = None if compare is None else load(compare)
    named = text_column is not None
    file = data_file(data, "test")
    learnt = trained_on or (data_file(data, "train") if data.is_dir() else None)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", DataWarning)
        dataset = _read(file, predictor, layout, text_is_named=named)
    with warnings.catch_warnings(action="ignore", category=DataWarning):
        before = None if learnt is None else _read(learnt, predictor, layout, text_is_named=named)
    for warning in told:
        warnings.warn_explicit(
            warning.message, warning.category, warning.filename, warning.lineno, registry={}
        )
    with progress("evaluate") as shown:
        made = report_on(
            predictor,
            dataset,
            compare=other,
            target=target,
            names=_names(artifact, compare),
            by={name: _values(file, layout, name) for name in by or ()},
            trained_on=before,
            data=file.name,
            warnings=[str(warning.message) for warning in told],
            command=shlex.join(["setwise", *sys.argv[1:]]),
            progress=shown,
        )
    if report is not None:
        with written_whole(report, inputs) as out:
            out.write(made.html)
    found = made.findings[0]
    metrics = found.metrics
    for remark in found.remarks:
        note(remark)
    both = None if other is None else compare_models(*made.findings)
    if as_json:
        shown_metrics = metrics if labels else replace(metrics, labels=None)
        comparison = {} if both is None else {"comparison": both.sentence}
        print_json({**shown_metrics.to_json(), **comparison})
        return
    print_table(_metrics_table(metrics))
    print_table(_automation_table(metrics))
    say(two_thresholds(found.measured, found.proof))
    for sentence in verdict(found):
        say(sentence)
    say(f"\nThe confidence: {metrics.judgement}")
    if labels:
        say(f"\n{metrics.labels}")
    if both is not None:
        print_table(_table(("", *(each.name for each in made.findings)), both.rows))
        say(both.sentence)


def _read(
    file: Path, predictor: "SetPredictor", layout: "FileLayout", *, text_is_named: bool
) -> "Dataset":
    from setwise.models.data.dataset_files import read_dataset
    from setwise.models.data.formats.reading import fitting_layout

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
        raise CommandError(f"{file}: holds {dataset.kind}, but the model takes {predictor.kind}")
    return dataset


def _values(file: Path, layout: "FileLayout", name: str) -> list[object]:
    """Return what each row of a table, or its metadata, says under a name."""
    from setwise.models.data.formats.tables import table_rows

    rows = [row for _, row in table_rows(file, layout)]
    values = []
    for row in rows:
        metadata = row.get("metadata")
        inside = metadata if isinstance(metadata, dict) else {}
        values.append(row.get(name, inside.get(name)))
    if all(value is None for value in values):
        raise CommandError(f"{file}: no document has {name!r}; name a column or metadata for --by")
    return values


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
