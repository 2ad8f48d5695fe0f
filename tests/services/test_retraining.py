"""A new version learns from what people decided, and waits for a person beside the old one."""

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from setwise.models.data.lines import DataWarning
from setwise.models.storage.artifacts import load
from setwise.service.domain.annotators import GroupChange, Rates
from setwise.service.domain.errors import (
    InvalidRequest,
    NotEnoughReviews,
    RatesUnknown,
)
from setwise.service.domain.recalibration import NO_RATES, WAITS_FOR_A_LEAD
from setwise.service.domain.retraining import OnAudits, Retrain
from setwise.service.runtime.worker import Interrupted
from setwise.service.services.analysis import retraining as analysis
from setwise.service.services.annotators import Annotators
from setwise.service.services.retraining import Retraining
from setwise.service.stores.transaction import Transactions
from tests import building
from tests.fakes import FakeLoader, FakeStore
from tests.kit.databases import Database
from tests.kit.loop import Loop
from tests.models.corpora import answers_of
from tests.samples import ADMIN, ANN, model
from tests.services.test_certification_of_candidates import Better
from tests.services.test_files import Worker
from tests.trained import LABELS, documents, write_documents

OLD = replace(
    model("sha256:model"), summary={"kind": "text", "calibrator_version": "sha256:calibrator"}
)


