"""Compares methods on data sets with several seeds, beside published results.

    python -m benchmarks.papers --data FOLDER [--methods br,crf] [--seeds 3] [--json FILE]

``--methods`` takes what `setwise train` offers and what the papers compare (see
`benchmarks.papers.baselines.registry`); ``NAME-rerank`` puts the set calibrator on top of those.
"""

import json
import platform
import sys
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated, NamedTuple

import typer
from joblib import cpu_count
from rich.table import Table

from benchmarks.papers.baselines.registry import PAPER_METHODS, names
from benchmarks.papers.baselines.running import check_objective, run_paper_method
from benchmarks.papers.published import PublishedResult, published_results
from benchmarks.papers.runs import Progress, Run, random_split, run_method, summarise
from setwise.models.data.dataset_files import check_trainable, read_dataset
from setwise.models.data.datasets import Dataset
from setwise.models.options import METHODS, PRESETS, Preset, TrainingOptions
from setwise.models.sets.decisions import OBJECTIVES, Objective
from setwise.service.cli.console import (
    CommandError,
    Report,
    note,
    one_line,
    print_table,
    progress,
)
from setwise.service.cli.learning import Name, one_of
from setwise.service.cli.targets import written_whole

# Metric in the JSON, column header, and the unit of the table's numbers.
_COLUMNS = (
    ("set_accuracy", "set acc %", 0.01),
    ("instance_f1", "F1 %", 0.01),
    ("instance_jaccard", "Jaccard %", 0.01),
    ("hamming_loss", "Hamming %", 0.01),
    ("micro_f1", "micro F1 %", 0.01),
    ("macro_f1", "macro F1 %", 0.01),
    ("precision_at_1", "P@1 %", 0.01),
    ("map", "MAP %", 0.01),
    ("oracle_accuracy", "oracle %", 0.01),
    ("brier", "Brier %", 0.01),
    ("uncertainty", "uncert. %", 0.01),
    ("sharpness", "sharp. %", 0.01),
    ("alignment_error", "align. %", 0.01),
    ("train_seconds", "train s", 1.0),
    ("train_cpu_seconds", "CPU s", 1.0),
    ("predict_seconds", "predict s", 1.0),
)


class Split(StrEnum):
    """The documents to test on."""

    GIVEN = "given"
    RANDOM = "random"


@dataclass
class DatasetResults:
    """Results of a data set so far."""

    name: str
    n_train: int = 0
    n_test: int = 0
    n_labels: int = 0
    runs: list[Run] = field(default_factory=list)
    error: str | None = None

    def rows(self) -> dict[str, list[Run]]:
        """Return the runs by method, in order of first appearance."""
        rows: dict[str, list[Run]] = {}
        for run in self.runs:
            rows.setdefault(run.method, []).append(run)
        return rows


class _Planned(NamedTuple):
    """One row of the table with one seed."""

    method: str  # of `METHODS`, or of the papers
    preset: Preset
    optimize: Objective
    seed: int
    n_jobs: int | None
    bootstrap: int

    def run(self, train_part: Dataset, test_part: Dataset, report: Progress) -> Iterator[Run]:
        """Train and evaluate it, and what is derived from it."""
        options = TrainingOptions(
            preset=self.preset, optimize=self.optimize, seed=self.seed, n_jobs=self.n_jobs
        )
        for method in METHODS:
            if method == self.method:
                options = replace(options, method=method)
                return run_method(train_part, test_part, options, report, bootstrap=self.bootstrap)
        return run_paper_method(
            self.method, train_part, test_part, options, report, bootstrap=self.bootstrap
        )


