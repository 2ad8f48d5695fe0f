"""Days of an administrator, in a real browser."""

import gzip
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import httpx
import numpy as np
import pytest
from playwright.sync_api import BrowserContext, Page, Route, expect

from setwise.models.calibration.recalibration import ReviewOutcomes
from setwise.service.domain.accounts.callers import SYSTEM
from setwise.service.domain.policy import ThresholdMode
from setwise.service.domain.recalibration.report import RouteChange, RouteChanges
from setwise.service.domain.webhooks import DeliveryState, EndpointChange
from setwise.service.pages.board.sections import SECTIONS
from setwise.service.services.analysis.lessons import measure
from tests.browser.watching import Faults, assert_accessible, until
from tests.kit.browser import PATIENCE_S, Site
from tests.kit.waiting import eventually
from tests.receiver import Receiver
from tests.samples import calibration, calibration_report, job

LARGEST_BYTES = 150_000

SignIn = Callable[..., Page]

pytestmark = pytest.mark.usefixtures("history")


def learnt(site: Site) -> str:
    """Store a calibrator with a report as the service makes them; return its id."""
    draw = np.random.default_rng(3)
    confidence = draw.uniform(0.2, 0.95, 400)
    before, after = (
        measure(confidence, ReviewOutcomes.of((draw.random(400) < confidence**power).astype(float)))
        for power in (3, 1)
    )
    report = calibration_report()
    changes = RouteChanges(1, (RouteChange("note <1>", 0.8, 0.95),))
    report = replace(
        report, before=before, after=after, routes=replace(report.routes, to_auto=changes)
    )
    with site.services.reviews.begin() as transaction:
        calibrations = transaction.calibrations.page(after=None, limit=1).items
        if calibrations:
            return calibrations[0].id
        serving = transaction.models.active()
        assert serving is not None
        new_calibration = replace(calibration(serving), report=report)
        transaction.calibrations.add(new_calibration)
    return new_calibration.id


@pytest.mark.verify  # its page without a browser is its twin
def test_how_honest_a_calibrator_is_can_be_seen_and_taken_away(sign_in: SignIn, site: Site) -> None:
    page = sign_in("admin", f"/board/calibrators/{learnt(site)}")
    figure = page.get_by_role("region", name="Is confidence calibrated?", exact=True)
    expect(figure).to_contain_text("Before, the curve strays further")
    expect(figure.get_by_role("img")).to_be_visible()
    figure.get_by_text("Numbers of Is confidence calibrated?").click()
    expect(figure.get_by_role("rowheader", name="after").first).to_be_visible()
    with page.expect_download() as waiting:
        figure.get_by_role("link", name="CSV").click()
    assert waiting.value.path().read_text().startswith("calibrator,confidence,accuracy,low,high")
    expect(page.get_by_role("row", name="note <1>")).to_contain_text("would be sent")
    page.get_by_role("main").get_by_text("threshold", exact=True).click()
    expect(page.get_by_text("The lowest confidence at which")).to_be_visible()


def details(site: Site) -> dict[str, str]:
    """An address for every page that belongs to one thing."""
    services = site.services
    eventually(
        lambda: services.jobs.page(SYSTEM).items and services.webhooks.deliveries(SYSTEM).items,
        "the service that has just started has something to do",
    )
    candidate = next(one for one in services.models.page(SYSTEM) if not one.active)
    webhook = services.webhooks.page(SYSTEM)[0].id
    return {
        "model": f"/board/models/{candidate.id}",
        "activate": f"/board/models/{candidate.id}/activate",
        "job": f"/board/jobs/{services.jobs.page(SYSTEM).items[0].id}",
        "webhook": f"/board/webhooks/{webhook}",
        "delivery": f"/board/deliveries/{services.webhooks.deliveries(SYSTEM).items[0].id}",
        "person": f"/board/people/{services.people.all(SYSTEM)[0].id}",
        "calibrator": f"/board/calibrators/{learnt(site)}",
    }


