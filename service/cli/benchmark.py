"""``benchmark``: methods on data sets with several seeds, beside published results."""

# ruff: noqa: PLC0415 - numpy, scikit-learn and xgboost import slowly: only where needed

import json
import platform
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from setwise.service.cli.console import (
    CommandError,
    note,
    one_line,
    print_table,
    progress,
    written_whole,
)
from setwise.service.cli.learning import Name, one_of

if TYPE_CHECKING:
    from rich.table import Table

    from setwise.models.data.datasets import Dataset
    from setwise.models.evaluation.published import PublishedResult
    from setwise.models.evaluation.runs import Progress, Run
    from setwise.models.options import Preset
    from setwise.models.sets.decisions import Objective
    from setwise.service.cli.console import Report

commands = typer.Typer()

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
class Outcome:
    """Results of a data set so far."""

    name: str
    n_train: int = 0
    n_test: int = 0
    n_labels: int = 0
    runs: list["Run"] = field(default_factory=list)
    error: str | None = None

    def rows(self) -> dict[str, list["Run"]]:
        """Return the runs by method, in order of first appearance."""
        rows: dict[str, list[Run]] = {}
        for run in self.runs:
            rows.setdefault(run.method, []).append(run)
        return rows


class _Planned(NamedTuple):
    """One row of the table with one seed."""

    method: str  # of `METHODS`, or of the papers
    preset: "Preset"
    optimize: "Objective"
    seed: int
    n_jobs: int | None
    bootstrap: int

    def run(
        self, train_part: "Dataset", test_part: "Dataset", report: "Progress"
    ) -> Iterator["Run"]:
        """Train and evaluate it, and what is derived from it."""
        from setwise.models.evaluation.runs import run_method
        from setwise.models.options import METHODS, TrainingOptions
        from setwise.models.research.baselines.running import run_paper_method

        options = TrainingOptions(
            preset=self.preset, optimize=self.optimize, seed=self.seed, n_jobs=self.n_jobs
        )
        for own in METHODS:
            if own == self.method:
                options = replace(options, method=own)
                return run_method(train_part, test_part, options, report, bootstrap=self.bootstrap)
        return run_paper_method(
            self.method, train_part, test_part, options, report, bootstrap=self.bootstrap
        )


