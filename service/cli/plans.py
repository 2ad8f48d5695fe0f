"""``simulate --plan``: compare rates of audits by cost."""

# ruff: noqa: PLC0415 - the service's libraries import slowly: only where needed

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from setwise.service.cli.console import CommandError, print_json, print_table, progress, say

if TYPE_CHECKING:
    from rich.table import Table

    from setwise.service.domain.policy import RoutingPolicy
    from setwise.service.services.analysis.plans import Arrivals, Planned

MOST_PLANS = 15


def print_plans(
    artifact: Path | None,
    data: Path | None,
    given: Mapping[str, Any],  # Any: arguments of `PlanRequest`
    prices: str,
    *,
    run_length: float,
    as_json: bool,
) -> None:
    """Print plans for a model and data, or for the installation.

    ``given``: Fields of `PlanRequest` that options set, other than prices.
    """
    from setwise.service.cli.assembly import application
    from setwise.service.domain.callers import SYSTEM
    from setwise.service.services.analysis.plans import PlanRequest, plan_audits

    audit, review, error = _prices(prices)
    wanted = PlanRequest(audit_price=audit, review_price=review, error_price=error, **given)
    if artifact is not None and data is not None:
        found = plan_audits(wanted, _policy(), _held_out(artifact, data), run_length)
    elif artifact is not None or data is not None:
        raise CommandError("give both --artifact and --data, or neither")
    else:
        with application() as built:
            found = built.services.certification.plan(SYSTEM, wanted)
    if as_json:
        from setwise.service.api.certification import AuditPlans

        print_json(AuditPlans.of(found).model_dump(mode="json"))
    else:
        print_table(_table(found))
        say(found.sentence)


def _prices(written: str) -> tuple[float, float, float]:
    """Return the prices of an audit, a review and an error.

    >>> _prices("1, 2,50")
    (1.0, 2.0, 50.0)
    """
    try:
        audit, review, error = (float(part) for part in written.split(","))
    except ValueError:
        raise CommandError(
            f"--prices {written!r}: write three numbers such as 1,1,10, for an audit, a review and "
            "an error"
        ) from None
    return audit, review, error


def _policy() -> "RoutingPolicy":
    """Return a policy that audits nothing; the request says the target and the risk."""
    from setwise.service.domain.policy import PolicyChange, ThresholdMode
    from setwise.service.simulation.office import START

    change = PolicyChange(0.9, 0.1, True, ThresholdMode.CERTIFIED, None)
    return change.as_policy("", START, "")


def _held_out(artifact: Path, data: Path) -> "Arrivals":
    """Return the model's confidences in documents that it has not seen."""
    from setwise.models.data.dataset_files import read_dataset
    from setwise.models.evaluation.evaluation import predict_in_blocks
    from setwise.models.storage.artifacts import load
    from setwise.service.services.analysis.plans import Arrivals

    predictor = load(artifact)
    dataset = read_dataset(
        data,
        "test",
        label_names=predictor.label_names,
        feature_names=predictor.feature_names if predictor.kind == "vectors" else None,
    )
    if dataset.kind != predictor.kind:
        raise CommandError(f"{data}: holds {dataset.kind}, but the model takes {predictor.kind}")
    confidences: list[float] = []
    with progress("predict") as report:
        for rows, found in predict_in_blocks(predictor, dataset):
            confidences += found.top_confidence().tolist()
            report(rows.stop / dataset.n)
    return Arrivals(confidences)


def _table(found: "Planned") -> "Table":
    from rich.table import Table

    table = Table(box=None)
    for head in (
        "audited %",
        "before a certificate %",
        "read again %",
        "weeks to a certificate",
        "sent %",
        "readings a week",
        "weeks to find the drop",
        "cost a week",
    ):
        table.add_column(head, justify="right")
    for plan in found.items[:MOST_PLANS]:
        delay, week = plan.delay, plan.running or plan.ramp_up
        table.add_row(
            f"{100 * plan.rates.certification_rate:g}",
            f"{100 * plan.rates.ramp_up_rate:g}",
            f"{100 * plan.rates.gold_reread_rate:g}",
            _range(plan.weeks, plan.weeks_at_most),
            "" if plan.automation is None else f"{100 * plan.automation:.1f}",
            f"{week.readings:.0f}",
            "" if delay is None else _range(delay.weeks, delay.weeks_at_most),
            f"{plan.cost_a_week:.0f}",
        )
    return table


def _range(usual: int | None, at_most: int | None) -> str:
    """Return the usual number of weeks, and the most.

    >>> _range(4, 6), _range(4, None), _range(None, None)
    ('4 to 6', '4 or more', 'none')
    """
    if usual is None:
        return "none"
    return f"{usual} or more" if at_most is None else f"{usual} to {at_most}"
