"""Audits at two rates: aimed by confidences alone, and proved together under a new calibrator."""

import pytest

from setwise.service.domain.certification import Certification
from setwise.service.domain.predictions import Prediction
from setwise.service.domain.routing.audits import MARGIN, AuditPlan, AuditRole
from setwise.service.stores.transaction import Transactions
from tests.kit.databases import Database
from tests.samples import ADMIN
from tests.services.test_carried_evidence import Office

PLAN = AuditPlan(certification_rate=0.6, rest_rate=0.2, gold_reread_rate=0.5)


@pytest.fixture
def office(begin: Transactions) -> Office:
    return Office(begin)


def aimed_office(begin: Transactions) -> Office:
    """Return an office that knows which documents could be sent."""
    office = Office(begin)
    office.plan(PLAN)
    office.predict(*["0.9"] * 60, *["0.3"] * 60)
    office.read(wrong_below=0.5)
    office.certify_if_due()
    return office


def audited(predictions: list[Prediction]) -> float:
    results = [one.selection.role is AuditRole.CERTIFICATION for one in predictions]
    return sum(results) / len(results)


def attempt(office: Office) -> Certification:
    with office.begin(read_only=True) as transaction:
        return transaction.certifications.page(after=None, limit=1).items[0]


def test_audits_are_aimed_once_confidences_tell_what_could_be_sent(office: Office) -> None:
    office.plan(PLAN)
    office.predict(*["0.9"] * 40)
    office.certify_if_due()
    assert office.gate.audited_from is None, "too few to tell"
    office.predict(*["0.9"] * 20, *["0.3"] * 60)
    office.read(wrong_below=0.5)
    office.certify_if_due()
    # The mean of nine in .9 and one in .3 is the target of .8, or more where fewer are taken.
    assert office.gate.audited_from == pytest.approx(0.9 - MARGIN)
    often, seldom = office.predict(*["0.9"] * 80), office.predict(*["0.3"] * 80)
    assert {one.selection[3:5] for one in often} == {(0.6, False)}
    assert {one.selection[3:5] for one in seldom} == {(0.2, True)}
    assert audited(often) == pytest.approx(0.6, abs=0.2)
    assert audited(seldom) == pytest.approx(0.2, abs=0.15)
    assert all(office.predictions.derive(ADMIN, one.id).equal for one in (*often, *seldom))
    before = office.gate
    office.certify_if_due()
    assert office.gate.audited_from == before.audited_from


def test_all_agreements_in_the_rest_are_read_again() -> None:
    office = aimed_office(Database())
    predictions = office.predict(*["0.9"] * 40, *["0.3"] * 60)
    office.read()
    with office.begin(read_only=True) as transaction:
        checks = transaction.evidence.recent(100, with_content=False)
    names = {one.id: one.selection.in_rest for one in predictions}
    rates = {
        names[each.id]: each.reread_rate
        for each in checks
        if each.id in names and each.auditor_agrees is not None
    }
    assert rates[True] == 1.0
    assert rates[False] < 1.0


def test_a_new_calibrator_is_proved_by_both_rates_together() -> None:
    office = aimed_office(Database())
    office.predict(*["0.9"] * 150, *["0.75"] * 150)
    office.read(wrong_below=0.5)
    office.recalibration.activate(ADMIN, office.learnt(-1.0).id)
    evidence = attempt(office).evidence
    step = evidence.steps[-1]
    assert evidence.certified
    assert (step.thin_audits > 0, step.thin_wrong) == (True, 0)
    assert 0 < step.thin_documents < step.documents
    assert step.thin_documents / step.documents == pytest.approx(0.5, abs=0.1)


def test_the_outlook_counts_the_audits_that_two_rates_draw() -> None:
    office = aimed_office(Database())
    (outlook,) = office.outlooks.of_segments(ADMIN)
    n = 120
    if outlook.paces:
        assert outlook.paces[0].audits_a_week == pytest.approx(7 * (60 * 0.6 + 60 * 0.2), abs=1)
    assert outlook.documents_a_week == 7 * n
