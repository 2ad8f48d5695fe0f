"""The report of a model, as a file in a browser."""

from pathlib import Path

import pytest
from playwright.sync_api import Browser

from setwise.models.data.dataset_files import read_dataset
from setwise.models.evaluation.report.page import report
from setwise.models.storage.artifacts import load
from tests.browser.watching import EVERY_LOOK, Faults, assert_accessible, complaints
from tests.trained import Artifacts, write_documents


@pytest.mark.parametrize("every_look", [False, pytest.param(True, marks=pytest.mark.verify)])
def test_a_report_has_no_violation(
    chromium: Browser, artifacts: Artifacts, faults: Faults, tmp_path: Path, *, every_look: bool
) -> None:
    write_documents(tmp_path / "new.jsonl", 60, seed=9)
    model = load(artifacts.text)
    new_report = report(model, read_dataset(tmp_path / "new.jsonl", label_names=model.label_names))
    with chromium.new_context() as context:
        faults.watch(context)
        page = context.new_page()
        page.goto(new_report.save(tmp_path / "report.html").as_uri())
        assert_accessible(page)
        for look in EVERY_LOOK if every_look else ():
            look.at(page)
            assert complaints(page, look) == []
    faults.check()