@pytest.mark.parametrize(
    "which",
    [
        "model",
        "calibrator",
        *(
            pytest.param(which, marks=pytest.mark.verify)
            for which in ("activate", "job", "webhook", "delivery", "person")
        ),
    ],
)
def test_pages_of_one_thing_have_no_violation(sign_in: SignIn, site: Site, which: str) -> None:
    assert_accessible(sign_in("admin", details(site)[which]))


def test_a_lead_compares_audit_rates(sign_in: SignIn) -> None:
    page = sign_in("lead", "/board/certifications")
    card = page.get_by_role("region", name="How many more audits?")
    card.get_by_label("Another audit rate %").fill("60")
    card.get_by_role("button", name="Compare").click()
    expect(card.get_by_label("Another audit rate %")).to_have_value("60")
    assert_accessible(page)


def test_a_refused_form_has_no_violation(sign_in: SignIn, faults: Faults) -> None:
    faults.expect("status of 422")
    page = sign_in("admin", "/board/policy")
    page.get_by_label("Right among what is sent").fill("200")
    page.get_by_role("button", name="Preview").click()
    expect(page.get_by_role("alert")).to_be_visible()
    expect(page.get_by_label("Right among what is sent")).to_have_value("200")
    assert_accessible(page)


def test_pages_are_small(site: Site) -> None:
    cookies = {"setwise-session": site.token("admin")}
    with httpx.Client(
        base_url=site.url, cookies=cookies, timeout=PATIENCE_S, trust_env=False
    ) as client:
        for path in ("/board", *(one.address for one in SECTIONS), *details(site).values()):
            page = client.get(path)
            assert page.status_code == 200
            responses = [page, *(client.get(each) for each in _assets(page.text))]
            size = sum(len(gzip.compress(each.content)) for each in responses)
            assert size < LARGEST_BYTES, (path, size)


def _assets(page: str) -> list[str]:
    return sorted(set(re.findall(r'(?:src|href)="(/static/[^"]+)"', page)))


def test_an_administrator_changes_the_policy_after_seeing_what_it_does(
    sign_in: SignIn, site: Site
) -> None:
    page = sign_in("admin")
    page.get_by_role("link", name="Board").click()
    page.get_by_role("navigation", name="Board").get_by_role("link", name="Policy").click()
    page.get_by_label("Right among what is sent").fill("50")  # which no check contradicts
    page.get_by_label("Fixed threshold").fill("0.5")
    page.locator("summary").filter(has_text="Rules").click()
    page.get_by_text("Add a rule").click()
    page.get_by_label("Rule type").select_option("at_most")
    page.get_by_label("At most", exact=False).last.fill("2")
    page.get_by_role("button", name="Preview").click()
    effect = page.get_by_role("region", name="Effect of your changes")
    expect(effect.get_by_role("row", name="Threshold")).to_contain_text("0.5")
    comparison = page.get_by_role("region", name="Comparison")
    expect(comparison.get_by_role("row", name="Would be sent")).to_be_visible()
    assert site.services.policy.get(SYSTEM).fixed_threshold == 0.7
    page.get_by_role("button", name="Save policy").click()
    expect(page.get_by_role("status")).to_contain_text("applies from now on")
    policy = site.services.policy.get(SYSTEM)
    assert (policy.fixed_threshold, policy.threshold_mode) == (0.5, ThresholdMode.FIXED)
    assert [rule.name for rule in policy.rules] == ["storms are read", "at most"]


