"""The cockpit: for whom it is, what it says with and without numbers, and its downloads."""

import csv
import gzip
import html
import io
import json
import re
from datetime import timedelta

import pytest

from setwise.service.domain.accounts.callers import SYSTEM, Role
from setwise.service.domain.labels import Additions
from setwise.service.domain.policy import PolicyChange, ThresholdMode
from setwise.service.domain.predictions import Decision, Document, Submission
from setwise.service.domain.routing.audits import AuditPlan
from setwise.service.domain.routing.segments import GateState, SegmentBy
from setwise.service.services.predictions import all_predicted
from setwise.service.settings import Settings
from tests.browsing import Browser
from tests.fakes import START
from tests.kit.edge import Service, build_service


@pytest.fixture
def browser(service: Service) -> Browser:
    service.person("lea", Role.LEAD)
    browser = Browser(service)
    browser.sign_in("lea")
    return browser


def worked(service: Service, seconds: int = 20) -> None:
    """Let documents come in, some be reviewed and some be reported on."""
    service.fix_threshold(0.8)
    services = service.services
    client, reviewer = (
        services.keys.authenticate(service.secrets[name]) for name in ("client", "reviewer")
    )
    documents = [Document(id=f"note {n}", text=f"{n / 100:g}") for n in range(90)]
    made = services.predictions.predict([Submission(client, one) for one in documents])
    for number, one in enumerate(all_predicted(made)):
        if one.decision is Decision.AUTO and number % 2:
            right = one.scored.labels if number % 5 else ["c"]
            services.outcomes.report(client, one.id, right, "billing")
    for number in range(60):
        task = services.queue.claim(reviewer)
        assert task is not None
        labels = ["a", "b"] if number % 3 else ["a", "d"]
        service.clock.advance(seconds=seconds)
        services.reviews.complete(reviewer, task.id, labels, None, task.version)


@pytest.fixture(scope="module")
def busy() -> Browser:
    """Return a lead at the cockpit of a service that has worked; no test changes it."""
    service = build_service(Settings(max_text_bytes=1_000))
    worked(service)
    service.person("lea", Role.LEAD)
    browser = Browser(service)
    browser.sign_in("lea")
    return browser


@pytest.mark.parametrize(("role", "status"), [(Role.REVIEWER, 403), (Role.AUDITOR, 200)])
def test_downloads_are_for_those_who_read_reports(
    service: Service, role: Role, status: int
) -> None:
    service.person("ann", role)
    browser = Browser(service)
    browser.sign_in()
    assert browser.get("/cockpit/volume.csv").status_code == status


def test_it_shows_one_segment_with_its_documents(service: Service, browser: Browser) -> None:
    service.fix_threshold(0.8, segment_by=SegmentBy("site"), segments=(GateState("north"),))
    for site, text in (("north", "0.9"), ("north", "0.9"), ("south", "0.5")):
        body = {"document": {"text": text}, "metadata": {"site": site}}
        assert service.post("/v1/predictions", by="client", json=body).json()["segment"] == site
    shown = browser.get("/cockpit?days=7&segment=north").text
    assert "2 of 2" in shown
    assert "/documents?segment=north&amp;" in shown, "in the addresses of the documents"
    assert 'href="/cockpit?days=7&amp;pace=day&amp;segment=other"' in shown
    rows = browser.get("/cockpit/volume.csv?days=1&segment=north").text.splitlines()
    assert rows[0].startswith("segment,day,sent,"), rows
    assert rows[1].split(",")[::2][:2] == ["north", "2"], rows
    other = browser.get("/cockpit/volume.json?days=1&segment=other").json()
    assert (other[-1]["segment"], other[-1]["reviewed"]) == ("other", 1)
    whole = browser.get("/cockpit/breaker.json?days=1&segment=north").json()
    assert all("segment" not in row for row in whole), "it is of the segment that is watched"
    assert "/documents?segment=other&amp;" in browser.get("/cockpit?days=7&segment=other").text
    assert browser.get("/cockpit?segment=unlisted").status_code == 422


