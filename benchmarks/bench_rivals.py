"""How many predictions Setwise serves, compared with what one would use in its place.

    python -m benchmarks.bench_rivals [--seconds 4] [--rounds 3] [--mlserver VENV]

All read the same texts over HTTP, in turns within one run: one caller at first, then 32. The
*hand-written service* takes an afternoon: FastAPI, scikit-learn's pipeline of TF-IDF and logistic
regressions, and one row of an SQLite file through SQLAlchemy. MLServer serves the same pipeline by
its scikit-learn runtime with its own settings; it stores nothing. Setwise authenticates, ranks
label sets with calibrated confidence, decides, and commits to SQLite.

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

CALLERS = (1, 32)


def main() -> None:
    options = _options()
    with tempfile.TemporaryDirectory(prefix="setwise-rivals-") as name, ExitStack() as stack:
        folder = Path(name)
        print("training on generated notes …", flush=True)
        artifact, texts = trained_artifact(folder)
        url = f"sqlite:///{folder / 'bench.db'}"
        setwise, _ = stack.enter_context(setwise_server(folder / "setwise", url, artifact, texts))
        servers = [setwise, stack.enter_context(_hand_written(folder, texts))]
        if options.mlserver is not None:
            servers.append(stack.enter_context(_mlserver(folder, options.mlserver, texts)))
        for callers in CALLERS:
            _compare(servers, callers, options.seconds, options.rounds)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=4.0, help="length of one turn")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--mlserver", type=Path, help="virtual environment with MLServer")
    return parser.parse_args()


def _compare(servers: list[Server], callers: int, seconds: float, rounds: int) -> None:
    measured: dict[str, list[Measurement]] = {server.name: [] for server in servers}
    for server in servers:  # connections, compiled code, caches
        asyncio.run(load(server, 1.0, callers))
    for _ in range(rounds):
        for server in servers:
            measured[server.name].append(asyncio.run(load(server, seconds, callers)))
    print(f"\n{callers} at a time, median of {rounds} rounds")
    print(f"{'':24}{'requests/s':>12}{'p50 ms':>10}{'p99 ms':>10}{'Setwise serves':>17}")
    ours = measured[servers[0].name]
    for name, each in measured.items():
        ratio = median(a.per_second / b.per_second for a, b in zip(ours, each, strict=True))
        print(
            f"{name:24}{median(m.per_second for m in each):12.0f}"
            f"{median(m.p50_ms for m in each):10.1f}{median(m.p99_ms for m in each):10.1f}"
            f"{ratio:11.2f} times",
            flush=True,
        )


@contextmanager
def _hand_written(folder: Path, texts: list[str]) -> Iterator[Server]:
    _fit(Path(sys.executable), folder / "notes.jsonl", folder / "hand-written.joblib")
    port = free_port()
    command = [sys.executable, "-m", "benchmarks.bench_rivals", "--serve", str(folder), str(port)]
    requests = [request("/predict", {"id": f"n{n}", "text": t}) for n, t in enumerate(texts)]
    with running(command, port, os.environ | {"OMP_NUM_THREADS": "1"}) as process_id:
        yield Server("hand-written service", process_id, port, requests)


def serve_hand_written(folder: Path, port: int) -> None:
    """Serve predictions with a few lines of FastAPI, scikit-learn and SQLAlchemy."""
    import joblib  # noqa: PLC0415 -- only this process needs it
    import uvicorn  # noqa: PLC0415 -- as above
    from fastapi import FastAPI  # noqa: PLC0415 -- as above
    from pydantic import BaseModel  # noqa: PLC0415 -- as above
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
    engine = create_engine(f"sqlite:///{folder / 'hand-written.db'}", connect_args={"timeout": 60})
    Base.metadata.create_all(engine)
    app = FastAPI()

    @app.post("/predict", status_code=201)
    def predict(document: Document) -> dict[str, object]:
        scores = pipeline.predict_proba([document.text])[0].tolist()
        with Session(engine) as session:
            row = Row(document=document.id, text=document.text, scores=json.dumps(scores))
            session.add(row)
            session.commit()
            return {"id": row.number, "labels": [n for n, p in enumerate(scores) if p > 0.5]}

    uvicorn.run(app, port=port, log_level="warning", access_log=False)


@contextmanager
def _mlserver(folder: Path, venv: Path, texts: list[str]) -> Iterator[Server]:
    pipeline = folder / "mlserver" / "pipeline.joblib"
    pipeline.parent.mkdir()
    _fit(venv / "bin" / "python", folder / "notes.jsonl", pipeline)
    port = free_port()
    ports = {"HTTP": port, "GRPC": free_port(), "METRICS": free_port()}
    environment = _environment() | {
        f"MLSERVER_{name}_PORT": str(number) for name, number in ports.items()
    }
    environment["MLSERVER_DEBUG"] = "false"
    model = {
        "name": "notes",
        "implementation": "mlserver_sklearn.SKLearnModel",
        "parameters": {"uri": str(pipeline)},
    }
    (pipeline.parent / "model-settings.json").write_text(json.dumps(model))
    requests = [request("/v2/models/notes/infer", _inference(text)) for text in texts]
    command = [str(venv / "bin" / "mlserver"), "start", str(pipeline.parent)]
    with running(command, port, environment) as process_id:
        rival = Server("MLServer", process_id, port, requests)
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
        serve_hand_written(Path(sys.argv[2]), int(sys.argv[3]))
    else:
        main()