def compare(
    *,
    data: Annotated[
        Path, typer.Option(help="A data set folder, or a folder of such folders.", metavar="DIR")
    ],
    datasets: Annotated[
        str | None, typer.Option(help="Data sets, separated by commas; all by default.")
    ] = None,
    methods: Annotated[
        str,
        typer.Option(help="Methods, separated by commas; also the papers' own."),
    ] = "br,br-rerank,cbm,cbm-rerank",
    preset: Annotated[
        str, typer.Option(help="Presets, separated by commas: paper, fast, best.")
    ] = "best",
    optimize: Annotated[
        str,
        typer.Option(
            help="Objectives, separated by commas: set-accuracy, f1, hamming, micro-f1, macro-f1."
        ),
    ] = "set-accuracy",
    seeds: Annotated[int, typer.Option(help="Number of seeds, from 0.", min=1)] = 1,
    split: Annotated[
        Split,
        typer.Option(help="Test on the folder's own part, or on a random tenth for each seed."),
    ] = Split.GIVEN,
    bootstrap: Annotated[
        int, typer.Option(help="Draws for 90 % intervals in the JSON; 0 for none.", min=0)
    ] = 0,
    jobs: Annotated[int | None, typer.Option(help="Cores to use; all by default.", min=1)] = None,
    json_: Annotated[
        Path | None, typer.Option("--json", help="JSON file to write, updated after each run.")
    ] = None,
) -> None:
    """Compare methods beside published results."""
    folders = _chosen_folders(data, datasets)
    presets = _chosen(preset, tuple(PRESETS), "preset")
    runs = [
        _Planned(method, variant, objective, seed, jobs, bootstrap)
        for method in _chosen(methods, (*METHODS, *names()), "method")
        for variant in (presets[:1] if method in {"br", *PAPER_METHODS} else presets)
        for objective in _chosen(optimize, OBJECTIVES, "objective")
        for seed in range(seeds)
    ]
    for run in runs:
        check_objective(run.method, run.optimize)
    document = _Document(split, seeds, json_)
    for folder in folders:
        results = document.begin(folder.name)
        try:
            with progress(folder.name) as report:
                for _ in _run_all(folder, runs, split, results, report):
                    document.write()
        except (ValueError, OSError, MemoryError) as error:
            results.error = one_line(error) or type(error).__name__
            note(f"{folder.name}: {results.error}")
            document.write()
        if results.runs:
            _print_results(results, split)
    failed = [results.name for results in document.results if results.error is not None]
    if failed:
        raise CommandError(f"{len(failed)} of {len(folders)} data sets failed: {', '.join(failed)}")


def _chosen_folders(data: Path, listed: str | None) -> list[Path]:
    """Return the folders to use; refuse missing ones before any work."""
    if not data.is_dir():
        raise CommandError(f"{data}: no such folder; name a folder of data sets")
    if listed is None and _is_dataset(data):
        return [data]
    if listed is None:
        folders = sorted(folder for folder in data.iterdir() if _is_dataset(folder))
        if not folders:
            raise CommandError(f"{data}: holds no data set; a data set folder has train and test")
        return folders
    folders = [data / name for name in _names_in(listed)]
    for folder in folders:
        if not folder.is_dir():
            raise CommandError(f"{folder}: no such data set; check --datasets")
    return folders


def _is_dataset(folder: Path) -> bool:
    return any(folder.glob("train.*")) and any(folder.glob("test.*"))


def _chosen(listed: str, choices: tuple[Name, ...], what: str) -> list[Name]:
    return [one_of(choices, name, what) for name in _names_in(listed)]


def _names_in(listed: str) -> list[str]:
    unique = list(dict.fromkeys(name.strip() for name in listed.split(",") if name.strip()))
    if not unique:
        raise CommandError(f"{listed!r} names nothing; give names with commas between them")
    return unique


def _run_all(
    folder: Path, runs: Sequence[_Planned], split: Split, results: DatasetResults, report: Report
) -> Iterator[Run]:
    """Run all rows on a data set; yield each run and add it to the results."""
    parts = _read_parts(folder)
    for done, planned in enumerate(runs):
        train_part, test_part = (
            parts if split is Split.GIVEN else random_split(*parts, planned.seed)
        )
        check_trainable(train_part, folder)
        results.n_train, results.n_test = train_part.n, test_part.n
        results.n_labels = len(test_part.label_names)
        title = f"{folder.name}, {planned.method}, seed {planned.seed}"
        for run in planned.run(train_part, test_part, _share(report, title, done, len(runs))):
            if any((run.method, run.seed) == (other.method, other.seed) for other in results.runs):
                continue  # plain BR is the same for every objective
            results.runs.append(run)
            if not sys.stderr.isatty():
                accuracy, f1 = run.metrics.set_accuracy, run.metrics.instance_f1
                note(
                    f"{folder.name}, {run.method}, seed {run.seed}: set accuracy "
                    f"{accuracy:.2%}, instance F1 {f1:.2%}"
                )
            yield run


def _share(report: Report, title: str, done: int, total: int) -> Progress:
    """Return a progress function for one of ``total`` equal shares of ``report``."""
    return lambda share, what: report((done + share) / total, f"{title}: {what}")


