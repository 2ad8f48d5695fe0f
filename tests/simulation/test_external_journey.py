"""From an LLM's bare label sets, without any history, to certified sending."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pytest

from setwise.models.storage.artifacts import save
from setwise.models.training_external import start_external
from setwise.service.domain.predictions import Document
from setwise.service.domain.recalibration import Noise
from setwise.service.domain.routing.audits import AuditPlan
from tests.simulation.loop import Week, simulate
from tests.simulation.office import Scenario
from tests.simulation.streams import Item, Labels

LABELS = ("court", "finance", "harvest", "music")
WRONG = {"court": 0.03, "finance": 0.03, "harvest": 0.6, "music": 0.7}
"""How often the other model misses a document about it."""

SCENARIO = Scenario(
    weeks=3,
    documents=120,
    target=0.7,
    risk=0.2,
    annotators=(0.0, 0.0),
    miss_rate=0.0,
    noise=Noise.NONE,  # few gold labels could confirm rates
    audits=AuditPlan(certification_rate=0.2, ramp_up_rate=0.45, gold_reread_rate=0.5),
    recertify_every=0,
    recalibrate_every=1,
)


pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class Answered:
    """Documents without text, with one bare label set each."""

    artifact: Path
    labels: Sequence[str] = LABELS
    predictor: None = None

    def item(self, number: int) -> Item:
        draw = Random(f"document {number}")
        truth: Labels = (draw.choice(LABELS),)
        answer = [] if draw.random() < WRONG[truth[0]] else list(truth)
        answer = answer or [draw.choice(["harvest", "music"])]
        return Item(Document(id=f"note-{number}", answer={"labels": answer}), truth)


@pytest.fixture(scope="module")
def weeks(tmp_path_factory: pytest.TempPathFactory) -> list[Week]:
    folder = tmp_path_factory.mktemp("started")
    save(start_external(LABELS), folder / "model")
    return simulate(SCENARIO, Answered(folder / "model"))


def test_nothing_is_sent_until_reviews_have_taught_and_audits_proved(weeks: list[Week]) -> None:
    first = next(place for place, week in enumerate(weeks) if week.certified)
    assert first >= 1
    assert any(week.recalibrated for week in weeks[:first])
    assert [week.sent for week in weeks[:first]] == [0] * first


def test_then_what_the_model_is_good_at_is_sent_and_right(weeks: list[Week]) -> None:
    count, right = sum(week.sent for week in weeks), sum(week.right for week in weeks)
    assert count > 30
    assert right / count >= SCENARIO.target
    assert count < 0.8 * SCENARIO.documents * (SCENARIO.weeks - 1)
