"""What the demo does with a folder that it finds: go on, top up, mend; on fakes."""

import json
import shlex
import stat
from collections import Counter
from datetime import timedelta
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from setwise.models.demo_notes import ANNOTATORS
from setwise.service.cli import demo as demo_command
from setwise.service.cli.demo import LEAST_WAITING, TOP_UP
from setwise.service.cli.demo.accounts import LOGINS, DemoPeople, Keyring, SecretsFile
from setwise.service.cli.demo.history import History, HistoryPlan, TravellingClock, incoming_notes
from setwise.service.cli.demo.welcome import Examples, shown, welcome
from setwise.service.domain.accounts.callers import SYSTEM, Caller, Role
from setwise.service.domain.policy import PolicyChange, ThresholdMode
from setwise.service.domain.predictions import Document, ScoredSet
from setwise.service.domain.reviews import ReviewKind
from tests.building import predict_one
from tests.fakes import (
    START,
    FakeClock,
    FakePredictor,
    FakePredictors,
    scored_set,
)
from tests.kit.clinic import Clinic

PLAN = HistoryPlan(days=6, weekday=26, weekend=8, reviews=12, certified_on=(4,))
INCOMING = incoming_notes()[: PLAN.documents(START)]
LABELS = tuple(sorted({label for note in incoming_notes() for label in note.labels}))


class HalfSure(FakePredictor):
    """Sure of every second note, and knows the codes of all."""

    def __init__(self) -> None:
        super().__init__(labels=LABELS)

    @staticmethod
    def _score(text: str) -> ScoredSet:
        sure = sha256(text.encode()).digest()[0] % 2
        return scored_set(0.95 if sure else 0.4, labels=LABELS[:1])


@pytest.fixture
def clinic() -> Clinic:
    """Return a clinic whose clock travels, and whose model is sure of every second note."""
    return Clinic(now=TravellingClock(FakeClock()), predictors=FakePredictors(HalfSure()))


def services(clinic: Clinic) -> Any:
    """Return the services that the demo uses, by the names that it uses."""
    return SimpleNamespace(
        keys=clinic.keys,
        people=clinic.people,
        policy=clinic.policies,
        reports=clinic.reports,
        predictions=clinic.predictions,
        outcomes=clinic.outcomes,
        certification=clinic.certifications,
        annotators=clinic.annotators,
        queue=clinic.queue,
        reviews=clinic.reviews,
    )


def fill(clinic: Clinic, folder: Path) -> None:
    keys = keyring(clinic, folder)
    secrets = keys.opened()
    demo_command._fill(services(clinic), keys, secrets, lambda *_: None, clinic.now, PLAN)


# Keys


def keyring(clinic: Clinic, folder: Path) -> Keyring:
    return Keyring(SecretsFile(folder / "keys.json"), services(clinic))


def test_each_role_gets_a_key_and_keeps_it(clinic: Clinic, tmp_path: Path) -> None:
    secrets = keyring(clinic, tmp_path).opened()
    assert {clinic.keys.authenticate(secret).role for secret in secrets.values()} == set(Role)
    assert keyring(clinic, tmp_path).opened() == secrets
    assert len(clinic.keys.all(SYSTEM)) == len(Role)


def test_keys_are_kept_in_a_private_file(clinic: Clinic, tmp_path: Path) -> None:
    secrets = keyring(clinic, tmp_path).opened()
    path = tmp_path / "keys.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert json.loads(path.read_text()) == secrets
    assert [file.name for file in tmp_path.iterdir()] == ["keys.json"]


def test_only_a_revoked_key_is_made_anew(clinic: Clinic, tmp_path: Path) -> None:
    before = keyring(clinic, tmp_path).opened()
    caller = clinic.keys.authenticate(before["client"])
    clinic.keys.revoke(SYSTEM, caller.id)
    after = keyring(clinic, tmp_path).opened()
    assert after["client"] != before["client"]
    assert {role for role in after if after[role] != before[role]} == {"client"}
    assert clinic.keys.authenticate(after["client"]).role is Role.CLIENT


