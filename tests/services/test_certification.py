"""From audits to a threshold in force, or to the number of audits that lack."""

from collections import Counter
from dataclasses import replace

import pytest

from setwise.models.guarantees.paths.spending import ON_DEMAND, risk_on_demand
from setwise.service.domain.breaker import BreakerRule
from setwise.service.domain.certification import CommonForm, Scorer
from setwise.service.domain.certification.proofs import bets_since
from setwise.service.domain.errors import (
    CertificationNotFound,
    NotEnoughReviews,
    StaleVersion,
)
from setwise.service.domain.predictions import (
    Decision,
    Document,
    Reason,
    ScoredSet,
    Submission,
)
from setwise.service.domain.routing.audits import AuditMode, AuditPlan, AuditRole
from setwise.service.services.predictions import all_predicted
from setwise.service.stores.certification import CertificationStore
from setwise.service.stores.transaction import Transactions
from tests import building
from tests.fakes import LOTTERY, FakePredictor, scored_set
from tests.kit.databases import ON_BOTH, Database
from tests.kit.loop import HALF, Loop, audited, remembered, unlike, wanted
from tests.samples import ADMIN, ANN, CLIENT, LEAD, change


class Recalibrated(FakePredictor):
    """The same model behind another calibrator."""

    @staticmethod
    def _score(text: str) -> ScoredSet:
        return scored_set(float(text))._replace(calibrator_version="sha256:another")


@pytest.fixture
def loop(begin: Transactions) -> Loop:
    return Loop(begin)


