"""The examples run: against the service, and against stand-ins for what they call."""

import json
import runpy
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest

from setwise.models.training_external import start_external
from setwise.service.runtime.predictor import LoadedPredictor
from tests.kit.edge import Service
from tests.trained import LABELS, write_documents

EXAMPLES = Path(__file__).parents[2] / "examples"
Answer = Callable[[str, Any], object]


@pytest.fixture
def client(service: Service) -> httpx.Client:
    """Return a client of a service that reads another model's answers."""
    service.predictors.predictor = LoadedPredictor(start_external(sorted(LABELS)))  # type: ignore[assignment]  # instead of a fake

    def forward(request: httpx.Request) -> httpx.Response:
        answer = service.send(
            request.method, request.url.path, headers=dict(request.headers), content=request.content
        )
        return httpx.Response(answer.status_code, content=answer.content)

    return httpx.Client(
        transport=httpx.MockTransport(forward),
        base_url="http://test",
        headers={"Authorization": f"Bearer {service.secrets['client']}"},
    )


@pytest.fixture
def stand_in() -> Iterator[Callable[[Answer], str]]:
    """Start a server on this machine that gives the answers of a function."""
    with ExitStack() as stack:

        def start(answer: Answer) -> str:
            class Handler(BaseHTTPRequestHandler):
                def do_POST(self) -> None:
                    body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                    content = json.dumps(answer(self.path, body)).encode()
                    self.send_response(200)
                    self.send_header("Content-Length", str(len(content)))
                    self.end_headers()
                    self.wfile.write(content)

                def log_message(self, *_: object) -> None:
                    """Say nothing."""

            server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
            thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
            thread.start()
            stack.callback(thread.join)
            stack.callback(server.server_close)
            stack.callback(server.shutdown)
            return f"http://127.0.0.1:{server.server_port}"

        yield start


@pytest.fixture
def new(tmp_path: Path) -> Path:
    return write_documents(tmp_path / "new.jsonl", 6, seed=2)


@pytest.fixture
def vocabulary(tmp_path: Path) -> Path:
    path = tmp_path / "labels.txt"
    path.write_text("".join(f"{label}\n" for label in sorted(LABELS)))
    return path


def run(name: str, *arguments: object) -> None:
    runpy.run_path(str(EXAMPLES / f"{name}.py"))["main"](*arguments)


def stored(service: Service) -> list[Any]:
    return [one.document for one in service.database.contents.predictions.values()]


def test_a_scikit_learn_classifier_sends_probabilities(
    service: Service, client: httpx.Client, new: Path, tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    run("scikit_learn_classifier", client, write_documents(tmp_path / "old.jsonl", 60, seed=1), new)
    assert capsys.readouterr().out.count("review") == 6
    assert {len(one.answer["scores"]) for one in stored(service)} == {len(LABELS)}
    assert all(one.text for one in stored(service))


RECORDED = (
    '{"labels": ["court", "court"]}',
    '{"labels": ["unknown"]}',
    '{"labels": ["court", "music"]}',
    "I think it is about courts.",
    '{"labels": []}',
    '{"labels": ["court"]}',
)
"""What a language model answered when it was asked five times."""


def test_a_language_model_sends_its_label_sets(
    service: Service, client: httpx.Client, new: Path, vocabulary: Path,
    stand_in: Callable[[Answer], str], capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    def answer(path: str, body: Any) -> object:
        assert (path, body["n"]) == ("/v1/chat/completions", 5)
        return {"choices": [{"message": {"content": said}} for said in RECORDED]}

    with httpx.Client(base_url=stand_in(answer)) as llm:
        run("llm_answers", client, llm, vocabulary, new)
    assert capsys.readouterr().out.count("review ['court']") == 6
    sets = [["court"], ["court", "music"], [], ["court"]]
    assert [[x["labels"] for x in one.answer["candidates"]] for one in stored(service)] == [
        sets
    ] * 6


def test_an_endpoint_of_the_open_inference_protocol_sends_scores(
    service: Service, client: httpx.Client, new: Path, vocabulary: Path,
    stand_in: Callable[[Answer], str], capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    row = [0.9, 0.001, 0.5, 0.002, 0.003, 0.004]

    def answer(path: str, body: Any) -> object:
        assert path == "/v2/models/topics/infer"
        n = body["inputs"][0]["shape"][0]
        output = {"name": "p", "datatype": "FP32", "shape": [n, len(row)], "data": row * n}
        return {"model_name": "topics", "outputs": [output]}

    run("open_inference", client, stand_in(answer), "topics", vocabulary, new)
    assert capsys.readouterr().out.count("review") == 6
    assert all(
        one.answer == {"scores": dict(zip(sorted(LABELS), row, strict=True))}
        for one in stored(service)
    )
