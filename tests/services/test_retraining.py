"""A new version learns from what people decided, and waits for a person beside the old one."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from setwise.models.storage.artifacts import load
from setwise.service.domain.errors import Forbidden, InvalidRequest, NotEnoughReviews
from setwise.service.domain.retraining import OnAudits, Retrain
from setwise.service.services.analysis import retraining as analysis
from setwise.service.services.retraining import Retraining
from setwise.service.stores.transaction import Transactions
from tests import building
from tests.fakes import FakeLoader, FakeStore
from tests.loop import Loop
from tests.samples import ADMIN, CLIENT, LEAD, model
from tests.services.test_certification_of_candidates import Better
from tests.services.test_files import Worker
from tests.sqlite import Database
from tests.trained import documents, write_documents

OLD = replace(
    model("sha256:model"), summary={"kind": "text", "calibrator_version": "sha256:calibrator"}
)


class Office(Loop):
    """The loop with a model that is wrong in every set; each new fit is right."""

    def __post_init__(self) -> None:
        super().__post_init__()
        loader, parts = FakeLoader(Better()), (self.begin, self.now, self.new_id)
        self.models = building.models(*parts, loader=loader)
        self.retraining = Retraining(
            *parts,
            models=self.models,
            certifications=building.certifications(*parts, loader=loader),
            lease_clock=self.now,
        )
        with self.begin() as transaction:
            transaction.models.add(OLD)
            transaction.models.activate(OLD.id, self.now(), self.new_id())
            transaction.commit()


class Fits:
    """Stands for the fit; remembers the rows."""

    def __init__(self) -> None:
        self.rows: list[Mapping[str, object]] = []
        self.times = 0

    def __call__(self, rows: list[Mapping[str, object]], *_: object, **__: object) -> object:
        self.rows, self.times = rows, self.times + 1
        return {"documents": len(rows)}


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
    made = office.predict(*["0.9"] * 40)
    office.read(wrong_below=1.0)
    job = office.retraining.request(ADMIN, Retrain(preset="fast"))
    result = office.retraining.run(job, Worker())
    assert len(fits.rows) >= len(made)
    (new,) = [one for one in office.models.page(ADMIN) if one.id != OLD.id]
    assert not new.active
    assert result["model_id"] == new.id
    assert office.models.comparison(ADMIN, new.id).shadow is not None
    found = result["on_audits"]
    assert isinstance(found, dict)
    assert found["audits"] == found["candidate_right"] == found["only_candidate_right"] > 10
    assert found["serving_right"] == 0
    assert found["p_value"] < 0.001
    assert "activate it by hand" in str(result["reason"])
    assert office.policy.certificate_id is None


def test_one_job_at_a_time_and_administrators_only(office: Office) -> None:
    first = office.retraining.request(ADMIN, Retrain())
    assert office.retraining.request(ADMIN, Retrain(preset="best")).id == first.id
    for caller in (LEAD, CLIENT):
        with pytest.raises(Forbidden):
            office.retraining.request(caller, Retrain())


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
    "name", ["", "/etc/passwd", "../secret", "a/../../secret", "a\0b", "a\\b", "link", "none"]
)
def test_training_data_outside_the_folder_is_refused(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    (tmp_path / "secret").write_text("{}")
    (folder / "link").symlink_to(tmp_path / "secret")
    (folder / "train.jsonl").write_text("{}")
    office = Office(Database())
    inside = replace(office.retraining, training_data=folder)
    with pytest.raises(InvalidRequest) as refused:
        inside.request(ADMIN, Retrain(training_data=name))
    assert [one.pointer for one in refused.value.faults] == ["/training_data"]
    with pytest.raises(InvalidRequest):
        office.retraining.request(ADMIN, Retrain(training_data="train.jsonl"))
    assert inside.request(ADMIN, Retrain(training_data="train.jsonl")).payload["training_data"]


def test_models_of_vectors_are_not_trained_here() -> None:
    office = Office(Database())
    vectors = replace(model("sha256:v"), summary={"kind": "vectors"})
    with office.begin() as transaction:
        transaction.models.add(vectors)
        transaction.models.activate(vectors.id, office.now(), office.new_id())
        transaction.commit()
    with pytest.raises(InvalidRequest, match="models of texts"):
        office.retraining.request(ADMIN, Retrain())


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
    known = documents(220, seed=5)
    rows = [decided(place, 9) for place in range(30)]
    rows.append(decided(30, 9, text=known[0]["text"], labels=[known[0]["labels"][0]]))
    rows.append(decided(31, 9, text=known[1]["text"], audit_role="certification", kind="audit"))
    target = tmp_path / "model"
    found = analysis.fit_again(rows, history, OLD, preset="paper", target=target, report=no_report)
    assert found == {
        "documents": 218 + 31,
        "earlier": 218,
        "reviewed": 31,
        "left_out": {"they were drawn to certify": 1},
    }
    assert load(target).manifest["training"]["preset"] == "paper"


def test_too_few_documents_are_refused(tmp_path: Path) -> None:
    rows = [decided(place, 9) for place in range(20)]
    with pytest.raises(NotEnoughReviews, match=r"20 documents .* 200 are needed"):
        analysis.fit_again(rows, None, None, preset=None, target=tmp_path, report=no_report)


def test_a_history_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    history = tmp_path / "history.jsonl"
    history.write_text("no JSON\n")
    with pytest.raises(InvalidRequest, match="not JSON"):
        analysis.fit_again([], history, None, preset=None, target=tmp_path, report=no_report)


def test_without_a_difference_there_is_no_p_value() -> None:
    assert OnAudits(10, 8, 8).p_value is None
    assert "no audit" in OnAudits().sentence()