def test_without_documents_every_figure_says_what_to_do(browser: Browser) -> None:
    first, further = browser.get("/cockpit"), browser.get("/cockpit/details")
    for page in (first, further):
        assert page.status_code == 200
        assert "<svg" not in page.text
        assert page.text.count('class="empty"') == page.text.count('<section class="card figure')
        assert not re.search(r"\b0 (of 0|documents received|audits since)|unknown were", page.text)
    assert "no audit has been completed" in first.text
    assert "The queue is empty." in further.text
    assert "No label went wrong" not in further.text, "where nobody has looked"
    assert tiles(first.text) == [("", "unknown"), ("sent", "none"), ("waiting", "0")]


def tiles(page: str) -> list[tuple[str, str]]:
    return re.findall(
        r'<li class="tile (\w*)">.*?class="number">(?:<a[^>]*>)?(.*?)<', page, re.DOTALL
    )


def test_the_first_page_answers_three_questions_with_two_charts(busy: Browser) -> None:
    page = busy.get("/cockpit").text
    assert re.findall(r'<h2 class="name">(.*?)</h2>', page) == [
        "Is what we send right enough?",
        "How much is automatic?",
        "What waits?",
    ]
    assert re.findall(r'<section class="card figure" id="(.*?)"', page) == ["accuracy", "volume"]
    assert 'href="/cockpit/details?days=35&amp;pace=day"' in page


def test_the_accuracy_leads_to_the_wrong_ones_among_what_would_be_sent(
    service: Service, browser: Browser
) -> None:
    audits = AuditPlan(certification_rate=1.0)
    policy = PolicyChange(0.95, 0.1, True, ThresholdMode.FIXED, 0.6, audits=audits)
    service.services.policy.change(SYSTEM, policy, None)
    reviewer = service.services.keys.authenticate(service.secrets["reviewer"])
    for confidence in ("0.5", "0.7", "0.8"):
        service.predict(confidence)
        task = service.services.queue.claim(reviewer)
        assert task is not None
        service.services.reviews.complete(reviewer, task.id, ["c"], None, task.version)
    page = browser.get("/cockpit").text
    assert "from 2 audits" in page
    (address,) = re.findall(r'class="number"><a href="([^"]*audited=[^"]*)"', page)
    assert "2 documents" in browser.get(html.unescape(address)).text


def test_the_tile_and_the_figure_write_one_share(busy: Browser) -> None:
    page = busy.get("/cockpit").text
    (share,) = re.findall(r"sent automatically \(([^)]*)\)", figure(page, "volume"))[:1]
    assert tiles(page)[1] == ("sent", share.replace("\N{NO-BREAK SPACE}", " "))


def test_each_share_of_what_is_sent_names_its_documents(service: Service, browser: Browser) -> None:
    """Of all documents, of a period, and of the newest under one policy: three shares."""
    worked(service)
    service.clock.advance(days=40)
    browser.sign_in("lea")
    client = service.services.keys.authenticate(service.secrets["client"])
    later = [Document(id=f"late {n}", text="0.95") for n in range(10)]
    service.services.predictions.predict([Submission(client, one) for one in later])
    start, cockpit, what_if = (
        " ".join(re.sub(r"<[^>]+>", " ", browser.get(address).text).split())
        for address in ("/", "/cockpit", "/cockpit/details?threshold=0.5")
    )
    assert "Since the first one, 20 % of the label sets were sent automatically" in start
    assert "100 % 10 of 10 documents in this period" in cockpit
    assert "would send 50.0 % of the newest 100 documents (audits included)" in what_if


def test_an_estimate_from_few_checks_says_so_and_is_not_coloured(busy: Browser) -> None:
    page = busy.get("/cockpit").text
    assert "Cannot tell yet: the target of 95 % lies between" in page
    assert "Only 5 checks: the bounds are wide." in page
    assert tiles(page)[0][0] == ""
    assert 'class="dot quiet"' in figure(page, "accuracy")


