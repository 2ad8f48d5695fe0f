"""How many more audits a certificate takes, on the page of certifications."""

import pytest

from setwise.service.domain.accounts.callers import Role
from setwise.service.domain.policy import ThresholdMode
from setwise.service.domain.routing.audits import AuditPlan
from tests.browsing import Browser
from tests.kit.edge import Service
from tests.samples import ADMIN, change

PAGE = "/board/certifications"


@pytest.fixture
def lead(service: Service) -> Browser:
    policy = change(
        target_accuracy=0.8,
        threshold_mode=ThresholdMode.CERTIFIED,
        threshold=None,
        audits=AuditPlan(certification_rate=0.04, gold_reread_rate=1.0),
    )
    service.services.policy.change(ADMIN, policy, None)
    service.person("ann", Role.LEAD)
    browser = Browser(service)
    browser.sign_in()
    return browser


def test_a_lead_sees_how_many_audits_and_weeks_a_certificate_takes(
    lead: Browser, service: Service
) -> None:
    assert "How many more audits?" not in lead.get(PAGE).text
    for _ in range(3):
        service.predict("0.97")
    page = lead.get(f"{PAGE}?rate=12").text
    assert "more audits would probably certify a threshold for 80 %." in page
    assert "The next attempt comes by itself after" in page
    assert "At the present rate of 4 %, " in page
    assert "At 12 %, " in page
    assert 'value="12"' in page


def test_a_rate_out_of_range_is_refused_at_its_field(lead: Browser, service: Service) -> None:
    service.predict("0.97")
    for rate, text in (("200", "Enter a number from 0 to 100."), ("0", "must be above 0")):
        page = lead.get(f"{PAGE}?rate={rate}")
        assert page.status_code == 422
        assert text in page.text
