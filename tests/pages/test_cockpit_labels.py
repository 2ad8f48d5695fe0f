"""The cockpit's label table: whose figures it shows, sorted, searched and taken away."""

import re
from typing import Any

import pytest

from setwise.service.domain.accounts.callers import Role
from tests.browsing import Browser
from tests.kit.edge import Service
from tests.samples import ADMIN


@pytest.fixture
def browser(service: Service) -> Browser:
    service.person("lea", Role.LEAD)
    browser = Browser(service)
    browser.sign_in("lea")
    return browser


@pytest.fixture
def cockpit(service: Service, browser: Browser) -> Browser:
    """Return a browser of a service whose sent documents have outcomes."""
    service.fix_threshold(0.8)
    for number in range(12):
        body = service.predict(f"0.{90 + number % 2}").json()
        # "a" is right, "b" missing once in three, "<new>" is no label of the model.
        truth = ["a", "b"] if number % 3 else ["a", "<new>"]
        outcome: dict[str, Any] = {"labels": truth, "source": "billing"}
        service.post(f"/v1/predictions/{body['id']}/outcome", by="client", json=outcome)
    unsure = service.predict("0.3").json()
    outcome = {"labels": ["d"], "source": "billing"}
    service.post(f"/v1/predictions/{unsure['id']}/outcome", by="client", json=outcome)
    return browser


def names(page: str) -> list[str]:
    return re.findall(r'<th scope="row"><span class="label" dir="auto">(.*?)</span>', page)


def test_it_is_of_what_is_sent_unless_all_checked_documents_are_asked_for(cockpit: Browser) -> None:
    page = cockpit.get("/cockpit/labels").text
    assert names(page) == ["&lt;new&gt;", "b", "a"], "those with most errors first"
    assert "From 12 checked documents that were confident enough to be sent." in page
    assert "Other programs reported their truth, not at random" in page
    whole = cockpit.get("/cockpit/labels?basis=checked").text
    assert "From all 13 checked documents of this period." in whole
    assert "d" in names(whole)


def test_a_row_has_counts_shares_and_what_is_missing_until_the_precision_is_known(
    cockpit: Browser,
) -> None:
    rows = {row["label"]: row for row in cockpit.get("/cockpit/labels/table.json").json()}
    row = rows["b"]
    counts = ("has_it", "predicted", "missing", "extra", "of_model")
    assert [row[name] for name in counts] == [8, 12, 0, 4, "yes"]
    assert (row["precision"], row["recall"]) == (pytest.approx(8 / 12), 1.0)
    assert row["precision_low"] < row["precision"] < row["precision_high"]
    assert (row["mean_probability"], row["observed_share"]) == pytest.approx((0.7, 8 / 12))
    assert row["further_checks"] > 100
    assert [rows["<new>"][name] for name in counts] == [4, 0, 4, 0, "no"]
    page = cockpit.get("/cockpit/labels").text
    assert f"{row['further_checks']} more checks" in page
    assert "not a label of the model" in page
    assert "too few checks" in page, "<new> occurred in four documents"
    assert "66.7" in page


def test_it_is_sorted_searched_and_leads_to_the_documents(cockpit: Browser) -> None:
    assert names(cockpit.get("/cockpit/labels?order=label").text) == ["&lt;new&gt;", "a", "b"]
    assert names(cockpit.get("/cockpit/labels?order=precision").text)[0] == "b"
    text = cockpit.get("/cockpit/labels?find=NEW").text
    assert names(text) == ["&lt;new&gt;"]
    (missing,) = re.findall(r'href="(/documents[^"]*final_label=%3Cnew%3E[^"]*)"', text)
    assert cockpit.get(missing.replace("&amp;", "&")).text.count('<th scope="row">') == 4
    assert "No label of these documents contains" in cockpit.get("/cockpit/labels?find=x").text
    csv = cockpit.get("/cockpit/labels/table.csv?find=NEW").text.splitlines()
    assert [len(csv), csv[1].split(",")[0]] == [2, "<new>"]


def test_with_a_tree_it_counts_wrong_sets_in_the_right_branch(
    service: Service, cockpit: Browser
) -> None:
    assert "Right branch" not in cockpit.get("/cockpit/labels").text
    for file, near in (("label,parent\na,\nb,a", 0), ("label,parent\na,\nb,a\n<new>,a", 4)):
        service.services.labels.describe(ADMIN, file)
        page = cockpit.get("/cockpit/labels").text
        assert f"Right branch, wrong label below it: {near} of 4 wrong sets." in page


def test_a_page_that_cannot_be_meant_is_refused_or_the_last(cockpit: Browser) -> None:
    assert cockpit.get("/cockpit/labels?order=colour").status_code == 422
    assert cockpit.get("/cockpit/labels?basis=none").status_code == 422
    assert names(cockpit.get("/cockpit/labels?page=99").text)
    assert cockpit.get("/cockpit/labels/table.xml").status_code == 404


def test_without_checks_it_says_what_fills_it(browser: Browser) -> None:
    assert (
        "No such document has been checked in this period." in browser.get("/cockpit/labels").text
    )
