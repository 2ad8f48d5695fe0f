"""The board as administrators, auditors and others meet it."""

import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from setwise.service.domain.accounts.callers import SYSTEM, Permission, Role
from setwise.service.domain.jobs import JobState
from setwise.service.domain.recalibration.report import CalibratorComparison
from setwise.service.pages.board.label_decisions import LABELS
from setwise.service.pages.board.sections import SECTIONS
from tests.browsing import Browser
from tests.fakes import START
from tests.kit.edge import Service
from tests.samples import calibration, calibration_report, job, model


def browser_of(service: Service, role: Role) -> Browser:
    service.person("ann", role)
    browser = Browser(service)
    browser.sign_in()
    return browser


@pytest.fixture
def admin(service: Service) -> Browser:
    return browser_of(service, Role.ADMIN)


def actions(service: Service) -> list[str]:
    events = service.database.contents.events.values()
    return [event.action for event in sorted(events, key=lambda event: event.id)]


def test_a_stranger_is_sent_to_sign_in(service: Service) -> None:
    for address in ("/board", *(one.address for one in SECTIONS)):
        assert Browser(service).get(address).status_code == 303, address


@pytest.mark.parametrize("role", [Role.AUDITOR, Role.LEAD])
@pytest.mark.parametrize("address", [one.address for one in SECTIONS])
def test_auditors_are_offered_no_change_and_leads_those_of_labels(
    service: Service, address: str, role: Role
) -> None:
    text = browser_of(service, role).get(address).text
    main = text.partition("<main")[2].partition("</main>")[0]
    decides = address == LABELS and role is Role.LEAD
    assert ('method="post"' in main) is decides


def routes(router: object) -> Iterator[object]:
    for route in router.routes:
        inside = getattr(route, "original_router", None)
        yield from [route] if inside is None else routes(inside)


def changing(app: object) -> list[str]:
    """Every address of the board that takes a POST and changes something."""
    return sorted(
        re.sub(r"\{\w+\}", "00000000-0000-7000-8000-000000000000", route.path)
        for route in routes(app)
        if route.path.startswith("/board")
        and "POST" in route.methods
        and not route.path.endswith("/preview")
    )


def test_only_administrators_change_anything_and_only_from_pages_of_ours(service: Service) -> None:
    addresses = changing(service.app)
    assert len(addresses) >= 10
    auditor = browser_of(service, Role.AUDITOR)
    own = auditor.token("/account")
    service.person("root", Role.ADMIN)
    admin = Browser(service)
    admin.sign_in("root")
    before = actions(service)
    for address in addresses:
        assert auditor.submit(address, {"csrf": own}).status_code == 403, address
        assert admin.submit(address, {"csrf": "forged"}).status_code == 403, address
        assert admin.submit(address, {"csrf": own}).status_code == 403, address
    assert actions(service) == before


def test_the_first_page_leads_to_every_section(admin: Browser) -> None:
    text = admin.get("/board").text
    for one in SECTIONS:
        assert f'<a href="{one.address}">{one.name}</a>' in text.partition("</nav>\n<div")[2]
        assert set(one.needed) <= set(Permission)


def test_a_notice_is_one_of_ours(admin: Browser) -> None:
    assert "every process refuses it" in admin.get("/board/keys?done=key-revoked").text
    assert "pwned" not in admin.get("/board/keys?done=pwned").text


def test_a_lead_reads_what_concerns_them_and_how_the_newest_calibrator_did(
    service: Service,
) -> None:
    service.person("lea", Role.LEAD)
    lead = Browser(service)
    lead.sign_in("lea")
    text = lead.get("/board").text
    assert "You can read all of it" not in text
    for name in ("Breaker", "Calibrators", "Groups"):
        assert f">{name}</a></dt>" in text
    assert "None has been trained on reviews yet." in text
    with service.database() as transaction:
        registered_model = model()
        transaction.models.add(registered_model)
        comparison = CalibratorComparison.tested(1840, 0.022, 0.0001)
        report = replace(calibration_report(), comparison=comparison)
        transaction.calibrations.add(replace(calibration(registered_model), report=report))
    assert "The newest: proved better, not active." in lead.get("/board").text


def test_the_first_page_says_what_somebody_should_look_at(service: Service, admin: Browser) -> None:
    empty = admin.get("/board").text
    assert "None is active, so nothing can be predicted." in empty
    service.fix_threshold(0.8)
    service.services.keys.create(SYSTEM, "old <b>", Role.CLIENT, expires_at=soon())
    failed_job = replace(job("export"), state=JobState.FAILED, error="disk full", finished_at=START)
    with service.database() as transaction:
        transaction.jobs.enqueue(failed_job)
    text = admin.get("/board").text
    assert "Threshold: 0.8, fixed by hand, not certified." in text
    assert "old &lt;b&gt; expires on" in text
    assert "The last failure was on" in text
    assert '<h2 id="needy">3 things need you</h2>' in text


def soon() -> datetime:
    return datetime.now(UTC) + timedelta(days=3)