def test_predictions_are_not_read_before_an_attempt_is_due(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loop = Loop(Database())
    loop.plan()
    loop.predict(*["0.9"] * 16)
    loop.read()
    monkeypatch.setattr(CertificationStore, "unaudited", None)
    assert loop.certify_if_due() is None
    with pytest.raises(TypeError):
        loop.certify(ADMIN.id)


@ON_BOTH
def test_audits_prove_a_threshold_that_then_sends_by_itself(loop: Loop) -> None:
    loop.plan()
    first = loop.predict(*["0.9"] * 40, *["0.3"] * 16)
    assert {one.decision for one in first} == {Decision.REVIEW}
    loop.read(wrong_below=0.5)
    made = loop.certify(ADMIN.id)
    assert (made.threshold, made.reason, made.attempt) == (0.9, None, 1)
    drawn = [one for one in first if one.selection.role is AuditRole.CERTIFICATION]
    assert made.evidence.n_audits == len(drawn)
    assert made.evidence.n_predictions == len(first) - len(drawn)
    for text, reason in (("0.9", Reason.ABOVE_THRESHOLD), ("0.3", Reason.BELOW_THRESHOLD)):
        later = [one for one in loop.predict(*[text] * 8) if one.reason is not Reason.AUDIT]
        assert {one.reason for one in later} == {reason}
    with loop.begin(read_only=True) as transaction:
        policy = transaction.policies.current()
    (state,) = policy.states
    assert (state.certificate_id, state.certified_for) == (made.id, made.scorer)


@pytest.mark.parametrize(
    ("tree", "near"), [("", None), ("label,parent\na,\nb,a", 0), ("label,parent\na,\nb,a\nc,a", 1)]
)
def test_the_evidence_counts_wrong_sets_in_the_right_branch(tree: str, near: int | None) -> None:
    loop = Loop(Database())
    loop.labels.describe(ADMIN, tree)
    loop.plan(AuditPlan(certification_rate=1.0, gold_reread_rate=1.0))
    loop.predict("0.9", "0.9", "0.3")
    loop.read(wrong_below=0.5)
    evidence = loop.certify(ADMIN.id).evidence
    assert (evidence.wrong_sets, evidence.right_branch) == (1, near)


@ON_BOTH
def test_other_parents_end_a_certificate_of_a_policy_that_requires_them(loop: Loop) -> None:
    tree = "label,parent\na,\nb,a"
    loop.labels.describe(ADMIN, tree)
    loop.plan(rules=[{"kind": "parents"}])
    loop.predict(*["0.9"] * 40)
    loop.read()
    proof = loop.certify(ADMIN.id)
    in_force = loop.policy.version
    loop.labels.describe(ADMIN, f"{tree}\nc,a")
    assert (loop.gate.threshold, loop.gate.certificate_id) == (None, None)
    event = [*loop.contents.events.values()][-1]
    assert (event.action, event.detail["replaced"]) == ("policy.changed", in_force)
    assert "The certificate ends" in event.detail["certificate_ends"]
    loop.labels.describe(ADMIN, tree)
    assert (loop.gate.threshold, loop.gate.certificate_id) == (0.9, proof.id)


def test_too_few_audits_are_counted_and_nothing_is_sent(loop: Loop) -> None:
    loop.plan()
    loop.predict(*["0.9"] * 16)
    loop.read()
    made = loop.certify(ADMIN.id)
    assert (made.threshold, made.reason) == (None, "too-few-audits")
    assert made.further_audits is not None
    assert made.further_audits > 0
    assert {one.decision for one in loop.predict("0.99")} == {Decision.REVIEW}


def test_without_rereading_nobody_knows_how_many_errors_auditors_miss(loop: Loop) -> None:
    loop.plan(AuditPlan(certification_rate=0.5))
    loop.predict(*["0.9"] * 30)
    loop.read()
    assert loop.certify(ADMIN.id).reason == "miss-rate-unknown"


def test_a_contradiction_that_waits_for_a_lead_counts_against_the_model(loop: Loop) -> None:
    loop.plan()
    loop.predict(*["0.9"] * 40)
    loop.settle(ANN, wrong_below=1.0)
    refused = loop.certify(ADMIN.id)
    assert refused.reason == "below-target"
    loop.settle(LEAD)
    assert loop.certify(ADMIN.id).threshold == 0.9


def test_an_agreement_counts_once_the_lead_who_reads_it_again_has(loop: Loop) -> None:
    loop.plan()
    loop.predict(*["0.9"] * 40)
    loop.settle(ANN)
    early = loop.certify(ADMIN.id)
    assert (early.reason, early.evidence.n_audits) == ("no-audits", 0)
    loop.settle(LEAD)
    assert loop.certify(ADMIN.id).threshold == 0.9


def test_audits_are_read_again_by_the_policy_that_drew_them(loop: Loop) -> None:
    loop.plan()
    loop.predict(*["0.9"] * 40)
    loop.plan(AuditPlan(certification_rate=0.5))
    loop.settle(ANN)
    assert loop.settle(LEAD) > 0
    assert loop.certify(ADMIN.id).threshold == 0.9


def test_the_chance_of_a_second_reading_is_stored_with_the_answer(loop: Loop) -> None:
    loop.plan(AuditPlan(certification_rate=0.5, gold_reread_rate=0.4))
    made = loop.predict(*["0.9"] * 40)
    loop.settle(ANN)
    with loop.begin() as transaction:
        found = transaction.evidence.audited(Scorer("sha256:model", "sha256:calibrator"))
        for one in found:
            assert one.check is not None
            drawn = LOTTERY.reread(one.client_id, one.name)
            assert (one.reread_rate, one.reread_draw) == (0.4, drawn)
            assert one.check.waits is one.drawn_again
        transaction.texts.forget([one.id for one in made])
        transaction.commit()
    known = loop.certify(ADMIN.id).evidence
    assert known.excluded["too recent"] == len(found)


def test_leads_read_more_again_where_sets_may_be_sent(loop: Loop) -> None:
    loop.plan(AuditPlan(certification_rate=0.5, gold_reread_rate=0.4))
    loop.predict(*["0.9"] * 20, *["0.3"] * 20)
    loop.settle(ANN)
    with loop.begin(read_only=True) as transaction:
        found = transaction.evidence.audited(Scorer("sha256:model", "sha256:calibrator"))
    rates = {one.confidence: one.reread_rate for one in found}
    assert rates[0.3] == pytest.approx(0.2 * 0.4)
    high = rates[0.9]
    assert 0.4 < high < 1.0


def test_audits_of_days_on_which_some_are_unread_are_left_out_and_counted(loop: Loop) -> None:
    loop.plan()
    made = loop.predict(*["0.9"] * 20)
    drawn = sum(one.selection.role is AuditRole.CERTIFICATION for one in made)
    found = loop.certify(ADMIN.id)
    assert found.reason == "no-audits"
    excluded = found.evidence.excluded
    assert isinstance(excluded, dict)
    assert {why: n for why, n in excluded.items() if n} == {"too recent": drawn}


def test_if_every_document_is_audited_some_audits_set_the_thresholds(loop: Loop) -> None:
    loop.plan(AuditPlan(certification_rate=1.0, gold_reread_rate=1.0))
    made = loop.predict(*["0.9"] * 80)
    loop.read()
    proof = loop.certify(ADMIN.id)
    assert proof.threshold == 0.9
    kept = [one for one in made if one.selection.draw is not None and one.selection.draw < 0.9]
    assert (proof.evidence.n_audits, proof.evidence.n_predictions) == (
        len(kept),
        80 - len(kept),
    )


def test_what_nobody_has_read_in_time_counts_as_wrong(loop: Loop) -> None:
    audited(loop)
    loop.predict(*["0.9"] * 40)
    assert loop.certify(ADMIN.id).reason == "no-audits", "all are recent, and some are unread"
    loop.now.advance(days=8)
    refused = loop.certify(ADMIN.id)
    assert refused.threshold is None
    assert refused.evidence.unfinished > 10
    loop.read()
    assert loop.certify(ADMIN.id).threshold == 0.9


def test_contradictions_that_no_lead_has_decided_say_nothing_about_missed_errors(
    loop: Loop,
) -> None:
    loop.plan()
    loop.predict(*["0.9"] * 40)
    loop.settle(ANN, wrong_below=1.0)
    found = loop.certify(ADMIN.id).evidence
    assert found.undecided == found.n_audits == found.n_drawn
    assert found.errors_known == 0


def test_a_document_that_came_twice_counts_once(loop: Loop) -> None:
    loop.plan(AuditPlan(certification_rate=1.0, gold_reread_rate=1.0))
    loop.predict("0.9")
    loop.documents = 0
    loop.predict("0.9")
    loop.read()
    found = loop.certify(ADMIN.id)
    assert found.evidence.n_audits == 1


def test_a_second_reading_that_waits_does_not_vanish_behind_a_copy(loop: Loop) -> None:
    """Each copy has a draw of its own for that, so that one of many is hardly ever drawn."""
    loop.plan(AuditPlan(certification_rate=0.5, gold_reread_rate=0.3))
    names = [f"{copy} of {place}" for copy in range(5) for place in range(40)]
    copies = [
        Submission(CLIENT, Document(id=name, text=unlike("0.9", place % 40)))
        for place, name in enumerate(names)
    ]
    made = all_predicted(loop.predictions.predict(copies))
    audits = [one for one in made if one.selection.role is AuditRole.CERTIFICATION]
    waiting = [one for one in audits if LOTTERY.reread(CLIENT.id, one.name) < 0.3]
    assert 3 < len(waiting) < len(audits)
    loop.settle(ANN)
    loop.now.advance(days=8)
    found = loop.certify(ADMIN.id).evidence
    assert (found.n_drawn, found.unfinished) == (len(audits), len(waiting))
    assert (found.errors_missed, found.errors_known) == (len(waiting), len(waiting))
    sizes = Counter(one.selection.cluster for one in audits)
    copied = sum(size for size in sizes.values() if size > 1)
    assert found.in_clusters == pytest.approx(copied / len(audits))
    assert (found.steps[-1].n_audits, found.steps[-1].n_different) == (len(audits), len(sizes))


def test_messages_of_one_form_count_each_and_once(loop: Loop) -> None:
    """A form that is often wrong ends a proof, though most of the different documents are right."""
    loop.plan(AuditPlan(certification_rate=0.5, gold_reread_rate=1.0))
    plain = [Document(text=unlike("0.9", place)) for place in range(200)]
    form = [Document(text=f"0.9 sodium {place}") for place in range(100)]
    made = all_predicted(
        loop.predictions.predict([Submission(CLIENT, each) for each in (*plain, *form)])
    )
    of_form = [one for one in made[200:] if one.selection.role is AuditRole.CERTIFICATION]
    assert 20 < len(of_form) < 80, "it is neither always nor never audited"
    loop.read()
    proof = loop.certify(ADMIN.id)
    assert proof.threshold == 0.9
    step = proof.evidence.steps[-1]
    assert step.n_audits - (step.n_different or 0) == len(of_form) - 1
    share = len(of_form) / step.n_audits
    assert proof.evidence.in_clusters == share
    assert proof.evidence.common_forms == (
        CommonForm(of_form[0].id, share, len(of_form), len(of_form)),
    )


def test_audits_drawn_at_other_rates_count_too(loop: Loop) -> None:
    loop.plan(AuditPlan(certification_rate=0.2, gold_reread_rate=1.0))
    first = loop.predict(*["0.9"] * 40)
    loop.plan(AuditPlan(certification_rate=0.8, gold_reread_rate=1.0))
    second = loop.predict(*["0.9"] * 40)
    loop.read()
    found = loop.certify(ADMIN.id)
    drawn = [one for one in (*first, *second) if one.selection.role is AuditRole.CERTIFICATION]
    assert found.evidence.n_audits == len(drawn)


def test_more_is_audited_until_something_is_sent_and_again_after_a_trip(loop: Loop) -> None:
    plan = AuditPlan(certification_rate=0.1, gold_reread_rate=1.0, ramp_up_rate=0.6)

    def audited() -> float:
        made = loop.predict(*["0.9"] * 60)
        return sum(one.selection.role is AuditRole.CERTIFICATION for one in made) / 60

    loop.plan(plan)
    assert audited() == pytest.approx(0.6, abs=0.15)
    loop.read()
    assert loop.certify(ADMIN.id).threshold == 0.9
    assert audited() == pytest.approx(0.1, abs=0.1)
    loop.settle(ANN)
    loop.settle(LEAD)
    loop.plan(replace(plan, certification_rate=0.6))
    loop.predict(*["0.9"] * 100)
    loop.read(wrong_below=1.0)
    assert loop.gate.trip_id is not None
    loop.plan(plan)
    assert audited() == pytest.approx(0.6, abs=0.15)
    assert {one.selection.inclusion_probability for one in loop.predict("0.9", "0.3")} == {1.0}


def test_attempts_on_demand_spend_the_reserve(loop: Loop) -> None:
    loop.plan()
    loop.predict(*["0.9"] * 8)
    (said,) = loop.outlooks.next_attempts(ADMIN)
    attempts = [loop.certify(ADMIN.id).evidence for _ in range(3)]
    assert [each.risk for each in attempts] == [risk_on_demand(0.2, place) for place in (1, 2, 3)]
    assert [each.family for each in attempts] == [None] * 3
    assert said.reserve == attempts[0].risk
    assert said.left == pytest.approx(0.2 * ON_DEMAND - said.reserve)


def test_a_policy_that_changes_meanwhile_is_not_overwritten(loop: Loop) -> None:
    audited(loop)
    meddled = []

    def meddling_id() -> str:
        if not meddled:
            meddled.append(loop.plan(target=0.9))
        return loop.new_id()

    with pytest.raises(StaleVersion):
        building.certifications(loop.begin, loop.now, meddling_id).certify(ADMIN.id)
    with loop.begin(read_only=True) as transaction:
        assert not transaction.policies.current().has_threshold
        assert transaction.certifications.page(after=None, limit=9).items == ()


def test_a_stricter_policy_falls_back_to_nothing_and_a_laxer_one_keeps_the_proof(
    loop: Loop,
) -> None:
    audited(loop)
    proof = loop.certify(ADMIN.id)
    for target, threshold in ((0.9, None), (0.8, 0.9), (0.7, 0.9)):
        loop.plan(target=target)
        with loop.begin(read_only=True) as transaction:
            policy = transaction.policies.current()
        (state,) = policy.states
        assert state.threshold == threshold
        assert state.certificate_id == (proof.id if threshold else None)


KEPT = {"kind": "label", "name": "kept", "label": "z"}
ADDED = {"kind": "at_most", "n": 7}


@pytest.mark.parametrize(
    ("rules", "audits", "kept", "why"),
    [
        ([{**KEPT, "name": "renamed"}], HALF, True, None),
        ([KEPT], replace(HALF, certification_rate=0.6), True, None),
        ([KEPT], replace(HALF, gold_reread_rate=0.1, overlap_rate=0.1), True, None),
        ([], HALF, False, "the present rules let through"),
        ([{**KEPT, "label": "y"}], HALF, False, "the present rules let through"),
        ([KEPT, ADDED], HALF, False, "the present rules let through"),
        ([KEPT], replace(HALF, certification_rate=0.4), False, "fewer documents would be audited"),
        ([KEPT], replace(HALF, mode=AuditMode.SEND), False, "fewer documents would be audited"),
    ],
)
def test_a_certificate_holds_for_the_documents_that_it_was_proved_for(
    rules: list[object], audits: AuditPlan, kept: bool, why: str | None
) -> None:
    loop = Loop(Database())
    loop.plan(rules=[KEPT])
    loop.predict(*["0.9"] * 40)
    loop.read()
    proof = loop.certify(ADMIN.id)
    assert loop.gate.certificate_id == proof.id
    changed = replace(wanted(), rules=rules, audits=audits)
    effect = loop.policies.preview_change(ADMIN, changed)
    assert (effect.certificate_ends is None) is kept
    assert why is None or why in str(effect.certificate_ends)
    loop.plan(audits, rules=rules)
    assert loop.gate.certificate_id == (proof.id if kept else None)
    sent = {one.decision for one in loop.predict(*["0.95"] * 8)}
    assert (Decision.AUTO in sent) is kept
    loop.plan(rules=[KEPT])
    assert loop.gate.certificate_id == proof.id, "it holds again for the same documents"


def test_the_preview_of_rules_says_that_the_certificate_would_end() -> None:
    loop = Loop(Database())
    loop.plan(rules=[KEPT])
    loop.predict(*["0.9"] * 40)
    loop.read()
    loop.certify(ADMIN.id)
    preview = loop.policies.preview
    assert preview(ADMIN, rules=[KEPT]).certificate_ends is None
    assert preview(ADMIN, rules=[]).certificate_ends is not None
    assert preview(ADMIN, target_accuracy=0.99).certificate_ends is not None
    assert preview(ADMIN, threshold=0.5).certificate_ends is not None


def test_rules_count_only_the_audits_that_were_drawn_under_them() -> None:
    """Whoever adds a rule has read the errors that earlier audits found."""
    loop = Loop(Database())
    audited(loop)
    loop.plan(rules=[KEPT])
    added = loop.certify(ADMIN.id)
    assert (added.reason, added.evidence.n_drawn) == ("no-audits", 0)
    assert added.evidence.excluded["drawn under other rules"] > 8
    loop.predict(*["0.9"] * 40)
    loop.read()
    assert loop.certify(ADMIN.id).threshold == 0.9
    loop.plan()
    removed = loop.certify(ADMIN.id).evidence
    assert removed.n_drawn == added.evidence.excluded["drawn under other rules"]
    assert removed.excluded["drawn under other rules"] > 8


def test_after_a_change_of_rules_the_schedule_waits_for_audits_drawn_under_them() -> None:
    loop = Loop(Database())
    loop.plan()
    loop.predict(*["0.9"] * 100)
    loop.read()
    assert loop.certify_if_due() is not None
    loop.plan(rules=[KEPT])
    assert loop.certify_if_due() is None
    loop.predict(*["0.9"] * 160)
    loop.read()
    again = loop.certify_if_due()
    assert again is not None
    assert (again.attempt, again.evidence.family) == (2, 2)
    assert loop.gate.certificate_id == again.id
    assert loop.certify_if_due() is None


def test_a_new_calibrator_sends_nothing_on_an_old_proof(loop: Loop) -> None:
    audited(loop)
    assert loop.certify(ADMIN.id).threshold == 0.9
    loop.predictors.predictor = Recalibrated()
    (made,) = loop.predict("0.95")
    assert (made.decision, made.reason, made.threshold) == (
        Decision.REVIEW,
        Reason.NO_THRESHOLD,
        None,
    )


@pytest.mark.slow
def test_the_schedule_waits_for_more_evidence_after_a_refusal(loop: Loop) -> None:
    assert loop.certify_if_due() is None, "nothing is predicted"
    loop.plan()
    loop.predict(*["0.9"] * 16)
    assert loop.certify_if_due() is None, "nothing is read"
    loop.read()
    assert loop.certify_if_due() is None, "so few prove nothing, and would cost half of the risk"
    loop.predict(*["0.5"] * 100)
    loop.read(wrong_below=0.6)
    refused = loop.certify_if_due()
    assert refused is not None
    assert refused.threshold is None
    assert loop.certify_if_due() is None, "nothing is new"
    loop.predict(*["0.9"] * 120)
    loop.read()
    proved = loop.certify_if_due()
    assert proved is not None
    assert proved.threshold == 0.9
    loop.predict(*["0.9"] * 60)
    loop.read()
    assert loop.certify_if_due() is None, "all that is asked for is proved"


@remembered
def _proved_twice(loop: Loop) -> None:
    loop.plan()
    loop.predict(*["0.85"] * 60, *["0.99"] * 60)
    loop.read()
    assert loop.certify(ADMIN.id).proved(None) == [0.99, 0.85]
    assert loop.certifications.retest() is None


def proved_twice() -> Loop:
    """Return a loop with 0.99 and 0.85 proved, whose breaker never trips."""
    loop = Loop(Database(), rule=BreakerRule(run_length=1e300))
    _proved_twice(loop)
    return loop


def test_audits_since_a_certificate_raise_its_threshold_to_the_next_proved_one() -> None:
    loop = proved_twice()
    loop.predict(*["0.85"] * 100, *["0.99"] * 40)
    loop.read(wrong_below=0.92)
    assert loop.certifications.retest() is not None
    assert loop.gate.threshold == 0.99
    with loop.begin(read_only=True) as transaction:
        event = transaction.audit_trail.page(after=None, limit=1).items[0]
    assert event.action == "policy.retested"
    assert (event.detail["replaced"], event.detail["threshold"]) == (0.85, 0.99)
    loop.plan(target=0.75)
    assert loop.gate.threshold == 0.99, "a change of the policy does not undo it"
    assert loop.certifications.retest() is None


def test_a_threshold_that_a_retest_has_raised_comes_down_by_the_next_attempt_on_schedule() -> None:
    loop = proved_twice()
    loop.predict(*["0.85"] * 24)
    loop.read(wrong_below=0.92)
    loop.certifications.retest()
    assert loop.gate.threshold == 0.99
    assert loop.certify_if_due() is None, "too few audits are new"
    loop.predict(*["0.85"] * 360)
    loop.read()
    again = loop.certify_if_due()
    assert again is not None
    assert (again.threshold, loop.gate.threshold) == (0.85, 0.85)
    assert loop.certify_if_due() is None, "all that is asked for is proved"


def test_a_retest_never_stops_everything() -> None:
    loop = proved_twice()
    loop.predict(*["0.85"] * 100, *["0.99"] * 100)
    loop.read(wrong_below=1.0)
    loop.certifications.retest()
    assert loop.gate.threshold == 0.99, "that is for the breaker"


def test_audits_from_before_a_certificate_do_not_count_again() -> None:
    loop = proved_twice()
    late = loop.predict(*["0.85"] * 60)
    loop.documents -= 60
    copies = loop.predict(*["0.85"] * 60)
    loop.read(wrong_below=0.92)
    with loop.begin(read_only=True) as transaction:
        found = transaction.evidence.audited(Scorer("sha256:model", "sha256:calibrator"))
    drawn = sum(one.selection.role is AuditRole.CERTIFICATION for one in late)
    assert drawn == sum(one.selection.role is AuditRole.CERTIFICATION for one in copies)
    bets = bets_since(found, str(loop.gate.certificate_id), loop.now())
    assert [bet.right for bet in bets] == [False] * drawn


def test_a_floor_raises_the_threshold_to_one_that_is_proved_too(loop: Loop) -> None:
    loop.plan(confidence_floor=0.92)
    loop.predict(*["0.9"] * 40, *["0.95"] * 40)
    loop.read()
    made = loop.certify(ADMIN.id)
    assert made.threshold == 0.95
    assert made.evidence.excluded["below the floor"] > 0
    for floor, threshold in ((0.92, 0.95), (0.97, None), (0.5, 0.95)):
        loop.plan(confidence_floor=floor)
        with loop.begin(read_only=True) as transaction:
            assert transaction.policies.current().states[0].threshold == threshold


def test_a_fixed_threshold_is_left_alone(loop: Loop) -> None:
    loop.change_policy(ADMIN, change(threshold=0.95, audits=HALF, target_accuracy=0.8), None)
    loop.predict(*["0.9"] * 60)
    loop.read()
    assert loop.certify_if_due() is None
    assert loop.certify(ADMIN.id).threshold == 0.9
    with loop.begin(read_only=True) as transaction:
        assert transaction.policies.current().fixed_threshold == 0.95


def test_one_certification_is_asked_for_at_a_time(loop: Loop) -> None:
    ask = loop.certifications.request
    first = ask(ADMIN)
    assert ask(ADMIN).id == first.id


def test_attempts_are_read_by_leads_newest_first(loop: Loop) -> None:
    with pytest.raises(NotEnoughReviews):
        loop.certify(ADMIN.id)
    loop.plan()
    loop.predict("0.9")
    made = [loop.certify(ADMIN.id) for _ in range(3)]
    page, get = loop.certifications.page, loop.certifications.get
    first = page(LEAD, limit=2)
    assert [one.id for one in first.items] == [made[2].id, made[1].id]
    assert page(LEAD, after=first.next_after, limit=2).items == (made[0],)
    assert get(LEAD, made[0].id) == made[0]
    with pytest.raises(CertificationNotFound):
        get(LEAD, "none")


@pytest.mark.parametrize("rest_rate", [None, 0.1])
def test_what_tells_near_copies_is_kept_where_a_proof_may_count_them(
    loop: Loop, rest_rate: float | None
) -> None:
    loop.plan(AuditPlan(certification_rate=0.5, gold_reread_rate=1.0, rest_rate=rest_rate))
    texts = [
        f"0.9 seen on day {day} with fever cough headache and sore throat" for day in range(20)
    ]
    made = all_predicted(
        loop.predictions.predict([Submission(CLIENT, Document(text=text)) for text in texts])
    )
    kept = {one.id for one in made if one.selection.bands is not None}
    audits = {one.id for one in made if one.selection.role is AuditRole.CERTIFICATION}
    assert kept == (audits if rest_rate is None else {one.id for one in made})
    assert 0 < len(audits) < 20
