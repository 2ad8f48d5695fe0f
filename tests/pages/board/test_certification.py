"""Certifying by hand: what it spends, what it may gain, and what holds meanwhile."""

import re
from dataclasses import replace

import pytest

from setwise.service.domain.accounts.callers import Role
from setwise.service.domain.certification import CommonForm
from setwise.service.domain.policy import ThresholdMode
from setwise.service.domain.routing.audits import AuditPlan
from tests.browsing import Browser
from tests.kit.edge import Service
from tests.kit.loop import RIGHT, WRONG, settle_all, unlike
from tests.samples import ADMIN, ANN, LEAD, certification, change

PAGE = "/board/certifications"
ASK = f"{PAGE}/now"


@pytest.fixture
def admin(service: Service) -> Browser:
    policy = change(
        target_accuracy=0.8,
        threshold_mode=ThresholdMode.CERTIFIED,
        threshold=None,
        audits=AuditPlan(certification_rate=0.9, gold_reread_rate=1.0),
    )
    service.services.policy.change(ADMIN, policy, None)
    service.person("ann", Role.ADMIN)
    browser = Browser(service)
    browser.sign_in()
    return browser


def audit(service: Service, n: int, *, first: int = 0, right: bool = True) -> None:
    """Let n documents come and be read."""
    for place in range(first, first + n):
        service.predict(unlike("0.9", place))
    for who in (ANN, LEAD):
        settle_all(service.services.reviews, who, lambda _: RIGHT if right else WRONG)


def test_certifying_asks_first_and_says_what_it_spends(admin: Browser, service: Service) -> None:
    audit(service, 4)
    assert f'href="{ASK}"' in admin.get(PAGE).text
    question = admin.get(ASK).text
    assert (
        "new since the last attempt. Certify now uses part of the reserve: 0.13 % risk" in question
    )
    assert "The schedule tests by itself after" in question
    admin.submit(ASK, {"csrf": admin.token("/account")})
    assert len(service.services.jobs.page(ADMIN).items) == 1


def test_audits_that_do_not_count_yet_are_named_until_a_lead_has_read_them(
    admin: Browser, service: Service
) -> None:
    for place in range(40):
        service.predict(unlike("0.9", place))
    settle_all(service.services.reviews, ANN, lambda _: RIGHT)
    (waiting,) = service.services.outlook.of_segments(ADMIN)
    assert waiting.too_recent > 0
    words = f"{waiting.too_recent} recent audits will count once none of them waits"
    assert words in admin.get(PAGE).text
    settle_all(service.services.reviews, LEAD, lambda _: RIGHT)
    assert "will count once" not in admin.get(PAGE).text


def test_without_new_audits_there_is_nothing_to_gain(admin: Browser, service: Service) -> None:
    audit(service, 4)
    service.services.certification.certify()
    question = admin.get(ASK).text
    assert "Nothing to gain now" in question
    assert "0 of " in question
    assert "reserve" not in question
    assert '<button type="submit" class="danger">' not in question
    refused = admin.submit(ASK, {"csrf": admin.token("/account")})
    assert refused.status_code == 409
    assert "find the same" in refused.text
    assert service.services.jobs.page(ADMIN).items == ()
    assert "Certify now" not in admin.get(PAGE).text
    audit(service, 4, first=4)
    assert "Nothing to gain now" not in admin.get(ASK).text
    assert "Certify now" in admin.get(PAGE).text


def test_before_the_first_prediction_there_is_nothing_to_certify(admin: Browser) -> None:
    assert "Certify now" not in admin.get(PAGE).text
    question = admin.get(ASK).text
    assert "Nothing to gain now" in question
    assert "Nothing has been predicted yet" in question
    assert '<button type="submit" class="danger">' not in question


def test_what_holds_is_said_though_a_later_attempt_proves_nothing(
    admin: Browser, service: Service
) -> None:
    audit(service, 60)
    (proof,) = service.services.certification.certify()
    assert proof.threshold == 0.9
    shown = admin.get(f"{PAGE}/{proof.id}").text
    right = proof.evidence.n_above
    for sentence in (
        "At least 80 % of the sets from a confidence of 0.9 up are right; these are 100 % of",
        f"This rests on {right} blind readings of such sets, {right} of them right.",
        "The chance that it is wrong is at most 5 %, shared by all attempts.",
        "No more can be sent.",
        "0 % of the audited messages are copies of another one.",
    ):
        assert sentence in shown
    audit(service, 5, first=60, right=False)
    assert service.services.certification.certify()[0].threshold is None
    assert "sent under it too" in admin.get(f"{PAGE}/{proof.id}").text
    holds = "from 0.9, holds until another one takes its place"
    assert holds in admin.get(PAGE).text
    assert holds in admin.get(ASK).text
    assert "In force from 0.9. The last attempt certified nothing." in admin.get("/board").text
    cockpit = admin.get("/cockpit").text
    assert "from 0.9" in cockpit
    assert "Certified since" in cockpit
    assert "more would probably" not in cockpit


def test_readings_at_the_lower_rate_are_named_beside_what_they_stand_for(
    service: Service, admin: Browser
) -> None:
    proof = certification()
    (step,) = proof.evidence.steps
    thin = replace(step, thin_audits=12, thin_wrong=1, thin_documents=50, documents=400)
    with service.database() as transaction:
        transaction.certifications.add(
            replace(proof, evidence=replace(proof.evidence, steps=(thin,)))
        )
    text = admin.get(f"{PAGE}/{proof.id}").text
    assert "of them right; 12 stand for the 12.5 % of these documents that are read less" in text


def test_forms_that_many_messages_follow_are_named(service: Service, admin: Browser) -> None:
    proof = certification()
    form = CommonForm(example="018f-example", share=0.041, n_audits=12, n_good=7)
    with service.database() as transaction:
        transaction.certifications.add(
            replace(proof, evidence=replace(proof.evidence, common_forms=(form,)))
        )
    page = admin.get(f"{PAGE}/{proof.id}")
    assert "Forms that come often" in page.text
    row = page.text.partition('href="/documents/018f-example"')[2].partition("</tr>")[0]
    assert re.findall(r"<td[^>]*>([^<]+)</td>", row) == ["4.1 %", "12", "58.3 %"]