def test_a_promise_that_checks_contradict_says_so_and_offers_recalibration(
    service: Service, browser: Browser
) -> None:
    service.fix_threshold(0.8)
    for number in range(40):
        body = service.predict("0.99").json()
        outcome = {"labels": body["labels"] if number % 2 == 0 else ["d"], "source": "billing"}
        service.post(f"/v1/predictions/{body['id']}/outcome", by="client", json=outcome)
        if number == 0:
            few = browser.get("/cockpit").text
            assert "The confidences promise 99.0\N{NO-BREAK SPACE}%." in figure(few, "accuracy")
            assert "Recalibrate" not in few
    page = browser.get("/cockpit").text
    assert "The confidences promise 99.0 %, more than the checks allow." in page
    assert '<a href="/board/calibrators">Recalibrate</a>' in page
    (row,) = (row for row in browser.get("/cockpit/accuracy.json").json() if row["checked"])
    assert (row["accuracy"], row["promised"]) == (0.5, pytest.approx(0.99))


def test_one_document_is_told_of_as_one(service: Service, browser: Browser) -> None:
    service.fix_threshold(0.8)
    service.predict("0.4")
    page, further = browser.get("/cockpit").text, browser.get("/cockpit/details").text
    assert "1 document received: 0 sent automatically (0\N{NO-BREAK SPACE}%), 1 left to" in page
    assert "Its pace is known after the first full day" in page
    assert "Not certified: the threshold was set by hand" in page
    assert ">0.5</text>" not in figure(page, "volume"), "documents are counted in whole numbers"
    assert "1 task waits" in further
    assert "there is no forecast" in further
    assert "reviewing per day (right axis)" not in further, "while nobody knows how fast people are"


def test_days_and_calendar_weeks_are_chosen(busy: Browser) -> None:
    today = START.date()
    monday = today - timedelta(days=today.weekday())
    page = busy.get("/cockpit").text
    assert re.findall(r'href="([^"]*)" aria-current="true">(.*?)<', page)[-1] == (
        "/cockpit?days=35&amp;pace=day",
        "5 weeks",
    )
    before = f"first={monday - timedelta(days=7)}&amp;last={monday - timedelta(days=1)}"
    assert f'href="/cockpit?days=35&amp;pace=day&amp;{before}">Last week<' in page
    text = busy.get(f"/cockpit?first={today}&last={today}").text
    assert "of 90 documents" in text
    assert "none" in tiles(busy.get(f"/cockpit?{before.replace('&amp;', '&')}").text)[1][1]
    assert f"first={today}" in busy.get(f"/cockpit/details?first={today}").text


def figure(page: str, name: str) -> str:
    match = re.search(rf'<section class="card figure[^>]*id="{name}".*?</section>', page, re.DOTALL)
    assert match is not None
    return match[0]


@pytest.mark.parametrize(
    ("seconds", "told", "unit"), [(1, "1 second", "minutes"), (90, "1.5 minutes", "hours")]
)
def test_working_time_is_written_in_a_unit_that_fits(
    service: Service, browser: Browser, seconds: int, told: str, unit: str
) -> None:
    worked(service, seconds)
    page = browser.get("/cockpit/details?threshold=0.6").text
    assert f"at {told} each" in page
    assert not re.search(r"\d(\.\d+)?e-\d", re.sub("<[^>]*>", " ", page))
    assert re.search(r"Reviewing per day</th><td>[\d.]+ (seconds|minutes|hours)</td>", page)
    assert f"reviewer {unit} per day" in page


def test_each_row_of_numbers_has_its_name_in_front(busy: Browser) -> None:
    numbers = figure(busy.get("/cockpit/details").text, "what-if")
    assert '<th scope="row" class="count">0.01</th>' in numbers
    assert ">Reviewing per day</th>" in numbers


