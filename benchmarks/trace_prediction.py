"""Traces a warm ``POST /v1/predictions`` through our files.

    python -m benchmarks.trace_prediction [--show]

Starts the service in this process on a small trained model, predicts until everything is warm, then
follows one request with ``sys.setprofile`` in the event loop and in the thread that predicts. It
prints which of our files the request goes through and counts the moves: calls of a function of ours
that lies in another file than the last one in its thread. Functions of libraries and compiled code
do not count.
"""

import argparse
import asyncio
import json
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from types import FrameType

from starlette.types import ASGIApp, Message

from benchmarks.loaded_servers import set_up, trained_artifact
from setwise.service import build
from setwise.service.api.http.gather import PredictionQueue
from setwise.service.app import serving
from setwise.service.domain.predictions import Submission, SubmissionOutcome
from setwise.service.logs import configure_logging
from setwise.service.settings import Settings

OURS = str(Path(__file__).resolve().parents[1] / "setwise")
"""Where modules are imported from: the folders below it are links."""

WARM_AFTER = 50
"""Requests."""


class Trace:
    """The calls of our functions, in each thread in order."""

    def __init__(self) -> None:
        self.calls: dict[str, list[tuple[str, str]]] = {}

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        """Note one event of ``sys.setprofile``."""
        path = frame.f_code.co_filename
        if event == "call" and path.startswith(OURS):
            thread = threading.current_thread().name
            name = path.removeprefix(OURS)[1:]
            self.calls.setdefault(thread, []).append((name, frame.f_code.co_qualname))

    @property
    def files(self) -> Counter[str]:
        """How often functions of each file were called."""
        return Counter(name for calls in self.calls.values() for name, _ in calls)

    @property
    def moves(self) -> int:
        """How often a call led to another file."""
        return sum(
            before[0] != after[0]
            for calls in self.calls.values()
            for before, after in pairwise(calls)
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--show", action="store_true", help="print each call")
    options = parser.parse_args()
    configure_logging("warning", "console")
    with tempfile.TemporaryDirectory(prefix="setwise-trace-") as name:
        for content_type in ("application/json", "application/json; charset=utf-8"):
            folder = Path(name) / str(len(content_type))
            folder.mkdir()
            trace = asyncio.run(_traced(folder, content_type))
            n_calls = sum(trace.files.values())
            print(f"{content_type}: {n_calls} calls, {len(trace.files)} files, {trace.moves} moves")
    for file, count in trace.files.most_common():
        print(f"{count:6} {file}")
    if options.show:
        for thread, calls in trace.calls.items():
            print(f"\n{thread}")
            for file, function in calls:
                print(f"  {file}: {function}")


async def _traced(folder: Path, content_type: str) -> Trace:
    artifact, texts = trained_artifact(folder)
    settings = Settings(
        data_dir=folder, database_url=f"sqlite:///{folder / 'trace.db'}", embedded_worker=False
    )
    application = build.build(settings)
    services, key = application.services, set_up(application, artifact)
    trace, warm = Trace(), False

    def predict(submissions: Sequence[Submission]) -> Sequence[SubmissionOutcome]:
        with _profiled(trace) if warm else nullcontext():
            return services.predictions.predict(submissions)

    edge = replace(application.edge, predict=PredictionQueue(predict))
    application = replace(application, edge=edge)
    app = serving(application)
    async with application.running():
        for number in range(WARM_AFTER):
            await _post(app, key, texts[number % len(texts)], content_type)
        warm = True
        with _profiled(trace):
            await _post(app, key, texts[0], content_type)
    return trace


@contextmanager
def _profiled(trace: Trace) -> Iterator[None]:
    sys.setprofile(trace)
    try:
        yield
    finally:
        sys.setprofile(None)


async def _post(app: ASGIApp, key: str, text: str, content_type: str) -> None:
    body = json.dumps({"document": {"id": "trace", "text": text}}).encode()
    statuses = []

    async def receive() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Message) -> None:
        if message["type"] == "http.response.start":
            statuses.append(message["status"])

    await app(
        {
            "type": "http",
            "http_version": "1.1",
            "method": "POST",
            "scheme": "http",
            "path": "/v1/predictions",
            "raw_path": b"/v1/predictions",
            "query_string": b"",
            "server": ("trace", 80),
            "client": ("127.0.0.1", 1),
            "headers": [
                (b"authorization", b"Bearer " + key.encode()),
                (b"content-type", content_type.encode()),
                (b"content-length", str(len(body)).encode()),
            ],
        },
        receive,
        send,
    )
    if statuses != [201]:
        raise RuntimeError(f"the service answered {statuses}")


if __name__ == "__main__":
    main()
