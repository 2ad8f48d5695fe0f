"""The page that plans audits."""

import pytest

from setwise.service.domain.callers import Role
from tests.browsing import Browser
from tests.edge import Service

PLAN = "/board/certifications/plan"


@pytest.fixture
def lead(service: Service) -> Browser:
    for _ in range(3):
        service.predict("0.97")
    service.person("ann", Role.LEAD)
    browser = Browser(service)
    browser.sign_in()
    return browser


def test_a_lead_compares_plans_and_sees_which_is_recommended(lead: Browser) -> None:
    shown = lead.get(f"{PLAN}?target=90&documents=1000&certificate_weeks=20&find_weeks=52")
    assert shown.status_code == 200
    assert "recommended" in shown.text
    assert "Weeks to find the drop" in shown.text
    assert 'value="1000"' in shown.text
    assert "1,000 documents a week" in shown.text
    assert "Chart of How soon a drop is found" in shown.text
    assert "figures.css" in shown.text


def test_a_fault_stands_at_its_field(lead: Browser) -> None:
    shown = lead.get(f"{PLAN}?target=200")
    assert shown.status_code == 422
    assert "Enter a number from 0 to 100." in shown.text
    refused = lead.get(f"{PLAN}?drop=99&target=90")
    assert refused.status_code == 422
    assert "at most the target of 0.9" in refused.text


def test_the_way_to_the_plan_starts_at_the_certifications(lead: Browser) -> None:
    assert f'href="{PLAN}"' in lead.get("/board/certifications").text


def test_before_the_first_prediction_the_page_says_what_is_missing(service: Service) -> None:
    service.person("ann", Role.LEAD)
    browser = Browser(service)
    browser.sign_in()
    shown = browser.get(PLAN)
    assert shown.status_code == 200
    assert "nothing has been predicted yet" in shown.text
