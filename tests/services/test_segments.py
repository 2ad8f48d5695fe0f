"""Thresholds, certificates and the breaker by segment; `other` is a segment like the rest."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from setwise.models.guarantees.paths.spending import risk_of_family, risk_on_demand
from setwise.service.domain.audit_trail import EventFilter
from setwise.service.domain.breaker import BreakerRule
from setwise.service.domain.certification import Certification, CertificationEvidence, Score, Scorer
from setwise.service.domain.documents import ShownPrediction
from setwise.service.domain.errors import InvalidRequest
from setwise.service.domain.files import annotation_row
from setwise.service.domain.policy import Policy
from setwise.service.domain.predictions import Document, Prediction, Reason, Submission
from setwise.service.domain.reports import Span
from setwise.service.domain.routing.audits import AuditPlan
from setwise.service.domain.routing.derivations import Derivation
from setwise.service.domain.routing.segments import GateState, SegmentBy
from setwise.service.runtime.schedule import outcome_of
from setwise.service.services.analysis.proofs import ProofQuestion, Schedule, answer
from setwise.service.services.certification import attempts
from setwise.service.services.certification.in_force import adopt
from setwise.service.services.predictions import all_predicted
from setwise.service.services.segments import Segments
from setwise.service.stores.transaction import Transactions
from tests import building
from tests.fakes import LOTTERY
from tests.kit.databases import Database
from tests.kit.loop import RIGHT, WRONG, Loop, settle_all, unlike, wanted
from tests.samples import ADMIN, ANN, CLIENT, LEAD

BY_SITE = SegmentBy("site", most=3)
MODEL = "sha256:model"
RISK = 0.5
MOST = AuditPlan(certification_rate=0.3, ramp_up_rate=0.85, gold_reread_rate=1.0)


class Sites(Loop):
    """A loop whose documents come from sites; sets of bad sites are wrong."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.certifications = building.certifications(*self.parts).by(Schedule(room=1.2))

    def send(self, *sites: str, text: str = "0.9") -> list[Prediction]:
        """Predict one document of each site."""
        predictions = self.predictions.predict(
            [
                Submission(
                    CLIENT,
                    Document(
                        id=f"note {self.documents + place}",
                        text=unlike(text, self.documents + place),
                        metadata={"site": site} if site else {},
                    ),
                )
                for place, site in enumerate(sites)
            ]
        )
        self.documents += len(sites)
        return all_predicted(predictions)

    def arrive(self, *sites: str) -> None:
        """Predict one document of each site, and list the sites: later audits are theirs."""
        self.send(*sites)
        self.policies.list_segments()

    def check(self, *bad: str) -> None:
        """Let an auditor and a lead read all that waits."""
        for who in (ANN, LEAD):
            settle_all(
                self.reviews,
                who,
                lambda made: WRONG if made.document.metadata.get("site") in bad else RIGHT,
            )

    def divide(self, by: SegmentBy = BY_SITE, **rest: object) -> Policy:
        """Put a policy with segments into force, at a risk of .05 for each first look."""
        change = wanted(MOST, segment_by=by, reason="to see it", **rest)
        return self.change_policy(ADMIN, replace(change, risk=RISK), None)

    def attempts(self) -> list[Certification]:
        """Return all attempts, oldest first."""
        return [*self.certifications.page(ADMIN).items][::-1]

    def actions(self, name: str) -> list[dict[str, object]]:
        """Return the details of the audit trail's entries of one action."""
        with self.begin(read_only=True) as transaction:
            events = transaction.audit_trail.page(EventFilter(action=name), after=None, limit=99)
        return [dict(event.detail) for event in events.items][::-1]


@pytest.fixture
def loop(begin: Transactions) -> Sites:
    return Sites(begin)


@pytest.fixture
def quick() -> Sites:
    return Sites(Database())


def reasons(predictions: Sequence[Prediction]) -> set[Reason]:
    return {each.reason for each in predictions} - {Reason.AUDIT}