class Office(Loop):
    """The loop with a model that is wrong in every set; each new fit is right."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.loader = FakeLoader(Better())
        self.retraining = Retraining(
            *self.parts,
            models=self.models,
            certifications=building.certifications(*self.parts, loader=self.loader),
            lease_clock=self.now,
        )
        with self.begin() as transaction:
            transaction.models.add(OLD)
            transaction.models.activate(OLD.id, self.now(), self.new_id())
            transaction.commit()


class Fits:
    """Stands for the fit; remembers the rows."""

    def __init__(self) -> None:
        self.rows: list[tuple[Mapping[str, object], Rates | str | None]] = []
        self.times = 0
        self.serving: object = None

    def __call__(
        self,
        rows: list[tuple[Mapping[str, object], Rates | str | None]],
        _: object,
        serving: object,
        **__: object,
    ) -> object:
        self.rows, self.times, self.serving = rows, self.times + 1, serving
        return {"documents": len(rows), "remark": "It says nothing."}


@pytest.fixture
def fits(monkeypatch: pytest.MonkeyPatch) -> Fits:
    fits = Fits()
    monkeypatch.setattr(analysis, "fit_again", fits)
    # The folder of the artifact differs each time, its content does not.
    add = FakeStore.add
    monkeypatch.setattr(FakeStore, "add", lambda self, source: add(self, "new"))
    return fits


@pytest.fixture
def office(begin: Transactions) -> Office:
    return Office(begin)


def test_a_new_version_is_registered_shadows_and_is_compared_on_the_same_audits(
    office: Office, fits: Fits
) -> None:
    office.plan()
    predictions = office.predict(*["0.9"] * 40)
    office.read(wrong_below=1.0)
    job = office.retraining.request(ADMIN, Retrain(preset="fast"))
    result = office.retraining.run(job, Worker())
    assert len(fits.rows) >= len(predictions)
    (new,) = [one for one in office.models.page(ADMIN) if one.id != OLD.id]
    assert not new.active
    assert (result["model_id"], result["remark"]) == (new.id, "It says nothing.")
    assert office.models.comparison(ADMIN, new.id).shadow is not None
    on_audits = result["on_audits"]
    assert isinstance(on_audits, dict)
    assert (
        on_audits["audits"]
        == on_audits["candidate_right"]
        == on_audits["only_candidate_right"]
        > 10
    )
    assert on_audits["serving_right"] == 0
    assert on_audits["p_value"] < 0.001
    assert "activate it by hand" in str(result["reason"])
    assert office.gate.certificate_id is None


@pytest.mark.parametrize("texts", [False, True])
def test_a_model_of_texts_may_follow_one_of_another_kind(fits: Fits, texts: bool) -> None:
    """Its options are then not those of the model that serves."""
    office = Office(Database())
    office.predict("0.9")
    office.retraining.run(office.retraining.request(ADMIN, Retrain(texts=texts)), Worker())
    assert (fits.serving is None) is texts


def test_one_job_at_a_time(office: Office) -> None:
    first = office.retraining.request(ADMIN, Retrain())
    assert office.retraining.request(ADMIN, Retrain(preset="best")).id == first.id


def test_a_worker_that_takes_over_does_not_fit_again(fits: Fits) -> None:
    office = Office(Database())
    office.predict(*["0.9"] * 4)
    office.read()
    job = office.retraining.request(ADMIN, Retrain())
    first = Worker()
    one = office.retraining.run(job, first)
    again = office.retraining.run(replace(job, checkpoint=first.kept), Worker())
    assert again["model_id"] == one["model_id"]
    assert fits.times == 1
    from_the_start = office.retraining.run(job, Worker())
    assert (from_the_start["model_id"], fits.times) == (one["model_id"], 2)


def test_a_fit_that_teaches_nothing_new_leaves_everything_as_it_is(
    fits: Fits,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(FakeStore, "add", lambda self, source: replace(OLD, id=self._new_id()))
    office = Office(Database())
    result = office.retraining.run(office.retraining.request(ADMIN, Retrain()), Worker())
    assert result["model_id"] == OLD.id
    assert "serves already" in str(result["reason"])
    assert office.models.page(ADMIN)[0].active


def test_another_shadow_goes_on(fits: Fits) -> None:
    office = Office(Database())
    other = model("sha256:other")
    with office.begin() as transaction:
        transaction.models.add(other)
        transaction.commit()
    office.models.begin_shadow(ADMIN, other.id)
    office.predict("0.9")
    result = office.retraining.run(office.retraining.request(ADMIN, Retrain()), Worker())
    assert "shadow" in str(result["shadow"])
    assert office.models.comparison(ADMIN, other.id).shadow is not None


@pytest.mark.parametrize(
    "name",
    [
        *("", "/etc/passwd", "//etc/passwd", "../secret", "a/../../secret", "a\0b", "a\\b"),
        *("link", "circle", "none", "x" * 1_000),
    ],
)
def test_training_data_outside_the_folder_is_refused(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    (tmp_path / "secret").write_text("{}")
    (folder / "link").symlink_to(tmp_path / "secret")
    (folder / "circle").symlink_to(folder / "circle")
    (folder / "train.jsonl").write_text("{}")
    office = Office(Database())
    inside = replace(office.retraining, training_data=folder)
    with pytest.raises(InvalidRequest) as error:
        inside.request(ADMIN, Retrain(training_data=name))
    assert [one.pointer for one in error.value.faults] == ["/training_data"]
    with pytest.raises(InvalidRequest):
        office.retraining.request(ADMIN, Retrain(training_data="train.jsonl"))
    assert inside.request(ADMIN, Retrain(training_data="train.jsonl")).payload["training_data"]


def test_answers_have_the_error_rates_that_recalibration_knows(fits: Fits) -> None:
    office = Office(Database())
    office.plan()
    office.predict(*["0.9"] * 12)
    office.settle(ANN)
    office.predict(*["0.2"] * 12)
    office.settle(ANN, wrong_below=0.5)
    trusting = office.retraining.request(ADMIN, Retrain())
    office.retraining.run(trusting, Worker())
    assert {rates for _, rates in fits.rows} == {None}
    with pytest.raises(RatesUnknown):
        office.retraining.run(replace(trusting, payload={"noise": "known"}), Worker())
    rates = GroupChange("All", Rates(0.2, 0.1), Rates(0.05, 0.3))
    Annotators(office.begin, office.now, office.new_id).change_group(ADMIN, "default", rates, None)
    office.retraining.run(replace(trusting, payload={"noise": "known"}), Worker())
    found = {
        (row["kind"], row["agreed"], row["suggestion_shown"]): rates for row, rates in fits.rows
    }
    assert found == {
        ("audit", True, False): Rates(0.0, 0.1),
        ("audit", False, False): WAITS_FOR_A_LEAD,
        ("review", True, True): Rates(0.05, 0.3),
        ("review", False, True): Rates(0.05, 0.3),
    }


def decided(number: int, seed: int, **changes: object) -> dict[str, object]:
    """Return a row of the export about a generated document."""
    one = documents(number + 1, seed=seed)[number]
    return {
        "prediction_id": f"p{number:04}",
        "document_id": one["id"],
        "client_id": "billing",
        "reviewer": "ann",
        "labels": one["labels"],
        "kind": "review",
        "settles": True,
        "suggestion_shown": False,
        "audit_role": "none",
        "text": one["text"],
        **changes,
    }


def no_report(share: float, message: str) -> None:
    """Ignore progress."""


def test_a_fit_learns_from_the_history_and_the_reviews_but_not_from_what_certifies(
    tmp_path: Path,
) -> None:
    history = write_documents(tmp_path / "history.jsonl", 220, seed=5)
    items = documents(220, seed=5)
    rows = [(decided(place, 9), None) for place in range(30)]
    rows.append((decided(30, 9, text=items[0]["text"], labels=[items[0]["labels"][0]]), None))
    rows.append(
        (decided(31, 9, text=items[1]["text"], audit_role="certification", kind="audit"), None)
    )
    target = tmp_path / "model"
    serving = replace(OLD, summary={**OLD.summary, "training": {"texts_by": "characters"}})
    found = analysis.fit_again(
        rows, history, serving, preset="paper", target=target, report=no_report
    )
    assert found == {
        "documents": 218 + 31,
        "earlier": 218,
        "reviewed": 31,
        "left_out": {"they were drawn to certify": 1},
    }
    training = load(target).manifest["training"]
    assert (training["preset"], training["texts_by"]) == ("paper", "characters")


@pytest.mark.filterwarnings("ignore::setwise.TrainingWarning")
def test_a_fit_says_if_the_model_answers_alike_whatever_it_reads(tmp_path: Path) -> None:
    texts = [f"only{place}" for place in range(80)]
    rows = [(decided(place, 9, text=text, labels=["a"]), None) for place, text in enumerate(texts)]
    rows[0] = decided(0, 9, text="only0", labels=["b"]), None
    options: dict[str, Any] = {"preset": "fast", "target": tmp_path / "m", "report": no_report}
    found = analysis.fit_again(rows, None, None, **options)
    assert "the same set to every document" in str(found["remark"])


def noisy(rates: Rates | str, places: range, **changes: object) -> list[tuple[Any, Rates | str]]:
    return [(decided(place, 9, **changes), rates) for place in places]


@pytest.mark.filterwarnings("ignore:.*too few for exact confidences")
def test_noisy_answers_and_the_noisy_history_are_corrected_for(tmp_path: Path) -> None:
    history = write_documents(tmp_path / "history.jsonl", 150, seed=5)
    earlier = {"training": {"noise": {"unnamed": {"alpha": 0.3, "beta": 0.01}}}}
    serving = replace(OLD, summary={**OLD.summary, **earlier})
    rows = [
        *noisy(Rates(0.2, 0.1), range(40)),
        *noisy(Rates(0.1, 0.0), range(40, 60), suggestion_shown=True),
        *noisy(NO_RATES, range(60, 70)),
        *noisy(NO_RATES, range(70, 80), kind="adjudication"),
    ]
    target = tmp_path / "model"
    options = {"preset": "paper", "target": target, "report": no_report}
    found = analysis.fit_again(rows, history, serving, **options)
    assert found["left_out"] == {NO_RATES: 10}
    assert (found["earlier"], found["reviewed"]) == (150, 70)
    noise = load(target).manifest["training"]["noise"]
    assert noise["mean_alpha"] == pytest.approx((150 * 0.3 + 40 * 0.2 + 20 * 0.1) / 220)
    assert noise["mean_beta"] == pytest.approx((150 * 0.01 + 40 * 0.1) / 220)
    assert noise["unnamed"] == pytest.approx(earlier["training"]["noise"]["unnamed"])


def test_a_model_of_vectors_learns_from_named_features(tmp_path: Path) -> None:
    history = tmp_path / "history.jsonl"
    lines = [vector(place, 5) for place in range(150)]
    history.write_text("".join(json.dumps(line) + "\n" for line in lines))
    rows = [(decided(place, 9, **vector(place, 9), text=None), None) for place in range(100)]
    rows.append((decided(100, 9, text=None, features=lines[0]["features"]), None))
    rows.append((decided(101, 9), None))
    serving, target = replace(OLD, summary={"kind": "vectors"}), tmp_path / "model"
    options = {"preset": "paper", "target": target, "report": no_report}
    found = analysis.fit_again(rows, history, serving, **options)
    assert (found["earlier"], found["reviewed"]) == (149, 101)
    assert found["left_out"] == {"they have no features": 1}
    model = load(target)
    assert (model.kind, "verdict" in model.feature_names) == ("vectors", True)
    texts = write_documents(tmp_path / "texts.jsonl", 20, seed=5)
    with pytest.raises(InvalidRequest, match="holds text, but the model that serves reads vectors"):
        analysis.fit_again(rows, texts, serving, **options)


def vector(place: int, seed: int) -> dict[str, Any]:
    """Return the counts of a generated document's words."""
    one = documents(place + 1, seed=seed)[place]
    counts = Counter(str(one["text"]).split())
    return {"id": f"v{place}", "features": dict(counts), "labels": one["labels"]}


