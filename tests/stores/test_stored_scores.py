"""The model's answer: every reader of a row finds what was stored."""

import pytest
from sqlalchemy import Engine

from setwise.service.domain.certification import Scorer
from setwise.service.domain.predictions import (
    Candidate,
    Marginal,
    Prediction,
    PredictionFilter,
    ScoredSet,
)
from setwise.service.domain.routing.audits import AuditRole, Selection
from setwise.service.stores.transaction import Transactions
from tests.fakes import START
from tests.samples import add_predictions, outcome, prediction

SAID = {
    "ordinary": (
        [Candidate(("a", "b"), 0.1 + 0.2, 0.5), Candidate(("b", "rare"), 5e-324, 1e-12)],
        [Marginal("b", 0.98), Marginal("a", 1 / 3)],
    ),
    "unlike a name": (
        [Candidate(('say "a"\\', "0"), 1.0, 0.0), Candidate(("0", "é\u2028\x07"), 0.0, 1.0)],
        [Marginal("é\u2028\x07", 0.5), Marginal("0", 0.25)],
    ),
    "empty set first": (
        [Candidate((), 0.9, 0.8), Candidate(("a",), 0.1, 0.2)],
        [Marginal("a", 0.1)],
    ),
    "no marginals": ([Candidate(("a",), 0.9, 0.8), Candidate((), 0.1, 0.2)], []),
}


@pytest.fixture(params=SAID)
def audit(request: pytest.FixtureRequest) -> Prediction:
    """Return a prediction that was drawn for an audit."""
    candidates, marginals = SAID[request.param]
    score = ScoredSet(tuple(candidates), tuple(marginals), False, "m", "c")
    selection = Selection(AuditRole.CERTIFICATION, 0.25, 0.5)
    return prediction()._replace(scored=score, selection=selection)


def test_every_reader_finds_what_the_model_said(engine: Engine, audit: Prediction) -> None:
    with Transactions(engine)() as transaction:
        add_predictions(transaction, audit)
        transaction.outcomes.add(outcome(audit, "a"))
    with Transactions(engine)(read_only=True) as transaction:
        (prediction,) = transaction.predictions.page(PredictionFilter(), after=None, limit=5).items
        assert [transaction.predictions.get(audit.id), prediction] == [audit, audit]
        of_first = [
            *transaction.evidence.recent(5, with_content=True),
            *transaction.evidence.checked(START, 5),
            *transaction.evidence.audited(Scorer("m", "c")),
        ]
        assert [one.labels for one in of_first] == [audit.scored.labels] * 3
