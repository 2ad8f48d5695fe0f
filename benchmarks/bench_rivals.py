"""How many predictions Setwise serves, compared with what one would use in its place.

    python -m benchmarks.bench_rivals [--seconds 4] [--rounds 3] [--mlserver VENV] [--record]

All read the same texts over HTTP, in turns within one run: one caller at first, then 32. Setwise
authenticates, ranks label sets with calibrated confidence, decides, and commits to SQLite. The
others are measured as their guides set them up, each in the two ways that suit one caller or many:

- the *hand-written service* takes an afternoon: FastAPI, scikit-learn's pipeline of TF-IDF and
  logistic regressions, and one row of an SQLite file through SQLAlchemy. The regressions answer one
  after the other, as the pipeline calls them, or as one product of matrices;
- *MLServer* serves the same pipeline by its scikit-learn runtime, and stores nothing: with its pool
  of processes, its default, or in one process with adaptive batching.

``--mlserver``: a virtual environment with ``pip install mlserver mlserver-sklearn 'uvloop<0.22'``,
which are no dependencies of Setwise. Compare ratios; requests per second depend on the machine.
"""

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from statistics import median

from benchmarks import rival_pipeline
from benchmarks.loaded_servers import (
    PATIENCE_S,
    Measurement,
    Server,
    first_answer,
    free_port,
    load,
    request,
    running,
    setwise_server,
    trained_artifact,
)
from benchmarks.rows import Figure, record

CALLERS = (1, 32)
ONE_BY_ONE, ONE_PRODUCT = "one by one", "one product"
BATCHING = {"max_batch_size": 32, "max_batch_time": 0.005}
"""What MLServer's guide of adaptive batching sets: documents, and seconds to wait for them."""


def main() -> None:
    options = _options()
    with tempfile.TemporaryDirectory(prefix="setwise-rivals-") as name, ExitStack() as stack:
        folder = Path(name)
        print("training on generated notes …", flush=True)
        artifact, texts = trained_artifact(folder)
        url = f"sqlite:///{folder / 'bench.db'}"
        setwise, _ = stack.enter_context(setwise_server(folder / "setwise", url, artifact, texts))
        _fit(Path(sys.executable), folder / "notes.jsonl", folder / "hand-written.joblib")
        ways = [_hand_written(folder, texts, way) for way in (ONE_BY_ONE, ONE_PRODUCT)]
        if venv := options.mlserver:
            pipeline = folder / "mlserver.joblib"
            _fit(venv / "bin" / "python", folder / "notes.jsonl", pipeline)
            ways += [_mlserver(pipeline, venv, texts, batching=way) for way in (False, True)]
        servers = [replace(setwise, name="Setwise"), *map(stack.enter_context, ways)]
        for callers in CALLERS:
            measured = _measure(servers, callers, options.seconds, options.rounds)
            _show(measured, callers, options.rounds, keep=options.record)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=4.0, help="length of one turn")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--mlserver", type=Path, help="virtual environment with MLServer")
    parser.add_argument("--record", action="store_true", help="write rows to results/rivals.jsonl")
    return parser.parse_args()


def _measure(
    servers: list[Server], callers: int, seconds: float, rounds: int
) -> dict[str, list[Measurement]]:
    """Return the rounds of each server, Setwise's first."""
    measured: dict[str, list[Measurement]] = {server.name: [] for server in servers}
    for server in servers:  # connections, compiled code, caches
        asyncio.run(load(server, 1.0, callers))
    for _ in range(rounds):
        for server in servers:
            measured[server.name].append(asyncio.run(load(server, seconds, callers)))
    return measured


def _show(measured: dict[str, list[Measurement]], callers: int, rounds: int, *, keep: bool) -> None:
    """Print a table; record its rows, and for each rival the way that serves most."""
    print(f"\n{callers} at a time, median of {rounds} rounds")
    print(f"{'':36}{'requests/s':>12}{'p50 ms':>10}{'p99 ms':>10}{'Setwise serves':>17}")
    ours = next(iter(measured.values()))
    better: dict[str, dict[str, Figure]] = {}
    for name, each in measured.items():
        row: dict[str, Figure] = {
            "per_second": round(median(m.per_second for m in each), 1),
            "p50_ms": round(median(m.p50_ms for m in each), 1),
            "p99_ms": round(median(m.p99_ms for m in each), 1),
            "times": round(
                median(a.per_second / b.per_second for a, b in zip(ours, each, strict=True)), 2
            ),
        }
        numbers = "".join(f"{row[column]:>10}" for column in ("p50_ms", "p99_ms"))
        print(f"{name:36}{row['per_second']:>12}{numbers}{row['times']:>11} times", flush=True)
        if keep:
            record("rivals", f"{name}, {_callers(callers)}", row)
        if each is ours:
            continue
        rival = name.partition(":")[0]
        best = better.get(rival)
        if best is None or float(row["per_second"]) > float(best["per_second"]):
            better[rival] = row
    for rival, row in better.items():
        if keep:
            record("rivals", f"the better {rival}, {_callers(callers)}", row)