def test_an_external_model_learns_which_set_to_announce_and_keeps_all_its_labels(
    tmp_path: Path,
) -> None:
    made = documents(320, seed=9)
    rows = [
        (decided(place, 9, answer=made[place]["labels"][:1], metadata={"tries": place % 3}), None)
        for place in range(209)
    ]
    rows.append((decided(209, 9, answer=None), None))
    summary = {"kind": "external", "method": "external", "numbers": ["tries"]}
    serving, target = replace(OLD, summary=summary), tmp_path / "model"
    labels = [*sorted(LABELS), "z"]
    with pytest.warns(DataWarning, match="1 label on no document"):
        found = analysis.fit_again(
            rows, None, serving, labels=labels, preset=None, target=target, report=no_report
        )
    assert found["documents"] == 209
    assert found["left_out"] == {"they have no answers of another model": 1}
    model = load(target)
    assert (model.kind, [*model.label_names], model.numbers) == ("external", labels, ("tries",))
    new = made[220:]
    items = [{"labels": one["labels"][:1]} for one in new]
    answers = answers_of(model.label_names, items, numbers=model.numbers)
    predictions = model.predict_answers(answers, [str(one["text"]) for one in new])
    right = sum(
        predictions.ranked(place)[0].labels == tuple(one["labels"]) for place, one in enumerate(new)
    )
    assert right > sum(len(one["labels"]) == 1 for one in new) + 10  # those answered rightly


