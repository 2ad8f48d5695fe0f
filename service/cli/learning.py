"""Commands for models on disk: ``train``, ``predict``."""

# ruff: noqa: PLC0415 - numpy, scikit-learn and xgboost import slowly: only where needed

import json
import os
import sys
import time
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from setwise.service.cli.cluster import EngineName, Scheduler, cluster_of, trained_on
from setwise.service.cli.console import (
    AsJson,
    CommandError,
    four_digits,
    note,
    print_json,
    print_table,
    progress,
)
from setwise.service.cli.targets import (
    refuse_ending,
    refuse_folder,
    refuse_inputs,
    written_whole,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rich.table import Table

    from setwise.models.data.formats.layout import FileLayout
    from setwise.models.data.lines import Progress
    from setwise.models.options import TrainingOptions
    from setwise.models.predictor import SetPredictor

commands = typer.Typer()

Name = TypeVar("Name", bound=str)

FormatName = Annotated[
    str | None,
    typer.Option(
        "--format",
        help="jsonl, huggingface, csv, parquet, label-studio, text (one document), svm, xc "
        "(Extreme Classification), arff or npz; by default, as the file's name ends.",
    ),
]
TextColumn = Annotated[
    str | None,
    typer.Option(
        help="Column of the documents in CSV, Parquet and other tables; by default as in training, "
        "or text."
    ),
]
LabelsColumn = Annotated[
    str | None,
    typer.Option(
        help="Column of each document's labels; by default as in training, or labels, or one "
        "column a label if there is none."
    ),
]
LabelColumns = Annotated[
    list[str] | None,
    typer.Option(help="Column of one label, which holds 0 or 1; repeatable."),
]
LabelSeparator = Annotated[
    str | None,
    typer.Option(help="Separator of the labels in a cell of the labels column; by default ;."),
]


@commands.command()
def train(
    data: Annotated[
        Path,
        typer.Argument(
            metavar="DATA",
            help="A .jsonl, .csv, .parquet, .svm, .xc.txt, .arff or .npz file, plain or gzipped, "
            "or a folder with a train file.",
        ),
    ],
    *,
    out: Annotated[Path, typer.Option(help="Folder to write the model to.")],
    method: Annotated[
        str,
        typer.Option(
            help="br or cbm: binary relevance or a conditional Bernoulli mixture; br-rerank or "
            "cbm-rerank: the same with reranked candidates."
        ),
    ] = "br-rerank",
    preset: Annotated[
        str,
        typer.Option(
            help="fast trains in seconds and predicts in microseconds; best spends minutes, and "
            "milliseconds a document, for the most accurate sets; paper is the published method."
        ),
    ] = "best",
    optimize: Annotated[
        str,
        typer.Option(
            help="Metric to optimize: set-accuracy, f1 (of each document), hamming, micro-f1 or "
            "macro-f1. The confidence is always that of the whole set being right."
        ),
    ] = "set-accuracy",
    labels_by: Annotated[
        str,
        typer.Option(
            help="each: one classifier for each label; clusters: cheaper training for thousands of "
            "labels, by clusters of them."
        ),
    ] = "each",
    texts_by: Annotated[
        str,
        typer.Option(
            help="words, or characters: also runs of characters inside words, for short or "
            "misspelt texts."
        ),
    ] = "words",
    experts: Annotated[
        str,
        typer.Option(
            help="Of a mixture: linear, or boosted: trees, slow, for few labels and features that "
            "interact."
        ),
    ] = "linear",
    seed: Annotated[
        int, typer.Option(help="Random seed; equal seeds give equal models.", min=0)
    ] = 0,
    noise: Annotated[
        str | None,
        typer.Option(
            metavar="FILE|estimate",
            help="Annotators' error rates: a JSON file with, for each annotator, alpha, the chance "
            "that their set differs from a right prediction, and beta, that it equals a wrong one "
            '(0 by default); "*" is for all others. Or estimate, from documents that several '
            "annotators labelled or that --gold decides.",
        ),
    ] = None,
    gold: Annotated[
        Path | None,
        typer.Option(
            help="JSON Lines with id and labels: the true labels of some documents. Without "
            "--noise, error rates are estimated."
        ),
    ] = None,
    jobs: Annotated[int | None, typer.Option(help="Cores to use; all by default.", min=1)] = None,
    engine: EngineName = "local",
    scheduler: Scheduler = None,
    format_: FormatName = None,
    text_column: TextColumn = None,
    labels_column: LabelsColumn = None,
    label_column: LabelColumns = None,
    label_separator: LabelSeparator = None,
    least_documents: Annotated[
        int,
        typer.Option(
            min=1,
            help="Of the service's export: leave out documents with a label that fewer of them "
            "have, such as a misspelt one. By default all are learnt.",
        ),
    ] = 1,
    external: Annotated[
        bool,
        typer.Option(
            "--external",
            help="Learn from another model's answers: each line or row also has scores, candidates "
            "or answer, and text is optional. The other model must not have been trained on these "
            "documents.",
        ),
    ] = False,
    number: Annotated[
        list[str] | None,
        typer.Option(
            help="With --external: a number in the metadata, or a column, that may improve the "
            "confidence; repeatable."
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing model.")] = False,
    as_json: AsJson = False,
) -> None:
    """Train a model on labelled documents."""
    out = Path(os.path.realpath(out))
    _check_target(out, force=force)
    refuse_folder(out, [data, gold, noise])
    from setwise.models.calibration.several_answers import settle
    from setwise.models.data.dataset_files import check_trainable, read_dataset
    from setwise.models.data.documents import read_gold
    from setwise.models.evaluation.metrics import training_remark
    from setwise.models.storage.artifacts import save
    from setwise.models.training import train as fit

    if number and not external:
        raise CommandError("--number needs --external")
    options = _options(
        method,
        preset,
        optimize,
        labels_by=labels_by,
        texts_by=texts_by,
        experts=experts,
        seed=seed,
        jobs=jobs,
    )
    cluster = cluster_of(engine, scheduler, jobs)
    layout = layout_of(format_, text_column, (labels_column, label_column), label_separator)
    layout = replace(layout, least_documents=least_documents)
    started_at = time.perf_counter()
    with progress("read") as report:
        noisy = noise is not None or gold is not None
        dataset = read_dataset(
            data,
            "train",
            layout=layout,
            external=external,
            numbers=number or (),
            several=noisy and not external,
            progress=report,
        )
    if noisy:
        rates = None if noise in {None, "estimate"} else _rates(Path(str(noise)))
        dataset, rates_used = settle(dataset, {} if gold is None else read_gold(gold), rates)
        options = replace(options, noise=rates_used)
    check_trainable(dataset, data)
    with progress("train") as report, trained_on(cluster):
        predictor = fit(dataset, options, progress=report)
    about = {**predictor.manifest["data"], "layout": layout.as_json()}
    predictor = replace(predictor, manifest={**predictor.manifest, "data": about})
    out.parent.mkdir(parents=True, exist_ok=True)
    save(predictor, out, overwrite=force)
    summary = {
        "artifact": str(out),
        "method": method,
        "preset": preset,
        "optimize": optimize,
        "n": dataset.n,
        "n_labels": len(dataset.label_names),
        "n_features": len(predictor.feature_names),
        "seconds": round(time.perf_counter() - started_at, 3),
        "model_version": predictor.version,
        "calibrator_version": predictor.calibrator_version,
        "metrics": predictor.manifest.get("metrics", {}),
    }
    if as_json:
        print_json(summary)
    else:
        print_table(_training_table(summary))
    if remark := training_remark(predictor.manifest.get("metrics", {})):
        note(f"setwise: warning: {remark}")


def _options(
    method: str,
    preset: str,
    optimize: str,
    *,
    labels_by: str,
    texts_by: str,
    experts: str,
    seed: int,
    jobs: int | None,
) -> "TrainingOptions":
    from setwise.models.options import (
        EXPERTS,
        LABELS_BY,
        METHODS,
        PRESETS,
        TEXTS_BY,
        TrainingOptions,
    )
    from setwise.models.sets.decisions import OBJECTIVES

    return TrainingOptions(
        method=one_of(METHODS, method, "method"),
        preset=one_of(tuple(PRESETS), preset, "preset"),
        optimize=one_of(OBJECTIVES, optimize, "objective"),
        labels_by=one_of(LABELS_BY, labels_by, "label scoring"),
        texts_by=one_of(TEXTS_BY, texts_by, "text reading"),
        experts=one_of(EXPERTS, experts, "experts"),
        seed=seed,
        n_jobs=jobs,
    )


def layout_of(
    format_: str | None,
    text_column: str | None,
    labels: tuple[str | None, list[str] | None] = (None, None),
    label_separator: str | None = None,
) -> "FileLayout":
    """Return what the options say of a file."""
    from setwise.models.data.formats.layout import FORMATS, FileLayout

    column, columns = labels
    return FileLayout(
        format=None if format_ is None else one_of(FORMATS, format_, "format"),
        text_column="text" if text_column is None else text_column,
        labels_column=column,
        label_columns=tuple(columns or ()),
        label_separator=label_separator,
    )


def layout_learnt(predictor: "SetPredictor") -> "FileLayout":
    """Return what the options said of the file that a model learnt from."""
    from setwise.models.data.formats.layout import FileLayout

    return FileLayout.from_json((predictor.manifest.get("data") or {}).get("layout"))


def _rates(file: Path) -> dict[str, object]:
    """Return the noise rates in a file, checked."""
    from setwise.models.calibration.noisy_history import checked_noise
    from setwise.models.data.json_lines import read_json
    from setwise.models.data.lines import DataError

    example = 'give an object such as {"*": {"alpha": 0.2}}'
    rates = read_json(file, example)
    if not isinstance(rates, dict):
        raise DataError(file, None, "there are no rates", example)
    try:
        checked_noise(rates)
    except ValueError as error:
        raise CommandError(f"{file}: {error}") from error
    return rates


def one_of(known: tuple[Name, ...], choice: str, what: str) -> Name:
    """Return the name that an option gives; raises `CommandError` if it is unknown."""
    for name in known:
        if name == choice:
            return name
    raise CommandError(f"unknown {what} {choice!r}; the {what}s are {', '.join(known)}")


_SHOWN = ("set_accuracy", "instance_f1", "micro_f1", "macro_f1", "hamming_loss", "brier")
"""Metrics that people see after training; ``--json`` and `evaluate` have all of them."""


def _training_table(summary: dict[str, object]) -> "Table":
    from rich.table import Table

    table = Table(show_header=False, box=None)
    metrics = summary["metrics"]
    for name, value in summary.items():
        if name != "metrics":
            table.add_row(name, str(value))
    corrected = metrics.get("corrected") if isinstance(metrics, dict) else None
    for title, figures in (("cross-fitted", metrics), ("corrected for noise:", corrected)):
        known = figures if isinstance(figures, dict) else {}
        for name in _SHOWN:
            if isinstance(value := known.get(name), int | float):
                table.add_row(f"{title} {name}", four_digits(value))
    return table


def _check_target(out: Path, *, force: bool) -> None:
    """Refuse, before any work, a target that exists or is not writable."""
    from setwise.models.storage.sealed_folder import MANIFEST

    if out.is_dir() and any(out.iterdir()):
        if not (out / MANIFEST).is_file():
            raise CommandError(f"{out}: the folder holds other files; name a new or empty folder")
        if not force:
            raise CommandError(f"{out}: an artifact is there already; add --force to replace it")
    elif out.is_symlink():
        raise CommandError(f"{out}: this link leads to itself; name a folder")
    elif out.exists() and not out.is_dir():
        raise CommandError(f"{out}: this is a file; name a folder")
    existing = next(folder for folder in out.parents if folder.exists())
    try:
        # As the model will be written: under a longer name first, beside its folder.
        with TemporaryDirectory(prefix=f".{out.name}.setwise", dir=existing):
            pass
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise CommandError(
            f"{out}: cannot be written in {existing} ({reason}); name another folder"
        ) from error


@commands.command()
def predict(
    artifact: Annotated[
        Path, typer.Argument(metavar="ARTIFACT", help="Folder that `setwise train` wrote.")
    ],
    documents: Annotated[
        str | None,
        typer.Argument(
            metavar="INPUT",
            help="A file as for train, labelled or not, a .txt file, or a folder of them; - for "
            "stdin (JSON Lines).",
        ),
    ] = None,
    *,
    text: Annotated[
        str | None, typer.Option(help="The text of one document, in place of INPUT.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="File to write: JSON Lines, or a table if it ends in .csv or .parquet; stdout by "
            "default."
        ),
    ] = None,
    top: Annotated[
        int, typer.Option(help="Candidate sets to print for each document.", min=1)
    ] = 10,
    format_: FormatName = None,
    text_column: TextColumn = None,
    jobs: Annotated[int | None, typer.Option(help="Cores to use; all by default.", min=1)] = None,
    engine: EngineName = "local",
    scheduler: Scheduler = None,
    spreadsheet: Annotated[
        bool,
        typer.Option(
            "--spreadsheet",
            help="In CSV, write an apostrophe before ids that a spreadsheet would run as formulas.",
        ),
    ] = False,
) -> None:
    """Predict label sets for a file of documents, or for one text."""
    from joblib import cpu_count

    from setwise.models.data.formats.reading import document_lines, fitting_layout
    from setwise.models.storage.artifacts import load
    from setwise.service.cli.prediction_files import ENDINGS, write_predictions
    from setwise.service.cli.prediction_lines import dask_workers, forks, predicted_lines

    if (documents is None) is (text is None):
        raise CommandError("name a file of documents, or give one --text")
    if out is not None:
        refuse_inputs(out, [artifact, documents])
        refuse_ending(out, *ENDINGS)
    documents = "--text" if documents is None else documents
    if scheduler is not None and jobs is not None:
        raise CommandError("--jobs starts workers here; --scheduler has its own, so leave it out")
    cores = jobs or int(cpu_count())
    cluster = cluster_of(engine, scheduler, cores)
    layout = layout_of(format_, text_column)
    predictor = load(artifact)
    if text is None:
        learnt = layout_learnt(predictor)
        layout = fitting_layout(documents, layout, learnt, text_is_named=text_column is not None)
    numbers = predictor.numbers if predictor.kind == "external" else None
    processes = forks(cores) if cluster is None else dask_workers(cluster)
    inputs = [artifact, documents if text is None else None]

    def predictions(report: "Progress | None" = None) -> "Iterator[bytes]":
        lines: Iterable[tuple[int, bytes]] = [(1, json.dumps({"text": text}).encode())]
        if text is None:
            lines = document_lines(documents, layout, numbers=numbers, progress=report)
        return predicted_lines(predictor, documents, lines, top, processes)

    if out is None:
        refuse_inputs(Path("/dev/stdout"), inputs)
        sys.stdout.buffer.writelines(predictions())
        return
    with written_whole(out, inputs) as file, progress("predict") as report:
        write_predictions(out, file.buffer, predictions(report), guarded=spreadsheet)