@pytest.mark.parametrize("content", ["", "{", "[1]", '{"client": 5}', "null"])
def test_a_damaged_file_of_keys_is_replaced(clinic: Clinic, tmp_path: Path, content: str) -> None:
    (tmp_path / "keys.json").write_text(content)
    secrets = keyring(clinic, tmp_path).opened()
    assert json.loads((tmp_path / "keys.json").read_text()) == secrets


# People


def people(clinic: Clinic, folder: Path) -> DemoPeople:
    return DemoPeople(SecretsFile(folder / "passwords.json"), services(clinic))


def passwords_that_work(clinic: Clinic) -> dict[str, str]:
    hashes = {person.login: person.password for person in clinic.people.all(SYSTEM)}
    return {login: hashed.removeprefix("1:")[::-1] for login, hashed in hashes.items()}


def test_people_get_passwords_that_work_and_keep_them(clinic: Clinic, tmp_path: Path) -> None:
    made = people(clinic, tmp_path).opened()
    assert made.keys() == LOGINS.keys()
    assert passwords_that_work(clinic) == made
    assert len(set(made.values())) == len(made)
    assert people(clinic, tmp_path).opened() == made
    assert stat.S_IMODE((tmp_path / "passwords.json").stat().st_mode) == 0o600


def test_a_lost_file_of_passwords_is_made_anew(clinic: Clinic, tmp_path: Path) -> None:
    before = people(clinic, tmp_path).opened()
    (tmp_path / "passwords.json").unlink()
    after = people(clinic, tmp_path).opened()
    assert after != before
    assert passwords_that_work(clinic) == after


# History


def test_a_first_run_posts_and_reviews(clinic: Clinic, tmp_path: Path) -> None:
    fill(clinic, tmp_path)
    counts = clinic.reports.summary(SYSTEM)
    assert counts.predictions == len(INCOMING)
    assert counts.completed > 40
    assert counts.auto_sent > 0
    assert counts.waiting > LEAST_WAITING
    assert counts.leased == 0
    names = {key.name for key in clinic.keys.all(SYSTEM)}
    assert names >= {f"{name} (generated)" for name in ANNOTATORS}
    ids = {prediction.document.id for prediction in clinic.contents.predictions.values()}
    assert ids == {note.id for note in INCOMING}


def test_annotators_answer_near_the_truth_whatever_was_suggested(
    clinic: Clinic, tmp_path: Path
) -> None:
    fill(clinic, tmp_path)
    truth = {note.id: set(note.labels) for note in INCOMING}
    predictions = clinic.contents.predictions
    answers = [
        set(a.labels) == truth[predictions[a.prediction_id].document.id]
        for a in clinic.contents.annotations.values()
    ]
    assert len(answers) > 40
    assert 0.6 < sum(answers) / len(answers) < 1


def test_the_history_lies_in_the_past_in_order_and_ends_today(
    clinic: Clinic, tmp_path: Path
) -> None:
    fill(clinic, tmp_path)
    contents = clinic.contents
    came = [one.created_at for one in sorted(contents.predictions.values(), key=lambda p: p.id)]
    assert came == sorted(came)
    assert (START - came[0]).days == PLAN.days - 2  # from eight in the morning
    assert came[-1] == START
    assert clinic.now() == START
    by_prediction = {one.prediction_id: one for one in contents.annotations.values()}
    assert all(
        one.created_at >= contents.predictions[key].created_at for key, one in by_prediction.items()
    )
    assert all(
        10 < one.seconds < 80 for one in by_prediction.values() if one.created_at < came[-26]
    )
    assert contents.certifications


def test_every_kind_of_work_was_done_and_some_is_left(clinic: Clinic, tmp_path: Path) -> None:
    fill(clinic, tmp_path)
    contents = clinic.contents
    kinds = Counter(one.kind for one in contents.annotations.values())
    assert kinds.keys() == set(ReviewKind) - {ReviewKind.REOPENED}
    left = Counter(one.kind for one in contents.reviews.values() if one.state == "waiting")
    assert left[ReviewKind.ADJUDICATION] > 0
    assert left[ReviewKind.REVIEW] > 0
    first = clinic.queue.claim(Caller("newcomer", "Newcomer", Role.REVIEWER))
    assert first.kind is ReviewKind.REVIEW  # which shows what the model suggests
    assert {one.group for one in contents.annotations.values()} >= {"senior-coders", "trainees"}


