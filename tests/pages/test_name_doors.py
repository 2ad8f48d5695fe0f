"""Names in the forms of the pages: what deceives is refused, and nothing of it is stored."""

import pytest

from setwise.service.domain.accounts.callers import Role
from tests.api.test_name_doors import BAD_NAMES
from tests.kit.edge import Service
from tests.pages.test_desk import Desk
from tests.pages.test_one_transaction import BOARD, OTHERS, sound_fields

DECEIVES = BAD_NAMES[1]
TEXTS = {"reason", "text", "comment", "why", "password", "note"}
"""Fields of free text, and fields that no page shows."""


@pytest.mark.parametrize("name", {**BOARD, **OTHERS})
def test_no_field_of_any_form_takes_a_name_that_deceives(service: Service, name: str) -> None:
    desk = Desk(service, "ann", Role.ADMIN)
    sending = {**BOARD, **OTHERS}[name](service, desk)
    fields = sound_fields(desk, sending)
    for field in fields.keys() - {"csrf"} - TEXTS:
        odd = {**fields, field: DECEIVES}
        if sending.script:
            response = desk.ask(sending.path, {**sending.fields, field: [DECEIVES]})
        else:
            response = desk.submit(sending.path, odd)
        assert response.status_code < 500, (field, response.text)
        assert DECEIVES not in repr(service.database.contents).replace("\\u202e", "\u202e"), field