def test_each_segment_proves_a_threshold_of_its_own_and_a_bad_one_hides_behind_none(
    loop: Sites,
) -> None:
    loop.send("north", "south")
    loop.divide()
    assert reasons(loop.send(*["north"] * 25, *["south"] * 25)) == {Reason.NO_THRESHOLD}
    loop.check("south")
    loop.certify_if_due()
    north, south = loop.attempts()
    assert (north.segment, north.threshold, north.risk) == (
        "site=north",
        0.9,
        pytest.approx(RISK / 3),
    )
    assert (south.segment, south.threshold, south.reason) == ("site=south", None, "below-target")
    assert reasons(loop.send(*["north"] * 8)) == {Reason.ABOVE_THRESHOLD}
    assert reasons(loop.send(*["south"] * 8)) == {Reason.NO_THRESHOLD}
    prediction = loop.send("north")[0]
    assert prediction.segment == "site=north"
    with loop.begin(read_only=True) as transaction:
        stored = transaction.predictions.get(prediction.id)
        assert stored is not None
        policy = transaction.policies.get(stored.policy_version)
    assert Derivation.of(stored, policy, LOTTERY).equal


def test_a_certification_job_reports_an_attempt_of_each_segment(quick: Sites) -> None:
    quick.divide()
    quick.arrive("north", "south")
    quick.send(*["north"] * 25, *["south"] * 25)
    quick.check("south")
    attempts = outcome_of(quick.certifications.certify_if_due())["attempts"]
    assert attempts == [
        {
            "segment": "north",
            "certification_id": quick.attempts()[0].id,
            "threshold": 0.9,
            "reason": None,
            "further_audits": None,
        },
        {
            "segment": "south",
            "certification_id": quick.attempts()[1].id,
            "threshold": None,
            "reason": "below-target",
            "further_audits": None,
        },
    ]


def test_other_segments_have_the_risk_that_is_left(quick: Sites) -> None:
    quick.divide(SegmentBy())
    quick.send(*["north"] * 10)
    quick.check()
    first = quick.certify().evidence.risk
    assert first == risk_of_family(RISK, 1)
    quick.divide()
    quick.arrive("north")
    left = (RISK - first) / 3
    risks = [quick.certify(segment="north").evidence.risk for _ in range(2)]
    assert risks == pytest.approx([risk_on_demand(left, place) for place in (1, 2)])
    quick.divide(replace(BY_SITE, field="ward"))
    risks.append(quick.certify(segment="other").evidence.risk)
    left = (RISK - first - sum(risks[:2])) / 3
    assert risks[-1] == pytest.approx(risk_on_demand(left, 1))
    quick.divide(SegmentBy())
    again = quick.certify().evidence
    assert again.family is None, "its family has no new audits"
    assert again.risk == pytest.approx(risk_on_demand(RISK - sum(risks), 1))


def test_one_certificate_for_all_would_send_the_bad_segment(quick: Sites) -> None:
    quick.divide(SegmentBy())
    quick.send(*["north"] * 15, *["south"] * 4, *["north"] * 45)
    quick.check("south")
    assert quick.certify().threshold == 0.9
    assert reasons(quick.send(*["south"] * 8)) == {Reason.ABOVE_THRESHOLD}
    policy = quick.divide()
    assert quick.actions("policy.changed")[-1]["certificate_ends"] is not None
    assert policy.values == ("north", "south", "other")
    assert quick.certify(segment="north").evidence.n_audits == 0, "they had a part in the choice"
    assert reasons(quick.send("north", "south")) == {Reason.NO_THRESHOLD}


def test_new_values_are_listed_and_named_as_long_as_there_is_room(quick: Sites) -> None:
    quick.divide()
    quick.send("north", "south", "west", "", "other", "x" * 200)
    assert quick.policies.list_segments() == ["north", "south"]
    assert quick.actions("policy.segments_listed") == [{"values": ["north", "south"]}]
    assert quick.policies.list_segments() == []
    with pytest.raises(InvalidRequest, match="no segment 'west'"):
        quick.certify(segment="west")