@commands.command()
def benchmark(
    *,
    data: Annotated[
        Path, typer.Option(help="A data set folder, or a folder of such folders.", metavar="DIR")
    ],
    datasets: Annotated[
        str | None, typer.Option(help="Data sets, separated by commas; all by default.")
    ] = None,
    methods: Annotated[
        str,
        typer.Option(
            help="Methods, separated by commas; also cbm-boosted, the slowest, and the papers' own."
        ),
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
    from setwise.models.options import METHODS, PRESETS
    from setwise.models.research.baselines.registry import PAPER_METHODS, names
    from setwise.models.research.baselines.running import check_objective
    from setwise.models.sets.decisions import OBJECTIVES

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
        outcome = document.begin(folder.name)
        try:
            with progress(folder.name) as report:
                for _ in _run_all(folder, runs, split, outcome, report):
                    document.write()
        except (ValueError, OSError, MemoryError) as error:
            outcome.error = one_line(error) or type(error).__name__
            note(f"setwise: {folder.name}: {outcome.error}")
            document.write()
        if outcome.runs:
            _print_outcome(outcome, split)
    failed = [outcome.name for outcome in document.outcomes if outcome.error is not None]
    if failed:
        raise CommandError(f"{len(failed)} of {len(folders)} data sets failed: {', '.join(failed)}")


def _chosen_folders(data: Path, names: str | None) -> list[Path]:
    """Return the folders to use; refuse missing ones before any work."""
    if not data.is_dir():
        raise CommandError(f"{data}: no such folder; name a folder of data sets")
    if names is None and _is_dataset(data):
        return [data]
    if names is None:
        found = sorted(folder for folder in data.iterdir() if _is_dataset(folder))
        if not found:
            raise CommandError(f"{data}: holds no data set; a data set folder has train and test")
        return found
    folders = [data / name for name in _listed(names)]
    for folder in folders:
        if not folder.is_dir():
            raise CommandError(f"{folder}: no such data set; check --datasets")
    return folders


def _is_dataset(folder: Path) -> bool:
    return any(folder.glob("train.*")) and any(folder.glob("test.*"))


def _chosen(names: str, known: tuple[Name, ...], what: str) -> list[Name]:
    return [one_of(known, name, what) for name in _listed(names)]


def _listed(names: str) -> list[str]:
    listed = list(dict.fromkeys(name.strip() for name in names.split(",") if name.strip()))
    if not listed:
        raise CommandError(f"{names!r} names nothing; give names with commas between them")
    return listed


def _run_all(
    folder: Path, runs: Sequence[_Planned], split: Split, outcome: Outcome, report: "Report"
) -> Iterator["Run"]:
    """Run all rows on a data set; yield results as they come.

    Results are also added to the outcome.
    """
    from setwise.models.data.dataset_files import check_trainable

    given = _read_parts(folder)
    for done, chosen in enumerate(runs):
        train_part, test_part = _split(given, split, chosen.seed)
        check_trainable(train_part, folder)
        outcome.n_train, outcome.n_test = train_part.n, test_part.n
        outcome.n_labels = len(test_part.label_names)
        title = f"{folder.name}, {chosen.method}, seed {chosen.seed}"
        for run in chosen.run(train_part, test_part, _share(report, title, done, len(runs))):
            if any((run.method, run.seed) == (one.method, one.seed) for one in outcome.runs):
                continue  # plain BR is the same for every objective
            outcome.runs.append(run)
            if not sys.stderr.isatty():
                accuracy, f1 = run.metrics.set_accuracy, run.metrics.instance_f1
                note(
                    f"{folder.name}, {run.method}, seed {run.seed}: set accuracy "
                    f"{accuracy:.2%}, instance F1 {f1:.2%}"
                )
            yield run


def _share(report: "Report", title: str, done: int, total: int) -> "Progress":
    """Return a progress function for one of ``total`` equal shares of ``report``."""
    return lambda share, what: report((done + share) / total, f"{title}: {what}")


def _read_parts(folder: Path) -> "tuple[Dataset, Dataset]":
    from setwise.models.data.dataset_files import read_dataset

    train_part = read_dataset(folder, "train")
    test_part = read_dataset(
        folder,
        "test",
        label_names=train_part.label_names,
        feature_names=train_part.feature_names,
    )
    return train_part, test_part


def _split(given: "tuple[Dataset, Dataset]", split: Split, seed: int) -> "tuple[Dataset, Dataset]":
    from setwise.models.evaluation.runs import random_split

    return given if split is Split.GIVEN else random_split(*given, seed)


def _split_name(split: Split) -> str:
    return "given split" if split is Split.GIVEN else "random split, 10 % test, drawn by seed"


class _Document:
    """The JSON document, rewritten after each run so that nothing is lost."""

    def __init__(self, split: Split, seeds: int, path: Path | None) -> None:
        from joblib import cpu_count

        self.outcomes: list[Outcome] = []
        self._path = path
        self._head = {
            "created_at": datetime.now(UTC).isoformat(timespec="seconds"),
            "command": ["setwise", *sys.argv[1:]],
            "machine": {
                "processor": platform.machine(),
                "cores": int(cpu_count()),
                "python": platform.python_version(),
            },
            "split": _split_name(split),
            "seeds": list(range(seeds)),
        }
        self.write()  # refuse an unwritable file before any work

    def begin(self, name: str) -> Outcome:
        self.outcomes.append(Outcome(name))
        return self.outcomes[-1]

    def write(self) -> None:
        if self._path is None:
            return
        content = self._head | {"datasets": [_outcome_json(each) for each in self.outcomes]}
        with written_whole(self._path) as file:
            file.write(json.dumps(content, indent=2, allow_nan=False) + "\n")


def _outcome_json(outcome: Outcome) -> dict[str, object]:
    from setwise.models.evaluation.published import published_results
    from setwise.models.evaluation.runs import summarise

    rows = [
        {
            "method": method,
            "summary": {name: asdict(spread) for name, spread in summarise(runs).items()},
            "runs": [{"seed": run.seed, "metrics": run.metrics.to_json()} for run in runs],
        }
        for method, runs in outcome.rows().items()
    ]
    published = [  # without what a paper does not report
        {name: value for name, value in asdict(result).items() if value is not None}
        for result in published_results(outcome.name)
    ]
    return {
        "name": outcome.name,
        "n_train": outcome.n_train,
        "n_test": outcome.n_test,
        "n_labels": outcome.n_labels,
        "error": outcome.error,
        "rows": rows,
        "published": published,
    }


def _print_outcome(outcome: Outcome, split: Split) -> None:
    from setwise.models.evaluation.published import published_results

    print_table(_measured_table(outcome, split))
    published = published_results(outcome.name)
    if published:
        print_table(_published_table(outcome.name, published))


def _measured_table(outcome: Outcome, split: Split) -> "Table":
    from rich.table import Table

    from setwise.models.evaluation.runs import summarise

    title = (
        f"{outcome.name}: {outcome.n_train} training and {outcome.n_test} test documents, "
        f"{outcome.n_labels} labels; {_split_name(split)}"
    )
    table = Table("method", "seeds", title=title, title_justify="left", box=None)
    for _, head, _unit in _COLUMNS:
        table.add_column(head, justify="right")
    for method, runs in outcome.rows().items():
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


def _published_table(name: str, results: Sequence["PublishedResult"]) -> "Table":
    from rich.table import Table

    columns = [
        (metric, head, unit)
        for metric, head, unit in _COLUMNS
        if any(getattr(result, metric, None) is not None for result in results)
    ]
    table = Table("method", title=f"{name}: published", title_justify="left", box=None)
    for _, head, _unit in columns:
        table.add_column(head, justify="right")
    for head in ("source", "features", "split"):
        table.add_column(head)
    for result in results:
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