def test_too_few_documents_are_refused(tmp_path: Path) -> None:
    rows = [(decided(place, 9), None) for place in range(20)]
    options: Any = {"preset": None, "target": tmp_path, "report": no_report}
    with pytest.raises(NotEnoughReviews, match=r"20 documents .* 60 are needed"):
        analysis.fit_again(rows, None, None, **options)
    external = replace(OLD, summary={"kind": "external"})
    with pytest.raises(NotEnoughReviews, match=r"0 documents .* 200 are needed"):
        analysis.fit_again(rows, None, external, **options)


def test_a_cancelled_job_stops_while_it_reads_the_history(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("setwise.models.data.lines._LINES_BETWEEN_REPORTS", 5)
    history = write_documents(tmp_path / "history.jsonl", 30, seed=5)
    history.write_text(history.read_text() + "no JSON\n")
    options = {"preset": None, "target": tmp_path, "report": interrupted}
    with pytest.raises(Interrupted):
        analysis.fit_again([], history, None, **options)


def interrupted(share: float, message: str) -> None:
    assert message == "reading the training data"
    assert 0.0 <= share <= 0.1
    raise Interrupted


def test_a_history_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    history = tmp_path / "history.jsonl"
    history.write_text("no JSON\n")
    with pytest.raises(InvalidRequest, match="not JSON"):
        analysis.fit_again([], history, None, preset=None, target=tmp_path, report=no_report)


def test_without_a_difference_there_is_no_p_value() -> None:
    assert OnAudits(10, 8, 8).p_value is None
    assert "no audit" in OnAudits().sentence()