def test_other_has_a_certificate_and_a_breaker_of_its_own() -> None:
    loop = Sites(Database(), rule=BreakerRule(run_length=200.0))
    loop.divide(segments=(GateState("north"), GateState("south")))
    loop.send(*["north"] * 25, *["west", "east"] * 13)
    loop.check("north")
    loop.certify_if_due()
    by_segment = {attempt.segment: (attempt.threshold, attempt.risk) for attempt in loop.attempts()}
    assert by_segment == {
        "site=north": (None, pytest.approx(RISK / 3)),
        "site=other": (0.9, pytest.approx(RISK / 3)),
    }
    for site in ("west", ""):
        assert reasons(loop.send(*[site] * 8)) == {Reason.ABOVE_THRESHOLD}
    for site in ("north", "south", "unheard of"):
        assert reasons(loop.send(*[site] * 8)) == {Reason.NO_THRESHOLD}
    loop.send(*["west", "east"] * 13)
    loop.check("west", "east")
    assert reasons(loop.send(*["", "west"] * 4)) == {Reason.BREAKER}
    assert loop.breaker(ADMIN, "other").trip is not None
    assert loop.breaker(ADMIN, "north").trip is None


def test_a_value_that_came_after_the_proof_of_other_waits_until_it_is_proved_with_it(
    quick: Sites,
) -> None:
    quick.divide(segments=(GateState("north"), GateState("south")))
    quick.send(*["west", ""] * 25)
    quick.check()
    quick.certify_if_due()
    assert quick.certify_if_due() is None
    predictions = quick.send("late", "west", text="0.95")
    assert [one.threshold for one in predictions] == [None, 0.9]
    drawn_predictions = quick.send(*["late", "west"] * 40)
    chances = {one.segment: one.selection.audit_chance for one in drawn_predictions}
    assert chances["site=late"] == chances["site=west"] > 0.0, "all are drawn alike"
    quick.divide(segments=(GateState("north"), GateState("south")), confidence_floor=0.5)
    assert reasons(quick.send(*["late"] * 8)) == {Reason.NO_THRESHOLD}
    quick.check()
    again = quick.certify_if_due()
    assert again is not None
    assert again.threshold == 0.9
    assert reasons(quick.send(*["late"] * 8)) == {Reason.ABOVE_THRESHOLD}
    assert quick.certify_if_due() is None
    with quick.begin(read_only=True) as transaction:
        stored = transaction.predictions.get(predictions[0].id)
        assert stored is not None
        policy = transaction.policies.get(stored.policy_version)
    assert Derivation.of(stored, policy, LOTTERY).equal


def test_one_segment_has_one_certificate_at_the_whole_risk_and_new_sites_wait(quick: Sites) -> None:
    policy = quick.divide(SegmentBy("site", most=1))
    quick.send(*["north", "south"] * 20)
    quick.check()
    assert quick.policies.list_segments() == []
    quick.certify_if_due()
    (proof,) = quick.attempts()
    assert (policy.values, proof.segment, proof.threshold) == (("other",), "site=other", 0.9)
    assert proof.evidence.risk == risk_of_family(RISK, 1), "of one certificate without segments"
    assert reasons(quick.send(*["north", "south"] * 4)) == {Reason.ABOVE_THRESHOLD}
    assert reasons(quick.send(*["late"] * 40)) == {Reason.NO_THRESHOLD}
    quick.check()
    again = quick.certify_if_due()
    assert again is not None
    assert again.threshold == 0.9
    assert reasons(quick.send(*["north", "late"] * 4)) == {Reason.ABOVE_THRESHOLD}


def test_the_certificate_of_other_ends_when_one_of_its_values_becomes_a_segment(
    quick: Sites,
) -> None:
    quick.divide(segments=(GateState("north"), GateState("south")))
    quick.send(*["west", ""] * 25)
    quick.check()
    quick.certify_if_due()
    assert reasons(quick.send(*["west", ""] * 4)) == {Reason.ABOVE_THRESHOLD}
    more = quick.divide(replace(BY_SITE, most=4))
    assert more.values == ("north", "south", "west", "other")
    assert quick.actions("policy.changed")[-1]["certificate_ends"] is not None
    assert reasons(quick.send(*["west", ""] * 16)) == {Reason.NO_THRESHOLD}
    quick.check()
    proved = {value: quick.certify(segment=value).threshold for value in ("west", "other")}
    assert proved == {"west": None, "other": 0.9}, "west may be listed for what its audits showed"