def test_figures_have_a_chart_a_sentence_and_numbers(busy: Browser) -> None:
    page = busy.get("/cockpit").text + busy.get("/cockpit/details").text
    sections = re.findall(r'<section class="card figure.*?</section>', page, re.DOTALL)
    assert len(sections) == 13
    for section in sections:
        assert re.search(r'<p class="says">[A-Z0-9“].+\.( \(p [=<] [\d.]+\))?</p>', section), (
            section
        )
        if 'class="empty"' not in section:
            assert '<svg class="chart"' in section
            assert 'role="img"' in section
            assert "<table>" in section
            assert ".csv?" in section
    draws = {re.search(r'id="([\w-]+)"', one)[1] for one in sections if "<svg" in one}
    assert draws >= {"volume", "queue", "what-if", "reliability", "confidence", "labels", "sizes"}
    assert "90 documents received" in page
    assert "at 20 seconds each" in page


def test_what_other_programs_report_is_not_called_an_audit(busy: Browser) -> None:
    page = busy.get("/cockpit").text
    assert "from 5 outcomes" in page
    assert "not drawn at random" in page


def test_another_threshold_is_looked_at_and_nothing_changes(
    service: Service, browser: Browser
) -> None:
    worked(service)
    before = service.services.policy.get(SYSTEM)
    page = browser.get("/cockpit/details?threshold=0.6").text
    assert "tried 0.6" in page
    assert "Nothing has changed. An administrator can apply it." in page
    name = "Would be sent of the newest 90 documents, audits included"
    row = re.search(rf"{name}</th><td>(.+?)</td><td class=\"then\">(.+?)</td>", page)
    assert row is not None
    assert row.groups() == ("10 (11.1 %)", "30 (33.3 %)")
    assert "Use this threshold" not in page
    assert "Tried</th>" in browser.get("/cockpit/details?target_accuracy=0.9").text
    assert service.services.policy.get(SYSTEM) == before


def test_who_may_change_the_policy_takes_over_what_was_tried(service: Service) -> None:
    worked(service)
    service.person("ada", Role.ADMIN)
    admin = Browser(service)
    admin.sign_in("ada")

    def offered(query: str) -> list[str]:
        page = admin.get(f"/cockpit/details?{query}").text
        return re.findall(r'href="(/board/policy[^"]*)">(?:Use|Change)', page)

    address = "/board/policy?threshold.value=0.6&amp;target_accuracy=95"
    assert offered("threshold=0.6") == [address]
    assert offered("") == []
    # The policy form cannot set the threshold of a single segment.
    service.fix_threshold(0.8, segment_by=SegmentBy("site"), segments=(GateState("north"),))
    body = {"document": {"text": "0.9"}, "metadata": {"site": "north"}}
    service.post("/v1/predictions", by="client", json=body)
    assert offered("threshold=0.6&segment=north") == ["/board/policy"]


@pytest.mark.parametrize("query", ["threshold=2", "target_accuracy=1", "days=0", "days=100000"])
def test_what_cannot_be_asked_is_refused(browser: Browser, query: str) -> None:
    answer = browser.get(f"/cockpit/details?{query}")
    assert answer.status_code == 422
    assert "must lie between" in answer.text


@pytest.mark.parametrize(
    ("query", "says"),
    {
        "days=abc": "days must be a whole number, not &#39;abc&#39;.",
        "first=soon": "first must be a date such as 2026-11-23, not &#39;soon&#39;.",
        "first=2020-01-02&last=2020-01-01": "first must not lie after the last day.",
        "days=1.5": "days must be a whole number",
        "days=": "days must be a whole number, not &#39;&#39;.",
        "pace=month": "pace must be &#39;day&#39; or &#39;week&#39;, not &#39;month&#39;.",
        "threshold=high&target_accuracy=<b>": "threshold must be a number, not &#39;high&#39;. "
        "target_accuracy must be a number, not &#39;&lt;b&gt;&#39;.",
        "threshold=nan": "threshold is nan; it must lie between 0 and 1.",
        f"days={'9' * 5000}": "days",
    }.items(),
)
def test_what_cannot_be_read_is_refused_in_the_frame_of_the_page(
    browser: Browser, query: str, says: str
) -> None:
    for address in ("/cockpit/details", "/cockpit/volume.csv"):
        answer = browser.get(f"{address}?{query}")
        assert answer.status_code == 422
        assert answer.headers["content-type"] == "text/html; charset=utf-8"
        assert says in answer.text
        assert len(answer.text) < 20_000
        assert 'href="/account"' in answer.text  # in the frame of who is signed in
        assert f'<a href="{address}">Show the page without parameters.</a>' in answer.text


