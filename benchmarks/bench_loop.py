"""The closed loop on Reuters with drift: coverage and accuracy by week.

    python -m benchmarks.bench_loop [SEED] [PLOT]

A model is trained with preset fast on the first 4,000 training documents of Reuters in
``SETWISE_TEST_DATA``. The other documents pass in random order, repeatedly, 500 a week for 30
weeks, through the service's own services on SQLite (`tests/simulation`). Three annotators
contradict .1, .3 and .5 of the right predictions and accept .02 of the wrong ones. From week 15 on,
half of the documents about `earn` carry the label that follows it in the vocabulary instead.

The loop certifies, trips, recalibrates and certifies again, with target .95. It is compared with
the best fixed threshold: the lowest one at which the documents of the stream are right in 95 of 100
cases before they drift. A third run, of ten weeks, has no drift: at the end of week 7 a new
calibrator is activated while a certificate is in force. How many weeks pass without sending then?
"""

import gzip
import os
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

from setwise.models.data.dataset_files import read_dataset
from setwise.models.evaluation.evaluation import evaluate
from setwise.models.options import TrainingOptions
from setwise.models.storage.artifacts import save
from setwise.models.training import train
from setwise.service.domain.routing.audits import AuditPlan
from tests.simulation.loop import Week, simulate
from tests.simulation.office import Scenario
from tests.simulation.streams import Drift, HeldOutStream

ROOT = Path(__file__).resolve().parents[1]
TRAINED_ON = 4_000
TARGET = 0.95
DRIFT = Drift(week=15, share=0.5, label="earn")
NEW_CALIBRATOR, WEEKS = 7, 10  # of the run without drift


def prepare(source: Path, folder: Path, seed: int) -> tuple[HeldOutStream, float]:
    """Return the stream and the threshold that is best for it before it drifts."""
    with gzip.open(source / "train.jsonl.gz", "rt") as file:
        lines = file.readlines()
    with gzip.open(source / "test.jsonl.gz", "rt") as file:
        held_out = lines[TRAINED_ON:] + file.readlines()
    (folder / "train.jsonl").write_text("".join(lines[:TRAINED_ON]))
    # Numbering restarts in the test part.
    renamed = (
        line.replace('"id": "', f'"id": "{place}-', 1) for place, line in enumerate(held_out)
    )
    (folder / "stream.jsonl").write_text("".join(renamed))
    predictor = train(
        read_dataset(folder / "train.jsonl"), TrainingOptions(preset="fast", seed=seed)
    )
    save(predictor, folder / "model")
    stream = HeldOutStream(folder / "model", folder / "stream.jsonl", seed)
    dataset = read_dataset(folder / "stream.jsonl", label_names=predictor.label_names)
    metrics = evaluate(predictor, dataset)
    (point,) = [one for one in metrics.automation if one.target == TARGET]
    assert point.threshold is not None
    print(
        f"{stream.n_documents} documents ({stream.n_left_out} left out: labels that no training "
        f"document has); set accuracy {metrics.set_accuracy:.3f}, {point.coverage:.1%} above "
        f"{point.threshold:.3f} are right in {TARGET:.0%}",
        flush=True,
    )
    return stream, point.threshold


def show(name: str, weeks: list[Week], seconds: float, change: int) -> None:
    """Print the weeks; ``change`` is the first one after a change."""
    print(f"\n{name} ({seconds:.0f} s)\n  week  sent %  right %  threshold  breaker   hours")
    for week in weeks:
        right = "" if week.accuracy is None else f"{100 * week.accuracy:.1f}"
        threshold = "" if week.threshold is None else f"{week.threshold:.3f}"
        print(
            f"  {week.week:4}{100 * week.coverage:8.1f}{right:>9}{threshold:>11}  "
            f"{week.breaker.value:9}{week.hours:6.1f}"
        )
    sent = sum(week.sent for week in weeks)
    for part, first, last in (("before", 1, change - 1), ("after", change, len(weeks))):
        some = weeks[first - 1 : last]
        out = sum(week.sent for week in some)
        wrong = out - sum(week.right for week in some)
        silent = sum(week.sent == 0 for week in some)
        print(
            f"  {part} the change: {out} sent, {wrong} wrong, {silent} weeks without sending",
            flush=True,
        )
    print(f"  {sent} sent in all", flush=True)