def test_a_second_run_adds_nothing_to_a_long_queue(clinic: Clinic, tmp_path: Path) -> None:
    fill(clinic, tmp_path)
    before = clinic.reports.summary(SYSTEM)
    fill(clinic, tmp_path)
    assert clinic.reports.summary(SYSTEM) == before


def test_a_short_queue_is_topped_up_with_notes_not_seen_before(
    clinic: Clinic, tmp_path: Path
) -> None:
    fill(clinic, tmp_path)
    for reader in (Caller("reviewer", "Ada", Role.REVIEWER), Caller("lead", "Lee", Role.LEAD)):
        while task := clinic.queue.claim(reader):
            clinic.reviews.complete(reader, task.id, [], None, task.version)
    fill(clinic, tmp_path)
    counts = clinic.reports.summary(SYSTEM)
    assert counts.predictions == len(INCOMING) + TOP_UP
    assert counts.waiting > 0
    ids = [prediction.document.id for prediction in clinic.contents.predictions.values()]
    assert len(set(ids)) == len(ids)


def test_a_run_that_was_cut_short_is_finished(clinic: Clinic, tmp_path: Path) -> None:
    keys = keyring(clinic, tmp_path)
    secrets = keys.opened()
    client, reviewer = (clinic.keys.authenticate(secrets[r]) for r in ("client", "reviewer"))
    history = History(services(clinic), clinic.now, client, reviewer, keys.annotator, PLAN)

    def power_cut(fraction: float, _: str = "") -> None:
        if fraction > 0.5:
            raise KeyboardInterrupt

    history.begin()
    with pytest.raises(KeyboardInterrupt):
        history.happen(0, power_cut)
    assert 0 < clinic.reports.summary(SYSTEM).predictions < len(INCOMING)
    fill(clinic, tmp_path)
    assert clinic.reports.summary(SYSTEM).predictions == len(INCOMING)
    ids = {prediction.document.id for prediction in clinic.contents.predictions.values()}
    assert len(ids) == len(INCOMING)


def test_a_policy_that_somebody_set_stays(clinic: Clinic, tmp_path: Path) -> None:
    change = PolicyChange(0.9, 0.2, False, ThresholdMode.FIXED, 0.7)
    policy = clinic.policies.change(SYSTEM, change, None)
    fill(clinic, tmp_path)
    assert clinic.policies.get(SYSTEM) == policy


def test_generated_annotators_leave_documents_of_others_alone(
    clinic: Clinic, tmp_path: Path
) -> None:
    keys = keyring(clinic, tmp_path)
    client = clinic.keys.authenticate(keys.opened()["client"])
    clinic.now.travel(START - timedelta(days=60))  # the oldest task is somebody else's
    while clinic.reports.summary(SYSTEM).waiting == 0:
        text = f"of my own {clinic.reports.summary(SYSTEM).predictions}"
        predict_one(clinic.predictions, client, Document(text=text))
    clinic.now.come_back()
    fill(clinic, tmp_path)
    counts = clinic.reports.summary(SYSTEM)
    assert counts.completed == counts.leased == 0


# The welcome


def test_a_folder_is_named_as_one_would_say_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert shown(tmp_path / "demo") == "demo"
    assert shown(tmp_path) == str(tmp_path)
    assert shown(tmp_path.parent) == str(tmp_path.parent)


def test_calls_survive_quotes_and_paths_with_spaces() -> None:
    examples = Examples(clear="won't $HOME `id`\nnext line", vague='says "no"')
    text = welcome(
        "http://127.0.0.1:1",
        {"client": "sw_client_x", "reviewer": "r", "lead": "l", "admin": "a"},
        Path("/a folder/demo"),
        passwords={"reviewer": "abcd-efgh"},
        examples=examples,
        command=Path("/with space/setwise"),
    )
    assert "  reviewer  abcd-efgh  Review: submit label sets" in text
    calls = [
        shlex.split(line.partition(" -d ")[2])
        for line in text.splitlines()
        if " -d '{" in line or ' -d "{' in line
    ]
    documents = [json.loads(call[0])["document"]["text"] for call in calls]
    assert documents == [examples.clear, examples.vague]
    assert "'/with space/setwise' train '/a folder/demo/notes' --out my-model" in text