def test_a_value_that_is_listed_by_itself_ends_the_certificate_of_other_too(quick: Sites) -> None:
    quick.divide()
    quick.send(*[""] * 28)
    quick.check()
    quick.certify_if_due()
    assert reasons(quick.send(*[""] * 8)) == {Reason.ABOVE_THRESHOLD}
    quick.send("east")
    assert quick.policies.list_segments() == ["east"]
    assert reasons(quick.send(*["east", ""] * 4)) == {Reason.NO_THRESHOLD}


def test_an_alarm_in_other_sets_aside_what_a_later_segment_had_before() -> None:
    loop = Sites(Database(), rule=BreakerRule(run_length=200.0))
    loop.divide(segments=(GateState("north"), GateState("south")))
    for bad in ((), ("west",)):
        loop.send(*["west", "north"] * 25)
        loop.check(*bad)
        loop.certify_if_due()
    assert len(loop.actions("policy.tripped")) == 1
    loop.divide(replace(BY_SITE, most=4))
    assert loop.certify(segment="west").evidence.n_drawn == 0
    assert loop.certify(segment="north").evidence.n_drawn > 25


def test_a_segment_that_was_tried_stays_listed_and_counts(quick: Sites) -> None:
    quick.divide()
    quick.arrive("north", "south")
    quick.send(*["north"] * 28, *["south"] * 28)
    quick.check("south")
    quick.certify_if_due()
    with pytest.raises(InvalidRequest, match="stay listed"):
        quick.divide(segments=(GateState("west"),))
    with pytest.raises(InvalidRequest, match="shared among all"):
        quick.divide(replace(BY_SITE, most=2))
    more = quick.divide(replace(BY_SITE, most=4), segments=(GateState("west"),))
    assert more.values == ("west", "north", "south", "other")
    assert reasons(quick.send(*["south"] * 8)) == {Reason.NO_THRESHOLD}


def test_other_bands_are_other_segments(quick: Sites) -> None:
    quick.divide(SegmentBy("text_length", (8,), most=3))
    other = quick.divide(SegmentBy("text_length", (4, 9), most=4))
    assert other.values == ("0-3", "4-8", "9-", "other")


def test_the_risk_is_shared_whatever_order_segments_come_in(quick: Sites) -> None:
    quick.divide(replace(BY_SITE, most=10))
    quick.send("north", "south")
    quick.policies.list_segments()
    gates = quick.policy.gates
    assert [gate.key for gate in gates] == ["site=north", "site=south", "site=other"]
    assert [gate.risk for gate in gates] == [pytest.approx(RISK / 10)] * 3


def certified_sites(loop: Sites) -> None:
    loop.divide()
    loop.arrive("north", "south")
    loop.send(*["north"] * 30, *["south"] * 30)
    loop.check()
    loop.certify_if_due()
    assert {one.threshold for one in loop.attempts()} == {0.9}


def test_the_breaker_stops_the_segment_that_went_bad() -> None:
    loop = Sites(Database(), rule=BreakerRule(run_length=200.0))
    certified_sites(loop)
    loop.send(*["north"] * 25, *["south"] * 25)
    loop.check("south")
    assert reasons(loop.send(*["south"] * 8)) == {Reason.BREAKER}
    assert reasons(loop.send(*["north"] * 8)) == {Reason.ABOVE_THRESHOLD}
    assert len(loop.actions("policy.tripped")) == 1
    state = loop.breaker(ADMIN)
    assert (state.watch.gate.key, state.trip and state.trip.segment) == (("site=south",) * 2)
    assert loop.breaker(ADMIN, "north").trip is None
    with pytest.raises(InvalidRequest, match="Reset the breaker"):
        loop.divide(SegmentBy("ward"))
    loop.divide(segments=(GateState("north"),))
    assert reasons(loop.send(*["south"] * 8)) == {Reason.NO_THRESHOLD}
    with loop.begin(read_only=True) as transaction:
        assert transaction.policies.current().gate_of("site=south").tripped
    # New evidence of the segment proves its threshold again.
    loop.now.advance(days=30)
    loop.send(*["south"] * 25)
    loop.check()
    assert loop.certify(segment="south").threshold == 0.9
    loop.reset(ADMIN, segment="south")
    assert reasons(loop.send(*["south"] * 8)) == {Reason.ABOVE_THRESHOLD}