def test_a_script_is_told_in_json_what_cannot_be_read(browser: Browser) -> None:
    answer = browser.get("/cockpit?days=abc", Accept="application/json")
    assert answer.status_code == 422
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["errors"][0]["pointer"] == "/query/days"


def test_nobody_learns_what_an_address_takes_before_signing_in(service: Service) -> None:
    answer = Browser(service).get("/cockpit?days=abc")
    assert answer.status_code == 303
    assert answer.headers["location"] == "/login?next=%2Fcockpit%3Fdays%3Dabc"


def test_numbers_are_taken_away_as_csv_and_json(busy: Browser) -> None:
    as_csv = busy.get("/cockpit/volume.csv?days=7")
    assert as_csv.headers["content-type"].startswith("text/csv")
    assert as_csv.headers["content-disposition"] == 'attachment; filename="setwise-volume.csv"'
    rows = list(csv.DictReader(io.StringIO(as_csv.text)))
    assert len(rows) == 7
    assert sum(int(row["sent"]) + int(row["reviewed"]) for row in rows) == 90
    as_json = json.loads(busy.get("/cockpit/volume.json?days=7").text)
    assert [str(row["sent"]) for row in as_json] == [row["sent"] for row in rows]
    for missing in ("nothing.csv", "volume.exe"):
        assert busy.get(f"/cockpit/{missing}").status_code == 404


def test_markup_in_labels_and_sources_is_shown_as_it_is(service: Service, browser: Browser) -> None:
    service.fix_threshold(0.8)
    hostile = "<script>alert(1)</script>"
    body = {"document": {"text": "0.4"}, "metadata": {"site": hostile}}
    made = service.post("/v1/predictions", by="client", json=body).json()
    body["metadata"] = {"site": "=cmd()"}
    other = service.post("/v1/predictions", by="client", json=body).json()
    for one in (made, other):
        right = {"labels": [hostile], "source": "x"}
        service.post(f"/v1/predictions/{one['id']}/outcome", by="client", json=right)
    page = browser.get("/cockpit/details").text
    assert hostile not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "'=cmd()" in browser.get("/cockpit/sources.csv").text


def test_the_page_is_small(busy: Browser) -> None:
    page = busy.get("/cockpit/details?days=400&threshold=0.6")
    assert len(gzip.compress(page.content)) < 150_000


def test_labels_that_the_model_lacks_are_counted_with_a_way_to_their_documents(
    service: Service, browser: Browser
) -> None:
    assert "model lacks" not in browser.get("/cockpit").text
    reviewer = service.services.keys.authenticate(service.secrets["reviewer"])
    for text, labels in (("0.4", ["a", "flood"]), ("0.41", ["a", "b"])):
        service.predict(text)
        task = service.services.queue.claim(reviewer)
        assert task is not None
        new = Additions([label for label in labels if label == "flood"])
        service.services.reviews.complete(
            reviewer, task.id, labels, None, task.version, additions=new
        )
    shown = browser.get("/cockpit").text
    assert "1 checked document (50.0 %) has labels that the model lacks: flood (1)" in shown
    assert 'href="/documents?beyond_model=true">Show the documents</a>' in shown
    listed_text = browser.get("/documents?beyond_model=true").text
    assert ">note 0.4</a>" in listed_text
    assert ">note 0.41</a>" not in listed_text
    assert '<option value="true" selected>some the model lacks</option>' in listed_text
