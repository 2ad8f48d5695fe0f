"""``text erase|purge``."""

from functools import partial

import pytest

from setwise.service.stores.database import create
from setwise.service.stores.transaction import Transactions
from tests.cli.running import status
from tests.samples import add_predictions, prediction

pytestmark = pytest.mark.usefixtures("folder")
run = partial(status, "text")


@pytest.mark.parametrize("more", [(), ("--prediction",)])
def test_an_id_that_nothing_has_is_said_to_be_unknown(
    capsys: pytest.CaptureFixture[str], more: tuple[str, ...]
) -> None:
    unknown = "019b7a0b-0000-7000-8000-00000000ffff"
    assert run("erase", unknown, *more) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert f"has the id {unknown!r}; nothing was erased" in output.err
    assert ("Give the id that its sender gave it" in output.err) is (not more)


def test_a_document_without_an_id_is_erased_by_its_prediction(
    capsys: pytest.CaptureFixture[str], sqlite_url: str
) -> None:
    new_prediction = prediction()
    engine = create(sqlite_url)
    with Transactions(engine)() as transaction:
        add_predictions(transaction, new_prediction)
    engine.dispose()
    assert run("erase", "--prediction", new_prediction.id) == 0
    assert capsys.readouterr().out.startswith("erased from 1 prediction; ")