def draw(with_loop: list[Week], without: list[Week], path: Path) -> None:
    import matplotlib as mpl  # noqa: PLC0415  # only for the plot

    mpl.use("Agg")
    mpl.rcParams["svg.hashsalt"] = "loop"  # equal runs draw equal files
    from matplotlib import pyplot as plt  # noqa: PLC0415  # after the backend is chosen

    figure, (upper, lower) = plt.subplots(2, 1, figsize=(8, 6.4), sharex=True)
    for weeks, label, colour in (
        (without, "fixed threshold", "tab:red"),
        (with_loop, "with the loop", "tab:blue"),
    ):
        numbers = [week.week for week in weeks]
        accuracy = [np.nan if week.accuracy is None else week.accuracy for week in weeks]
        upper.plot(numbers, accuracy, color=colour, label=label, marker="o", markersize=3)
        lower.plot(numbers, [week.coverage for week in weeks], color=colour)
    for week in with_loop:
        if week.trips:
            for axis in (upper, lower):
                axis.axvline(week.week, color="tab:blue", linewidth=0.8, linestyle=":")
            lower.annotate("breaker trips", (week.week + 0.2, 0.97), fontsize=8, va="top")
    for axis in (upper, lower):
        axis.axvline(DRIFT.week - 0.5, color="0.6", linewidth=0.8, linestyle="--")
    upper.axhline(TARGET, color="0.6", linewidth=0.8)
    upper.annotate("target", (22, TARGET), fontsize=8, va="bottom")
    upper.annotate("drift begins", (DRIFT.week - 0.3, 0.62), fontsize=8)
    upper.set_ylabel("truly right, of what was sent")
    upper.set_ylim(0.6, 1.01)
    upper.legend(loc="lower left", frameon=False)
    lower.set_ylabel("sent without a person")
    lower.set_ylim(0, 1)
    lower.set_xlabel("week")
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)


def main() -> None:
    seed = int(sys.argv[1]) if len(sys.argv) > 1 else 0
    data = Path(os.environ.get("SETWISE_TEST_DATA", ROOT.parent / "shared" / "data"))
    source = data / "reuters21578"
    if not source.is_dir():
        sys.exit(f"no data at {source}: set SETWISE_TEST_DATA")
    audits = AuditPlan(certification_rate=0.3, training_rate=0.05, gold_reread_rate=0.5)
    scenario = Scenario(
        documents=500,
        target=TARGET,
        audits=audits,
        recalibrate_every=6,
        drift=DRIFT,
        seed=seed,
    )
    found: dict[str, list[Week]] = {}
    with tempfile.TemporaryDirectory() as folder:
        stream, threshold = prepare(source, Path(folder), seed)
        runs = {
            "with the loop": scenario,
            "fixed threshold": replace(scenario, fixed_threshold=threshold),
            "no drift, new calibrator": replace(
                scenario,
                weeks=WEEKS,
                drift=None,
                recalibrate_every=0,
                new_calibrators=(NEW_CALIBRATOR,),
            ),
        }
        for name, run in runs.items():
            started = time.perf_counter()
            found[name] = simulate(run, stream)
            change = NEW_CALIBRATOR + 1 if run.drift is None else DRIFT.week
            show(name, found[name], time.perf_counter() - started, change)
    if len(sys.argv) > 2:
        draw(found["with the loop"], found["fixed threshold"], Path(sys.argv[2]))


if __name__ == "__main__":
    main()