def _callers(callers: int) -> str:
    return "1 caller" if callers == 1 else f"{callers} callers"


@contextmanager
def _hand_written(folder: Path, texts: list[str], way: str) -> Iterator[Server]:
    port = free_port()
    program = [sys.executable, "-m", "benchmarks.bench_rivals", "--serve", str(folder)]
    requests = [request("/predict", {"id": f"n{n}", "text": t}) for n, t in enumerate(texts)]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    with running([*program, str(port), way], port, environment) as process_id:
        yield Server(f"hand-written service: {way}", process_id, port, requests)


def serve_hand_written(folder: Path, port: int, way: str) -> None:
    """Serve predictions with a few lines of FastAPI, scikit-learn and SQLAlchemy."""
    import joblib  # noqa: PLC0415 -- only this process needs it
    import numpy as np  # noqa: PLC0415 -- as above
    import uvicorn  # noqa: PLC0415 -- as above
    from fastapi import FastAPI  # noqa: PLC0415 -- as above
    from pydantic import BaseModel  # noqa: PLC0415 -- as above
    from scipy.special import expit  # noqa: PLC0415 -- as above
    from sqlalchemy import create_engine  # noqa: PLC0415 -- as above
    from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column  # noqa: PLC0415 -- as above

    class Base(DeclarativeBase):
        pass

    class Row(Base):
        __tablename__ = "predictions"
        number: Mapped[int] = mapped_column(primary_key=True)
        document: Mapped[str]
        text: Mapped[str]
        scores: Mapped[str]

    class Document(BaseModel):
        id: str
        text: str

    pipeline = joblib.load(folder / "hand-written.joblib")
    words, regressions = pipeline[0], pipeline[1].estimators_
    weights = np.vstack([regression.coef_ for regression in regressions]).T
    intercepts = np.concatenate([regression.intercept_ for regression in regressions])

    def scored(text: str) -> list[float]:
        if way == ONE_BY_ONE:
            return list(map(float, pipeline.predict_proba([text])[0]))
        return list(map(float, expit(words.transform([text]) @ weights + intercepts)[0]))

    engine = create_engine(f"sqlite:///{folder / way}.db", connect_args={"timeout": 60})
    Base.metadata.create_all(engine)
    app = FastAPI()

    @app.post("/predict", status_code=201)
    def predict(document: Document) -> dict[str, object]:
        scores = scored(document.text)
        with Session(engine) as session:
            row = Row(document=document.id, text=document.text, scores=json.dumps(scores))
            session.add(row)
            session.commit()
            return {"id": row.number, "labels": [n for n, p in enumerate(scores) if p > 0.5]}

    uvicorn.run(app, port=port, log_level="warning", access_log=False)


@contextmanager
def _mlserver(pipeline: Path, venv: Path, texts: list[str], *, batching: bool) -> Iterator[Server]:
    way = "adaptive batching" if batching else "pool of processes"
    settings = pipeline.parent / way.replace(" ", "-")
    settings.mkdir()
    port = free_port()
    ports = {"HTTP": port, "GRPC": free_port(), "METRICS": free_port()}
    environment = _environment() | {
        f"MLSERVER_{name}_PORT": str(number) for name, number in ports.items()
    }
    environment["MLSERVER_DEBUG"] = "false"
    model: dict[str, object] = {
        "name": "notes",
        "implementation": "mlserver_sklearn.SKLearnModel",
        "parameters": {"uri": str(pipeline)},
    }
    if batching:
        environment["MLSERVER_PARALLEL_WORKERS"] = "0"
        model |= BATCHING
    (settings / "model-settings.json").write_text(json.dumps(model))
    requests = [request("/v2/models/notes/infer", _inference(text)) for text in texts]
    command = [str(venv / "bin" / "mlserver"), "start", str(settings)]
    with running(command, port, environment) as process_id:
        rival = Server(f"MLServer: {way}", process_id, port, requests)
        deadline = time.monotonic() + PATIENCE_S
        while b'"outputs"' not in (answer := first_answer(rival)):  # it listens before it is ready
            if time.monotonic() > deadline:
                raise RuntimeError(f"MLServer answers {answer!r}")
            time.sleep(0.5)
        yield rival


def _fit(python: Path, notes: Path, pipeline: Path) -> None:
    script = Path(rival_pipeline.__file__)
    subprocess.run([python, script, notes, pipeline], check=True, env=_environment())


def _environment() -> dict[str, str]:
    """Return this process's environment, as a program of another installation needs it."""
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return inherited | {"OMP_NUM_THREADS": "1"}


def _inference(text: str) -> dict[str, object]:
    return {
        "parameters": {"content_type": "str"},
        "inputs": [{"name": "text", "shape": [1], "datatype": "BYTES", "data": [text]}],
        "outputs": [{"name": "predict_proba"}],
    }


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        serve_hand_written(Path(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
    else:
        main()