def test_a_drop_is_found_later_in_a_segment_of_which_less_is_sent(quick: Sites) -> None:
    certified_sites(quick)
    quick.send(*["north"] * 75, *["south"] * 25)
    north, south = (quick.delays(ADMIN, site)[-1] for site in ("north", "south"))
    assert north.audits == south.audits
    assert south.weeks == pytest.approx(3 * north.weeks, abs=2)


def test_audits_since_the_certificate_raise_the_threshold_of_their_segment_only() -> None:
    quick = Sites(Database(), rule=BreakerRule(run_length=1e30))
    quick.divide()
    quick.arrive("north", "south")
    for text in ("0.9", "0.7"):
        quick.send(*["north"] * 25, *["south"] * 25, text=text)
    quick.check()
    quick.certify_if_due()
    assert {one.threshold for one in quick.attempts()} == {0.7}
    quick.send(*["south"] * 40, text="0.7")
    quick.check("south")
    policy = quick.certifications.retest()
    assert policy is not None
    assert [gate.threshold for gate in policy.gates] == [0.7, 0.9, None]


@pytest.mark.parametrize("changes", [0, 1], ids=["alone", "while the policy changes"])
def test_another_calibrator_is_certified_for_each_segment_before_it_serves(
    quick: Sites, changes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    certified_sites(quick)
    scorer = Scorer(MODEL, "sha256:another")
    with quick.begin(read_only=True) as transaction:
        every = transaction.certifications.unscored(scorer, limit=999)
    scores = [Score(one.id, scorer, tuple(RIGHT), 0.8, quick.now()) for one in every]
    questions = []

    def answered(question: ProofQuestion, *rest: Any) -> CertificationEvidence:
        questions.append(question)
        if len(questions) <= changes:  # others write while a proof is made
            with quick.begin() as transaction:
                policy = transaction.policies.current()
                changed_policy = replace(policy, version=quick.new_id())
                transaction.policies.add(changed_policy, replacing=policy.version)
        return answer(question, *rest)

    monkeypatch.setattr(attempts, "answer", answered)
    quick.certifications.prove_ahead(scorer, scores, ADMIN.id)
    with quick.begin() as transaction:
        policy = adopt(transaction, scorer, version=quick.new_id(), now=quick.now())
    assert len(questions) == 2 + changes
    of_north, of_south = (one for one in quick.attempts() if one.scorer == scorer)
    assert {of_north.segment, of_south.segment} == {"site=north", "site=south"}
    matches = [(gate.threshold, gate.state.certified_for) for gate in policy.gates]
    assert matches == [(0.8, scorer)] * 2 + [(None, None)]


def test_each_segment_shows_what_it_sends_and_how_many_audits_it_lacks(quick: Sites) -> None:
    quick.divide(replace(BY_SITE, most=4))
    quick.arrive("north", "south", "west")
    quick.send(*["north"] * 29, *["south"] * 3, *["west"] * 7)
    quick.check()
    quick.certify_if_due()
    quick.send("east", "east")
    usual = building.outlooks(quick.begin, quick.now)
    states, unlisted = Segments(quick.begin, quick.now, quick.new_id, usual).states(LEAD)
    assert unlisted == {"east": 2}
    assert [state.gate.segment.value for state in states] == ["north", "south", "west", "other"]
    north, south, _, other = states
    assert (north.gate.threshold, north.progress.missing) == (0.9, None)
    assert north.forecast.sent == north.forecast.documents == 30
    assert (south.gate.threshold, south.forecast.sent) == (None, 0)
    assert south.progress.missing is not None
    assert south.progress.missing > 100 > south.progress.audits
    assert other.forecast.documents == 2


def test_what_if_speaks_of_one_segment(quick: Sites) -> None:
    quick.divide()
    quick.send(*["north"] * 3, *["south"] * 2)
    quick.policies.list_segments()
    what_if = quick.policies.preview(LEAD, threshold=0.5, segment="south")
    assert (what_if.now.sent, what_if.then.sent, what_if.then.documents) == (0, 2, 2)
    assert (what_if.curve[0].sent, what_if.curve[0].documents) == (2, 2)
    with pytest.raises(InvalidRequest, match="without a segment"):
        quick.policies.preview(LEAD, threshold=0.5)
    assert quick.policies.preview(LEAD).then.documents == 5


def test_reports_speak_of_one_segment(quick: Sites) -> None:
    quick.divide()
    quick.send(*["north"] * 3, *["south"] * 2, "")
    quick.policies.list_segments()
    reports = building.reports(quick.begin, quick.now)
    for segment, n in (("north", 3), ("south", 2), ("other", 1), (None, 6)):
        forecast = reports.automation(LEAD, 100, segment)
        assert (forecast.now.documents, forecast.items[0].sent) == (n, n)
    with pytest.raises(InvalidRequest, match="no segment 'west'"):
        reports.reliability(LEAD, 100, "west")


def test_responses_and_exports_name_the_segment(quick: Sites) -> None:
    quick.divide()
    predictions = quick.send("north", "west", "", *["south"] * 9)
    assert [ShownPrediction.of(one).segment for one in predictions[:3]] == [
        "north",
        "west",
        "other",
    ]
    quick.check()
    with quick.begin(read_only=True) as transaction:
        read = transaction.history.annotations(Span(), after=None, limit=99)
    assert {annotation_row(*one)["segment"] for one in read} >= {"south"}


def test_the_cockpit_speaks_of_one_segment(quick: Sites) -> None:
    quick.divide()
    quick.arrive("north", "south")
    quick.send(*["north"] * 24, *["south"] * 24)
    quick.check("south")
    quick.certify_if_due()
    quick.send(*["north"] * 4, "south", "east", "")
    reports = building.reports(quick.begin, quick.now)
    north, south, other, every = (
        reports.cockpit(LEAD, segment=segment) for segment in ("north", "south", "other", None)
    )
    assert [one.documents for one in (north, south, other, every)] == [29, 26, 2, 57]
    assert [one.certificate.certified for one in (north, south, other)] == [True, False, False]
    assert sum(one.mistakes.wrong for one in (north, other)) == 0 < south.mistakes.wrong
    for total in (
        lambda seen: seen.sent,
        lambda seen: seen.queue.waiting,
        lambda seen: sum(row.completed for row in seen.rows),
        lambda seen: sum(row.arrived for row in seen.rows),
        lambda seen: seen.certificate.progress.audits,
    ):
        assert sum(map(total, (north, south, other))) == total(every)
    assert every.policy.values == ("north", "south", "other")
    with pytest.raises(InvalidRequest, match="no segment 'east'"):
        reports.cockpit(LEAD, segment="east")


def test_other_segments_are_of_the_same_field(quick: Sites) -> None:
    quick.send("north", "")
    quick.divide(SegmentBy("ward"))
    quick.send("north", "north")
    quick.divide()
    quick.send("")
    assert building.reports(quick.begin, quick.now).cockpit(LEAD, segment="other").documents == 1


def test_a_segment_has_its_own_audit_rates(quick: Sites) -> None:
    rare = GateState("north", audits=AuditPlan(certification_rate=0.0))
    quick.divide(segments=(rare,))
    predictions = quick.send(*["north"] * 20, *["south"] * 20)
    segments = {one.segment for one in predictions if one.selection.role.value == "certification"}
    assert segments == {"site=south"}
    assert quick.divide().states[0].audits == rare.audits, "unless stated, segments stay"


def test_lengths_of_texts_divide_documents_into_bands(quick: Sites) -> None:
    quick.divide(SegmentBy("text_length", (8,), most=3))
    predictions = quick.send("", text="0.9") + quick.send("", text="0.900000000")
    assert [one.segment for one in predictions] == ["text_length=0-7", "text_length=8-"]
    assert quick.policy.values == ("0-7", "8-", "other")
