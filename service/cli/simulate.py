"""``simulate``: plan the service on simulated weeks before real ones."""

# ruff: noqa: PLC0415 - the service's libraries import slowly: only where needed

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from setwise.service.cli.console import (
    AsJson,
    CommandError,
    note,
    print_json,
    print_table,
    progress,
    say,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.table import Table

    from setwise.service.simulation.loop import Week
    from setwise.service.simulation.plan import Plan
    from setwise.service.simulation.streams import Stream

commands = typer.Typer()


@commands.command()
def simulate(
    context: typer.Context,
    artifact: Annotated[
        Path | None, typer.Option(help="A folder written by train; synthetic scores without it.")
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(
            help="Labelled documents that the model has not seen: a file, or the test part of a "
            "folder. They arrive in random order, repeatedly."
        ),
    ] = None,
    *,
    overconfident: Annotated[
        bool, typer.Option("--overconfident", help="Synthetic confidences that are too high.")
    ] = False,
    weeks: Annotated[int, typer.Option(help="Weeks to simulate.")] = 30,
    documents: Annotated[int, typer.Option(help="Documents a week.")] = 1_000,
    target: Annotated[
        float, typer.Option(help="Share of the sent label sets that must be right.")
    ] = 0.9,
    risk: Annotated[float, typer.Option(help="Chance that a certificate may be wrong.")] = 0.1,
    annotators: Annotated[
        str,
        typer.Option(
            help="How often reviewers contradict a right prediction, one number for each group; "
            ".1x4 is a group of four."
        ),
    ] = ".1,.3,.5",
    miss_rate: Annotated[
        float, typer.Option(help="How often reviewers agree with a wrong prediction.")
    ] = 0.02,
    sure_miss_rate: Annotated[
        float | None,
        typer.Option(
            help="The same where the model is surest, if it depends on the confidence: from "
            "--miss-rate at 0 to this at 1."
        ),
    ] = None,
    lapse_week: Annotated[
        int | None, typer.Option(help="First week in which reviewers overlook most errors.")
    ] = None,
    lapse_rate: Annotated[
        float, typer.Option(help="How often they agree with a wrong prediction from then on.")
    ] = 0.99,
    certification_rate: Annotated[
        float, typer.Option(help="Share of documents audited to prove a threshold.")
    ] = 0.1,
    ramp_up_rate: Annotated[
        float | None, typer.Option(help="The same while nothing is sent; the same by default.")
    ] = None,
    training_rate: Annotated[
        float, typer.Option(help="Share of confident documents audited to teach the calibrator.")
    ] = 0.02,
    reread_rate: Annotated[
        float, typer.Option(help="Share of audits that the lead always reads.")
    ] = 0.5,
    overlap_rate: Annotated[
        float, typer.Option(help="Share of reviews that a second reviewer also does.")
    ] = 0.0,
    audit_mode: Annotated[
        str, typer.Option(help="hold: audited documents wait; send: they are sent and corrected.")
    ] = "hold",
    minutes: Annotated[float, typer.Option(help="Minutes that reading a document takes.")] = 2.0,
    recertify_every: Annotated[
        int, typer.Option(help="Weeks between requests for a new certificate; 0: never.")
    ] = 4,
    run_length: Annotated[
        float, typer.Option(help="Least average number of audits between false alarms.")
    ] = 5_000.0,
    recalibrate_every: Annotated[
        int,
        typer.Option(
            help="Weeks between recalibrations while nothing is certified; 0: never. Needs a model."
        ),
    ] = 0,
    noise: Annotated[
        str,
        typer.Option(
            help="What recalibration corrects for: none trusts every review, known uses the "
            "reviewers' true error rates, estimated those that the lead's decisions show."
        ),
    ] = "known",
    drift_week: Annotated[
        int | None,
        typer.Option(
            help="First week in which some documents have other labels than the model has learnt."
        ),
    ] = None,
    drift: Annotated[float, typer.Option(help="Share of the documents that drift.")] = 0.2,
    drift_over: Annotated[
        int, typer.Option(help="Weeks over which the drift grows to that share.")
    ] = 1,
    drift_label: Annotated[
        str | None, typer.Option(help="Only documents with this label drift; by default any.")
    ] = None,
    sites: Annotated[
        int | None, typer.Option(help="Sites that send documents in turn; the last one is bad.")
    ] = None,
    bad_site: Annotated[
        float, typer.Option(help="Share of the bad site's documents with another label set.")
    ] = 0.3,
    together: Annotated[
        bool, typer.Option("--together", help="Sites share one threshold, not one each.")
    ] = False,
    without_loop: Annotated[
        bool,
        typer.Option(
            "--without-loop", help="Send at a fixed threshold: no audits, certificates or breaker."
        ),
    ] = False,
    threshold: Annotated[
        float | None,
        typer.Option(help="The fixed threshold of --without-loop; by default the target."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Equal seeds give equal simulations.")] = 0,
    plan_: Annotated[
        bool,
        typer.Option(
            "--plan",
            help="Compare audit rates by cost instead, for the model's confidences or, without "
            "--artifact, for the installation's recent predictions. Also reads --target, --risk, "
            "--documents, --miss-rate and --run-length.",
        ),
    ] = False,
    find_drop: Annotated[
        float, typer.Option(help="Plan: drop of the accuracy below the target to find.")
    ] = 0.05,
    find_weeks: Annotated[
        float, typer.Option(help="Plan: weeks in which it should be found.")
    ] = 26.0,
    certificate_weeks: Annotated[
        float, typer.Option(help="Plan: weeks in which a certificate should come.")
    ] = 26.0,
    prices: Annotated[
        str, typer.Option(help="Plan: prices of an audit, of a review and of an error sent.")
    ] = "1,1,10",
    as_json: AsJson = False,
) -> None:
    """Simulate weeks of documents, reviews, audits and drift.

    Documents with a known truth go through the service on a temporary database, and simulated
    people review and audit them. Your own database is not used, except by --plan without a model.
    """
    if plan_:
        from setwise.service.cli.plans import print_plans

        given = {
            name: value
            for name, value in (
                ("target_accuracy", target),
                ("risk", risk),
                ("documents_a_week", documents),
                ("miss_rate", miss_rate),
            )
            if artifact is not None or _is_given(context, name)
        }
        given |= {
            "drop": find_drop,
            "find_weeks": find_weeks,
            "certificate_weeks": certificate_weeks,
        }
        print_plans(artifact, data, given, prices, run_length=run_length, as_json=as_json)
        return
    from setwise.service.domain.recalibration import Noise
    from setwise.service.domain.routing.audits import AuditMode, AuditPlan
    from setwise.service.simulation.loop import simulate as run
    from setwise.service.simulation.loop import summary
    from setwise.service.simulation.plan import Drift, Lapse, Plan, Sites, read_groups

    if audit_mode not in {mode.value for mode in AuditMode}:
        raise CommandError(f"--audit-mode {audit_mode!r}: write hold or send")
    if noise not in {one.value for one in Noise}:
        raise CommandError(f"--noise {noise!r}: write none, known or estimated")
    if recalibrate_every and artifact is None:
        raise CommandError("--recalibrate-every needs a model; name one with --artifact")
    if threshold is not None and not without_loop:
        raise CommandError("--threshold needs --without-loop; the loop finds its own threshold")
    if drift_label is not None and drift_week is None:
        raise CommandError("--drift-label needs the first week of the drift, --drift-week")
    plan = Plan(
        weeks=weeks,
        documents=documents,
        target=target,
        risk=risk,
        groups=read_groups(annotators),
        miss_rate=miss_rate,
        sure_miss_rate=sure_miss_rate,
        lapse=None if lapse_week is None else Lapse(lapse_week, lapse_rate),
        audits=AuditPlan(
            certification_rate,
            training_rate,
            AuditMode(audit_mode),
            overlap_rate,
            reread_rate,
            ramp_up_rate,
        ),
        minutes=minutes,
        recertify_every=recertify_every,
        run_length=run_length,
        recalibrate_every=recalibrate_every,
        noise=Noise(noise),
        drift=None if drift_week is None else Drift(drift_week, drift, drift_label, drift_over),
        sites=None if sites is None else Sites(sites, bad_site, not together),
        fixed_threshold=None if not without_loop else target if threshold is None else threshold,
        seed=seed,
    )
    stream = _stream(artifact, data, overconfident=overconfident, seed=seed)
    with progress("simulate") as report:
        done = run(plan, stream, lambda week: report(week.week / weeks, f"week {week.week}"))
    if as_json:
        print_json({"weeks": [week.to_json() for week in done], "summary": summary(done)})
    else:
        print_table(_table(done))
        say(_conclusion(plan, done))


_OPTIONS = {"target_accuracy": "target", "documents_a_week": "documents"}


def _is_given(context: typer.Context, name: str) -> bool:
    """Return whether an option was given, so that it outranks what the installation has."""
    source = context.get_parameter_source(_OPTIONS.get(name, name))
    return source is not None and source.name != "DEFAULT"


def _stream(
    artifact: Path | None, data: Path | None, *, overconfident: bool, seed: int
) -> "Stream":
    from setwise.service.simulation.streams import HeldOutStream, SyntheticStream

    if artifact is None or data is None:
        if artifact is not None:
            raise CommandError("--artifact needs documents that the model has not seen, --data")
        if data is not None:
            raise CommandError("--data needs the model that reads it, --artifact")
        return SyntheticStream(seed, overconfident)
    if overconfident:
        raise CommandError("--overconfident is for synthetic scores; leave --artifact out")
    stream = HeldOutStream(artifact, data, seed)
    if stream.n_left_out:
        n_all = stream.n_left_out + stream.n_documents
        note(
            f"setwise: {stream.n_left_out} of {n_all} documents are left out: they are empty, or "
            "have labels that the model does not know"
        )
    return stream


def _table(weeks: "Sequence[Week]") -> "Table":
    from rich.table import Table

    table = Table(box=None)
    for head in (
        "week",
        "documents",
        "sent %",
        "right of sent %",
        "threshold",
        "certificate",
        "breaker",
        "calibrator",
        "reviews",
        "audits",
        "by the lead",
        "hours",
    ):
        words = head in {"certificate", "breaker", "calibrator"}
        table.add_column(head, justify="left" if words else "right")
    for week in weeks:
        table.add_row(
            str(week.week),
            str(week.documents),
            _percent(week.coverage),
            _percent(week.accuracy),
            "none" if week.threshold is None else f"{week.threshold:.3f}",
            _certificate(week),
            "trips" if week.trips else week.breaker.value,
            "new" if week.recalibrated else "",
            str(week.reviews + week.overlaps),
            str(week.audits),
            str(week.adjudications),
            f"{week.hours:.1f}",
        )
    return table


def _percent(share: float | None) -> str:
    return "" if share is None else f"{100 * share:.1f}"


def _certificate(week: "Week") -> str:
    if week.certified:
        return "proved"
    if week.lacking is None:
        return "fixed by hand" if week.audits == 0 else "none yet"
    missing = "" if week.further_audits is None else f", about {week.further_audits} audits lack"
    return f"{week.lacking}{missing}"


def _conclusion(plan: "Plan", weeks: "Sequence[Week]") -> str:
    """Return a short summary for the owner."""
    sent, right = sum(week.sent for week in weeks), sum(week.right for week in weeks)
    documents = sum(week.documents for week in weeks)
    first = next((week.week for week in weeks if week.certified), None)
    lines = [
        f"{sent} of {documents} documents were sent, {sent / documents:.1%}"
        + (f"; {right / sent:.1%} of them were right (target {plan.target:.1%})." if sent else "."),
        f"People read for {sum(week.hours for week in weeks) / len(weeks):.1f} hours a week.",
    ]
    if plan.sites is not None:
        bad = sum(week.bad_sent for week in weeks)
        right = sum(week.bad_right for week in weeks)
        lines.append(
            f"Of the bad site {bad} were sent" + (f", {right / bad:.1%} right." if bad else ".")
        )
    if plan.fixed_threshold is None:
        lines.append(
            f"No certificate in {len(weeks)} weeks."
            if first is None
            else f"First certificate in week {first}."
        )
        trips = [str(week.week) for week in weeks if week.trips]
        if trips:
            lines.append(f"The breaker tripped in week {', '.join(trips)}.")
    return "\n".join(lines)