def test_a_key_is_made_shown_once_and_revoked(sign_in: SignIn, site: Site) -> None:
    page = sign_in("admin", "/board/keys")
    page.get_by_label("Name", exact=True).fill("billing <b>")
    page.get_by_text("Restrict to some scopes").click()
    page.get_by_label("predict", exact=True).check()
    page.get_by_role("button", name="Create").click()
    secret = page.get_by_label("Secret").inner_text()
    headers = {"Authorization": f"Bearer {secret}"}

    def status() -> int:
        address = f"{site.url}/v1/predictions"
        return httpx.get(address, headers=headers, timeout=PATIENCE_S, trust_env=False).status_code

    assert status() == 200
    page.get_by_role("link", name="I've copied it").click()
    assert secret not in page.content()
    revoke = page.get_by_role("link", name="Revoke billing")
    expect(revoke).to_be_hidden()
    for _ in range(2):
        page.locator("summary", has_text="Change billing").click()
        assert_accessible(page)
        revoke.click()
        expect(page.get_by_role("heading", level=1)).to_contain_text("billing <b>")
        page.get_by_role("link", name="Go back").click()
    page.locator("summary", has_text="Change billing").click()
    revoke.click()
    page.get_by_role("button", name="Revoke").click()
    expect(page.get_by_role("status")).to_contain_text("every process refuses it")
    assert status() == 401


@pytest.mark.verify  # `services/test_models` is its twin
def test_a_model_is_compared_activated_and_rolled_back(sign_in: SignIn, site: Site) -> None:
    before, candidate = sorted(site.services.models.page(SYSTEM), key=lambda one: not one.active)
    page = sign_in("admin", f"/board/models/{candidate.id}")
    page.get_by_role("button", name="Verify").click()
    expect(page.get_by_role("status")).to_contain_text("loads and predicts")
    page.get_by_label("Newest documents").fill("100")
    page.get_by_role("button", name="Compare", exact=True).click()
    expect(page.get_by_text("succeeded")).to_be_visible()  # the page follows its job
    page.get_by_role("link", name="the model and its comparison").click()
    page.get_by_role("link", name="Only where the route changes").click()
    expect(
        page.get_by_text("would be reviewed").or_(page.get_by_text("would be sent")).first
    ).to_be_visible()
    page.get_by_role("link", name="Activate").click()
    expect(page.get_by_text("Of 100 documents that both have scored")).to_be_visible()
    page.get_by_role("button", name="Activate").click()
    expect(page.get_by_role("status")).to_contain_text("The model is active")
    active = next(one for one in site.services.models.page(SYSTEM) if one.active)
    assert active.id == candidate.id
    page.get_by_role("link", name="Roll back").click()
    page.get_by_role("button", name="Roll back").click()
    expect(page.get_by_role("status")).to_contain_text("is active again")
    active = next(one for one in site.services.models.page(SYSTEM) if one.active)
    assert active.id == before.id


def test_a_page_follows_its_job_past_a_moment_when_the_server_is_busy(
    sign_in: SignIn, context: BrowserContext, site: Site, faults: Faults
) -> None:
    faults.expect("status of 503")
    waiting = job("export", due_at=datetime.now(UTC) + timedelta(days=1), owner_id=SYSTEM.id)
    with site.services.reviews.begin() as transaction:
        transaction.jobs.enqueue(waiting)
    refused = []

    def busy_once(route: Route) -> None:
        if refused or route.request.is_navigation_request():
            route.continue_()
            return
        refused.append(route.request.url)
        route.fulfill(status=503, body="The database is busy.")

    context.route(f"**/board/jobs/{waiting.id}", busy_once)
    page = sign_in("admin", f"/board/jobs/{waiting.id}")
    expect(page.get_by_text("Next turn")).to_be_visible()
    until(page, lambda: refused)
    site.services.jobs.cancel(SYSTEM, waiting.id)
    expect(page.get_by_text("Ended", exact=True)).to_be_visible()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as listening:
        yield listening


