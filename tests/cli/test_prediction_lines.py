"""Lines in, lines out: what is written, in what order, and what a fault leaves."""

import io
import json
import multiprocessing
from dataclasses import replace

import numpy as np
import pytest

from setwise.models.data.lines import DataError
from setwise.models.options import TrainingOptions
from setwise.models.predictions import RankedSet
from setwise.models.predictor import SetPredictor
from setwise.models.training import train
from setwise.service.cli import prediction_lines
from setwise.service.cli.prediction_lines import (
    LIKELY_LABELS,
    LinePredictor,
    forks,
    predicted_lines,
)
from tests.models import corpora


@pytest.fixture(scope="module")
def predictor():
    return train(
        corpora.texts(n=300),
        TrainingOptions(preset="paper", calibrator="boosted-squared", alpha=1e-3),
    )


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(prediction_lines, "_LINES_AT_ONCE", 7)
    monkeypatch.setattr(prediction_lines, "_BLOCKS_ALONE", 2)


def as_lines(records):
    return [(number, json.dumps(record).encode()) for number, record in enumerate(records, 1)]


def stories(n):
    return [
        {"id": f'"{i}"é', "text": text} for i, text in enumerate(corpora.texts(n=n, seed=1).texts)
    ]


@pytest.mark.parametrize("top", [1, 3, 100])
def test_a_line_says_what_the_model_predicts(predictor, top):
    documents = stories(20)
    lines = LinePredictor(predictor, "a", top)(as_lines(documents)).splitlines()
    predictions = predictor.predict_texts([document["text"] for document in documents])
    for row, (document, line) in enumerate(zip(documents, lines, strict=True)):
        written, ranked = json.loads(line), predictions.ranked(row)
        candidates = [
            RankedSet(tuple(each["labels"]), each["confidence"], each["score"])
            for each in written["candidates"]
        ]
        assert candidates == ranked[:top]
        assert (tuple(written["labels"]), written["confidence"]) == ranked[0][:2]
        marginals = dict(
            zip(predictor.label_names, predictions.marginals[row].tolist(), strict=True)
        )
        chances = [each["probability"] for each in written["marginals"]]
        assert chances == sorted(marginals.values(), reverse=True)[:LIKELY_LABELS]
        assert all(marginals[each["label"]] == each["probability"] for each in written["marginals"])
        assert written["id"] == document["id"]
        assert written["known_features"] == predictions.known_features[row]
        assert written["model_version"] == predictor.version
        assert written["calibrator_version"] == predictor.calibrator_version


def test_a_number_that_json_lacks_is_never_written(predictor, monkeypatch):
    known = predictor.predict_texts(["fever cough"])
    unknown = replace(known, confidence=known.confidence * np.nan)
    monkeypatch.setattr(SetPredictor, "rank", lambda *_: unknown)
    with pytest.raises(ValueError, match="a probability is not a number"):
        LinePredictor(predictor, "a", 1)([(1, b'{"text": "fever cough"}')])


def test_documents_without_an_id_and_blank_lines_are_taken(predictor):
    lines = [(1, b"\n"), (2, b'{"text": "fever cough"}\n'), (3, b"  \n")]
    (line,) = LinePredictor(predictor, "a", 1)(lines).splitlines()
    assert json.loads(line)["id"] is None
    assert LinePredictor(predictor, "a", 1)([(1, b"\n")]) == b""


def test_several_processes_write_what_one_writes(predictor, small_blocks):
    lines = as_lines(stories(120))
    alone = b"".join(predicted_lines(predictor, "a", lines, 10))
    shared = b"".join(predicted_lines(predictor, "a", iter(lines), 10, forks(3)))
    assert len(alone.splitlines()) == 120
    assert shared == alone


@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize("fault", [5, 14, 15, 60, 120])
def test_everything_before_a_fault_is_written(predictor, small_blocks, jobs, fault):
    lines = as_lines(stories(120))
    lines[fault - 1] = (fault, b"no JSON")
    out = io.BytesIO()
    with pytest.raises(DataError, match=f"^a, line {fault}: not JSON"):
        out.writelines(predicted_lines(predictor, "a", lines, 10, forks(jobs)))
    assert len(out.getvalue().splitlines()) == fault - 1


def test_the_first_of_two_faults_is_named(predictor, small_blocks):
    lines = as_lines(stories(6))
    lines[2:5:2] = (3, b'{"features": {"f1": 1}}'), (5, b"no JSON")  # one unfit, one unreadable
    out = io.BytesIO()
    with pytest.raises(DataError, match=r"^a, line 3: features: this model reads text"):
        out.writelines(predicted_lines(predictor, "a", lines, 10))
    assert len(out.getvalue().splitlines()) == 2


@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize("n", [5, 45])
def test_everything_before_the_end_of_a_damaged_file_is_written(predictor, small_blocks, jobs, n):
    def damaged():
        yield from as_lines(stories(n))
        raise DataError("a", n + 1, "the gzip stream ends early", "copy the whole file again")

    out = io.BytesIO()
    with pytest.raises(DataError, match="ends early"):
        out.writelines(predicted_lines(predictor, "a", damaged(), 10, forks(jobs)))
    assert len(out.getvalue().splitlines()) == n


def test_a_process_that_ends_costs_time_only(predictor, small_blocks):
    lines = predicted_lines(predictor, "a", as_lines(stories(120)), 1, forks(2))
    found = [next(lines) for _ in range(3)]
    for child in multiprocessing.active_children():
        child.kill()
    found += lines
    assert b"".join(found) == b"".join(predicted_lines(predictor, "a", as_lines(stories(120)), 1))


def test_long_lines_are_few_at_a_time(predictor, small_blocks, monkeypatch):
    monkeypatch.setattr(prediction_lines, "_BYTES_AT_ONCE", 100)
    blocks = list(prediction_lines._blocks(enumerate([b"x" * 60] * 5 + [b"y"] * 8)))
    assert [len(block) for block in blocks] == [2, 2, 7, 2]


def test_input_is_read_only_so_far_ahead(predictor, small_blocks):
    read = 0

    def endless():
        nonlocal read
        while True:
            read += 1
            yield read, b'{"id": "x", "text": "fever cough"}'

    lines = predicted_lines(predictor, "a", endless(), 1, forks(2))
    for _ in range(30):
        next(lines)
    assert read <= 7 * 30 + 7 * 2 * prediction_lines._WAITING_PER_FORK + 7
    lines.close()


def test_workers_end_with_their_reader(predictor, small_blocks):
    lines = predicted_lines(predictor, "a", as_lines(stories(120)), 1, forks(2))
    for _ in range(3):
        next(lines)
    children = set(multiprocessing.active_children())
    assert len(children) >= 1
    lines.close()
    for child in children:
        child.join(timeout=120)
    assert not children & set(multiprocessing.active_children())