def _read_parts(folder: Path) -> tuple[Dataset, Dataset]:
    train_part = read_dataset(folder, "train")
    test_part = read_dataset(
        folder,
        "test",
        label_names=train_part.label_names,
        feature_names=train_part.feature_names,
    )
    return train_part, test_part


def _split_name(split: Split) -> str:
    return "given split" if split is Split.GIVEN else "random split, 10 % test, drawn by seed"


class _Document:
    """The JSON document, rewritten after each run so that nothing is lost."""

    def __init__(self, split: Split, seeds: int, path: Path | None) -> None:
        self.results: list[DatasetResults] = []
        self._path = path
        self._head = {
            "created_at": datetime.now(UTC).isoformat(timespec="seconds"),
            "command": ["python", "-m", "benchmarks.papers", *sys.argv[1:]],
            "machine": {
                "processor": platform.machine(),
                "cores": int(cpu_count()),
                "python": platform.python_version(),
            },
            "split": _split_name(split),
            "seeds": list(range(seeds)),
        }
        self.write()  # refuse an unwritable file before any work

    def begin(self, name: str) -> DatasetResults:
        self.results.append(DatasetResults(name))
        return self.results[-1]

    def write(self) -> None:
        if self._path is None:
            return
        content = self._head | {"datasets": [_results_json(each) for each in self.results]}
        with written_whole(self._path) as file:
            file.write(json.dumps(content, indent=2, allow_nan=False) + "\n")


def _results_json(results: DatasetResults) -> dict[str, object]:
    rows = [
        {
            "method": method,
            "summary": {name: asdict(spread) for name, spread in summarise(runs).items()},
            "runs": [{"seed": run.seed, "metrics": run.metrics.to_json()} for run in runs],
        }
        for method, runs in results.rows().items()
    ]
    published = [  # without what a paper does not report
        {name: value for name, value in asdict(result).items() if value is not None}
        for result in published_results(results.name)
    ]
    return {
        "name": results.name,
        "n_train": results.n_train,
        "n_test": results.n_test,
        "n_labels": results.n_labels,
        "error": results.error,
        "rows": rows,
        "published": published,
    }


def _print_results(results: DatasetResults, split: Split) -> None:
    print_table(_measured_table(results, split))
    published = published_results(results.name)
    if published:
        print_table(_published_table(results.name, published))


def _measured_table(results: DatasetResults, split: Split) -> Table:
    title = (
        f"{results.name}: {results.n_train} training and {results.n_test} test documents, "
        f"{results.n_labels} labels; {_split_name(split)}"
    )
    table = Table("method", "seeds", title=title, title_justify="left", box=None)
    for _, head, _unit in _COLUMNS:
        table.add_column(head, justify="right")
    for method, runs in results.rows().items():
        summary = summarise(runs)
        cells = []
        for name, _, unit in _COLUMNS:
            spread = summary.get(name)
            cells.append("" if spread is None else _cell(spread.mean, spread.standard_error, unit))
        table.add_row(method, str(len(runs)), *cells)
    return table


def _cell(mean: float, error: float | None, unit: float) -> str:
    text = f"{mean / unit:.2f}"
    return text if error is None else f"{text} ±{error / unit:.2f}"


def _published_table(name: str, published: Sequence[PublishedResult]) -> Table:
    columns = [
        (metric, head, unit)
        for metric, head, unit in _COLUMNS
        if any(getattr(result, metric, None) is not None for result in published)
    ]
    table = Table("method", title=f"{name}: published", title_justify="left", box=None)
    for _, head, _unit in columns:
        table.add_column(head, justify="right")
    for head in ("source", "features", "split"):
        table.add_column(head)
    for result in published:
        values = [(getattr(result, metric), unit) for metric, _, unit in columns]
        cells = ["" if value is None else _cell(value, None, unit) for value, unit in values]
        of = result.experiment
        same = _same(of.same_features), _same(of.same_split)
        table.add_row(result.method, *cells, of.source, *same)
    return table


def _same(same: bool | None) -> str:
    if same is None:
        return "not stated"
    return "same" if same else "other"


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the comparison; a mistake of the user ends it with one line."""
    app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
    app.command()(compare)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("default", UserWarning)
            warnings.showwarning = lambda message, *_, **__: note(f"warning: {one_line(message)}")
            app(arguments, prog_name="python -m benchmarks.papers")
    except (CommandError, ValueError) as error:
        note(one_line(error))
        sys.exit(2)


if __name__ == "__main__":
    main()