def test_a_delivery_that_was_lost_is_sent_again(
    sign_in: SignIn, site: Site, receiver: Receiver
) -> None:
    page = sign_in("admin", "/board/webhooks")
    page.get_by_label("Address").fill(f"http://127.0.0.1:{receiver.port}/hooks")
    page.get_by_role("button", name="Add webhook").click()
    receiver.secrets.append(page.get_by_label("Secret").inner_text())
    page.get_by_role("link", name="I've copied it").click()
    page.get_by_role("button", name="Send test message").click()
    # The page follows the delivery. Not any "204" will do: ids and instants have digits, too.
    locator = page.get_by_role("region", name="Attempts").locator(".badge", has_text="204")
    expect(locator).to_be_visible()
    assert len(receiver.calls) == 1
    page.get_by_role("link", name="Resend").click()
    expect(page.get_by_text("It was delivered before")).to_be_visible()
    page.get_by_role("button", name="Resend").click()
    expect(page.get_by_role("status")).to_contain_text("due again")
    expect(locator).to_have_count(2)
    assert [call.id for call in receiver.calls] == [receiver.calls[0].id] * 2


def test_a_webhook_is_switched_off_and_deleted(sign_in: SignIn, site: Site) -> None:
    endpoint, _ = site.services.webhooks.add(SYSTEM, EndpointChange("http://127.0.0.1:9/gone"))
    page = sign_in("admin", f"/board/webhooks/{endpoint.id}")
    page.get_by_label("On", exact=True).uncheck()
    page.get_by_role("button", name="Save changes").click()
    expect(page.get_by_role("status")).to_contain_text("are saved")
    assert not site.services.webhooks.get(SYSTEM, endpoint.id).enabled
    page.get_by_role("link", name="Delete").click()
    page.get_by_role("button", name="Delete").click()
    expect(page.get_by_role("status")).to_contain_text("deleted")
    assert endpoint.id not in {one.id for one in site.services.webhooks.page(SYSTEM)}
    dead = site.services.webhooks.deliveries(
        SYSTEM, state=DeliveryState.DEAD, endpoint_id=endpoint.id
    )
    assert not dead.items


def test_somebody_joins_is_promoted_and_leaves(sign_in: SignIn, site: Site, faults: Faults) -> None:
    faults.expect("status of 422")
    board = sign_in("admin", "/board/people")
    form = board.get_by_role("form", name="Add a person")
    form.get_by_label("Name", exact=True).fill("Nora New")
    form.get_by_label("Login name").fill("nora")
    form.get_by_label("First password").fill("short")
    form.get_by_role("button", name="Add").click()
    expect(form.get_by_label("Login name")).to_have_value("nora")
    expect(form.get_by_text("too short")).to_be_visible()
    form.get_by_label("First password").fill("a sentence that Nora knows")
    form.get_by_role("button", name="Add").click()
    board.get_by_role("link", name="Nora New").click()
    board.get_by_label("Role", exact=True).select_option("lead")
    board.get_by_role("button", name="Save changes").click()
    expect(board.get_by_role("status")).to_contain_text("are saved")
    assert site.caller("nora").role == "lead"
    site.services.sessions.sign_in("nora", "a sentence that Nora knows")
    board.get_by_role("link", name="Disable account").click()
    board.get_by_role("button", name="Disable").click()
    expect(board.get_by_role("status")).to_contain_text("disabled")
    board.get_by_role("link", name="What Nora New has done").click()
    expect(board.get_by_role("row", name="signed in")).to_be_visible()


@pytest.mark.verify  # `api/test_rights` is its twin
def test_an_auditor_reads_the_trail_and_finds_no_way_to_change(sign_in: SignIn) -> None:
    page = sign_in("auditor", "/board/audit")
    page.get_by_label("About").select_option("person.")
    page.get_by_role("button", name="Filter").click()
    expect(page.get_by_role("row", name="created an account").first).to_be_visible()
    expect(page.get_by_role("row", name="answered a document")).to_have_count(0)
    for one in SECTIONS:
        page.goto(one.address)
        expect(page.locator("main form[method=post]")).to_have_count(0)
