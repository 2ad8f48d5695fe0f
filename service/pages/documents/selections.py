"""What readers of a list do with the documents that they tick."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self
from urllib.parse import urlencode

from markupsafe import Markup
from pydantic import ValidationError

from setwise.models.figures.numerals import plural
from setwise.service.api.documents import DocumentQuery
from setwise.service.domain.documents import ListedDocument, check_comment
from setwise.service.domain.errors import InvalidRequest
from setwise.service.pages.board import parts as ui
from setwise.service.pages.documents import of_document
from setwise.service.pages.documents.predictions import name_of
from setwise.service.pages.forms import Filled
from setwise.service.requests import Choices
from setwise.service.requests.documents import ActionKind, ActionRequest
from setwise.service.services.all import Services
from setwise.service.services.documents.selections import MOST_CHANGED, SelectionOutcome
from setwise.service.sign_in.sessions import Visit

FORM = "selection"
MANY = 10
"""More documents are changed only after a question."""
MOST_SHOWN = 20
"""At most this many unchanged documents are listed."""
_FILE = "file:"
_DONE: Mapping[ActionKind, str] = {
    ActionKind.ASSIGN: "assigned to {}",
    ActionKind.PRIORITIZE: "put first in the queue",
    ActionKind.DEPRIORITIZE: "put back at the usual place in the queue",
    ActionKind.REOPEN: "sent back to review",
}


@dataclass(frozen=True)
class SelectionBar(ui.Part):
    """What can be done with the ticked documents of a list."""

    macro = "bar"
    address: str
    listed: Sequence[str]
    """Ids of all predictions in the list."""
    matching: str
    """How many documents match; empty if the list shows them all."""
    filled: Filled
    people: Choices
    """The people they can be assigned to; empty for visitors who only read."""


@dataclass
class TickedDocuments:
    """The documents that were ticked, and what came of it."""

    filled: Filled = field(default_factory=Filled.of)
    people: Mapping[str, str] = field(default_factory=dict)
    """Names of the people whom documents can be assigned to, by id."""
    ids: Sequence[str] = ()
    export: str = ""
    """The address of a file of them, if that is what was asked for."""
    act: ActionKind | None = None
    """What to do with them."""
    outcome: SelectionOutcome | None = None
    """What was done; None before many documents are changed, which a question precedes."""

    @classmethod
    def of(
        cls, services: Services, visit: Visit, filled: Filled, filters: DocumentQuery | None
    ) -> Self:
        """Do what a form asks for, or note why not.

        ``filters``: What the list shows.
        """
        text, everything = filled.text, filled.ticked("matching") and filters is not None
        boxes = filled.all("listed" if filled.ticked("all") else "id")
        ids = [id_ for box in boxes for id_ in box.split(",")]
        ticked = cls(filled, services.selections.people(visit.caller), ids)
        if not ids and not everything:
            filled.blame("", "Tick at least one document.")
        elif text("act").startswith(_FILE):
            written = text("act").removeprefix(_FILE)
            ticked.export = export_of(filters if filters and everything else ids, written)
        else:
            try:
                body = ActionRequest.model_validate(
                    {
                        "action": text("act"),
                        "ids": [],
                        "assignee": text("assignee") or None,
                        "reason": text("why"),
                    }
                )
                if body.action is ActionKind.REOPEN:
                    check_comment(body.reason, "/reason")
                if filters and everything:
                    ticked.ids = services.selections.matching(visit.caller, filters.as_filter())
                ticked._carry_out(services, visit, body)
            except ValidationError:
                filled.blame("", "Choose what to do with the documents.")
            except InvalidRequest as refusal:
                filled.blame("", refusal.detail)
                filled.take(refusal.faults, {"/assignee": "assignee", "/reason": "why"})
        return ticked

    def _carry_out(self, services: Services, visit: Visit, body: ActionRequest) -> None:
        self.act = body.action
        if len(self.ids) > MANY and not self.filled.ticked("sure"):
            return
        for start in range(0, len(self.ids), MOST_CHANGED):
            part = body.model_copy(update={"ids": self.ids[start : start + MOST_CHANGED]})
            now = part.carry_out(services.selections, visit.caller)
            before = self.outcome or SelectionOutcome([], [])
            self.outcome = SelectionOutcome(
                [*before.changed, *now.changed], [*before.refused, *now.refused]
            )

    def _sentence(self, act: ActionKind, number: int, before: str = "") -> str:
        to = self.people.get(self.filled.text("assignee"), "no one: anyone may review")
        return f"{plural(number, 'document')} {before}{_DONE[act].format(to)}."

    def question(self, address: str) -> ui.Question | None:
        """Return what is asked before many documents are changed, at the list's address."""
        if self.act is None or self.outcome or self.filled.faults:
            return None
        again = "They go back to review; other programs are notified if the answer changes."
        return ui.Question(
            f"Change {plural(len(self.ids), 'document')}?",
            [
                self._sentence(self.act, len(self.ids), "will be "),
                *([again] if self.act is ActionKind.REOPEN else []),
                "Documents that this does not fit stay as they are; the next page lists them.",
            ],
            "Change them",
            address,
            danger=self.act is ActionKind.REOPEN,
            fields={
                **{name: self.filled.text(name) for name in ("act", "assignee", "why")},
                "id": ",".join(self.ids),
                "sure": "yes",
            },
        )

    def report(self, shown: Sequence[ListedDocument]) -> Sequence[Markup]:
        """Return what was done, and what was refused and why."""
        if self.filled.faults:
            why = self.filled.faults.get("", ["Fix the fields marked below."])
            # A later part can be refused, for instance because the assignee was just disabled.
            changed = (
                "Nothing was"
                if self.outcome is None
                else f"Only {plural(len(self.outcome.changed), 'document was', 'documents were')}"
            )
            return (
                Markup('<div class="alert" role="alert"><p>{} changed. {}</p></div>').format(
                    changed, " ".join(why)
                ),
            )
        if self.act is None or self.outcome is None:
            return ()
        names = {each.prediction.id: name_of(each.prediction) for each in shown}
        refused = [
            Markup("<li>{}: {}</li>").format(
                ui.link(of_document(each.id), names.get(each.id, f"…{each.id[-12:]}")),
                each.detail,
            )
            for each in self.outcome.refused
        ]
        more = len(refused) - MOST_SHOWN
        unchanged = Markup("<p>{} stayed unchanged:</p><ul>{}{}</ul>").format(
            plural(len(refused), "document"),
            ui.joined(*refused[:MOST_SHOWN]),
            Markup("<li>{} more</li>").format(more) if more > 0 else "",
        )
        return (
            Markup('<div class="{}" role="status"><p>{}</p>{}</div>').format(
                "note" if refused else "done",
                self._sentence(self.act, len(self.outcome.changed)),
                unchanged if refused else "",
            ),
        )

    def column(self) -> ui.Column[ListedDocument]:
        """Return the column with a box for each row, and one for all of them."""
        left = () if self.outcome else self.ids

        def box(name: str, value: str, label: str, *, ticked: bool) -> Markup:
            return Markup(
                '<label class="pick"><input type="checkbox" form="{}" name="{}" value="{}"{}>'
                '<span class="unseen">{}</span></label>'
            ).format(FORM, name, value, Markup(" checked") if ticked else "", label)

        return ui.Column(
            box("all", "yes", "Select all on this page", ticked=False),
            lambda document: box(
                "id",
                document.prediction.id,
                f"Select {name_of(document.prediction)}",
                ticked=document.prediction.id in left,
            ),
        )

    def bar(
        self, address: str, shown: Sequence[ListedDocument], matching: str
    ) -> Sequence[SelectionBar]:
        """Return the form that the boxes of the rows belong to."""
        answers = Filled.of() if self.outcome else self.filled
        to = [("", "anyone"), *self.people.items()] if self.people else []
        listed = [document.prediction.id for document in shown]
        return (SelectionBar(address, listed, matching, answers, to),) if shown else ()


def export_of(documents: DocumentQuery | Sequence[str], written: str) -> str:
    """Return the address of a file of what matches, or of predictions with these ids."""
    query = (
        documents.model_dump(mode="json", exclude_defaults=True)
        if isinstance(documents, DocumentQuery)
        else {"id": documents}
    )
    return f"/v1/documents/export?{urlencode({**query, 'format': written}, doseq=True)}"
