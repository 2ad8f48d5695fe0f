"""A lead at a browser."""

import pytest

from setwise.service.domain.accounts.callers import Role
from tests.browsing import Browser
from tests.kit.edge import Service


@pytest.fixture
def browser(service: Service) -> Browser:
    service.person("lea", Role.LEAD)
    browser = Browser(service)
    browser.sign_in("lea")
    return browser
