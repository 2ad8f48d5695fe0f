"""People: make accounts, change names and roles, shut accounts, give new passwords."""

from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response

from setwise.service.domain.accounts import Person
from setwise.service.domain.callers import Permission, Role
from setwise.service.domain.errors import Conflict, InvalidRequest, LoginTaken, PersonNotFound
from setwise.service.pages.board.frame import Question, done, framed
from setwise.service.pages.forms import Filled, filled
from setwise.service.pages.rendering import Page
from setwise.service.pages.sign_in import request_id_of
from setwise.service.pages.visitors import Visitors
from setwise.service.services.verbs import Verbs
from setwise.service.sign_in.sessions import Visit

HERE = "/board/people"

ROLES = {
    Role.REVIEWER: "settles reviews at the desk",
    Role.LEAD: "reviews, decides between two answers, reads reports",
    Role.ADMIN: "may do everything",
    Role.AUDITOR: "reads everything and changes nothing",
}

_PLACES = {"/login": "login", "/name": "name", "/role": "role", "/password": "password"}


def people_pages(verbs: Verbs, visitors: Visitors) -> APIRouter:
    """Return the routes of the accounts."""
    router = APIRouter(route_class=Page)

    @router.get(HERE)
    def show(
        visit: Annotated[Visit, Depends(visitors.who_may(Permission.INSPECT))],
        done: str = "",
    ) -> Response:
        """List everybody, and offer to make an account."""
        return _list(verbs, visit, Filled.of(role=Role.REVIEWER.value), notice=done)

    @router.post(HERE)
    def create(
        request: Request,
        visit: Annotated[Visit, Depends(visitors.who_sends(Permission.ADMINISTER))],
        form: Annotated[Filled, Depends(filled)],
    ) -> Response:
        """Make an account."""
        role = form.choice("role", Role)
        if role is not None:
            try:
                verbs.create_person(
                    visit.caller,
                    login=form.text("login"),
                    name=form.text("name"),
                    role=role,
                    password=_password(form),
                    request_id=request_id_of(request),
                )
            except InvalidRequest as error:
                form.refused(error, _PLACES)
            except LoginTaken as error:
                form.blame("login", error.detail)
            else:
                return done(HERE, "person-created")
        return _list(verbs, visit, form, status=HTTPStatus.UNPROCESSABLE_ENTITY)

    router.include_router(_one_person(verbs, visitors))
    router.include_router(_access_pages(verbs, visitors))
    return router


def _one_person(verbs: Verbs, visitors: Visitors) -> APIRouter:
    """Return the routes of one account."""
    router = APIRouter(route_class=Page)

    @router.get(f"{HERE}/{{person_id}}")
    def one(
        person_id: str,
        visit: Annotated[Visit, Depends(visitors.who_may(Permission.INSPECT))],
        done: str = "",
    ) -> Response:
        """Show an account and what can be changed about it."""
        return _one(visit, _known(verbs, visit, person_id), notice=done)

    @router.post(f"{HERE}/{{person_id}}")
    def change(
        request: Request,
        person_id: str,
        visit: Annotated[Visit, Depends(visitors.who_sends(Permission.ADMINISTER))],
        form: Annotated[Filled, Depends(filled)],
    ) -> Response:
        """Change a name and a role."""
        person = _known(verbs, visit, person_id)
        role = form.choice("role", Role)
        if role is not None:
            try:
                verbs.change_person(
                    visit.caller,
                    person.id,
                    name=form.text("name"),
                    role=role,
                    request_id=request_id_of(request),
                )
            except InvalidRequest as error:
                form.refused(error, _PLACES)
            except Conflict as error:
                form.blame("role", error.detail)
            else:
                return done(f"{HERE}/{person.id}", "person-changed")
        return _one(visit, person, form=form, status=HTTPStatus.UNPROCESSABLE_ENTITY)

    return router


def _access_pages(verbs: Verbs, visitors: Visitors) -> APIRouter:
    """Return the routes on which accounts are shut, opened and given passwords."""
    router = APIRouter(route_class=Page)

    @router.post(f"{HERE}/{{person_id}}/password")
    def set_password(
        request: Request,
        person_id: str,
        visit: Annotated[Visit, Depends(visitors.who_sends(Permission.ADMINISTER))],
        form: Annotated[Filled, Depends(filled)],
    ) -> Response:
        """Give somebody another password."""
        person = _known(verbs, visit, person_id)
        try:
            verbs.set_password(
                visit.caller, person.id, _password(form) or "", request_id=request_id_of(request)
            )
        except InvalidRequest as error:
            form.refused(error, _PLACES)
            status = HTTPStatus.UNPROCESSABLE_ENTITY
            return _one(visit, person, secret=form, status=status)
        return done(f"{HERE}/{person.id}", "password-set")

    @router.get(f"{HERE}/{{person_id}}/disable")
    def ask(
        person_id: str, visit: Annotated[Visit, Depends(visitors.who_may(Permission.ADMINISTER))]
    ) -> Response:
        """Say what shutting an account does, and ask."""
        return _question(_known(verbs, visit, person_id)).ask(visit, HERE)

    @router.post(f"{HERE}/{{person_id}}/disable")
    def disable(
        request: Request,
        person_id: str,
        visit: Annotated[Visit, Depends(visitors.who_sends(Permission.ADMINISTER))],
    ) -> Response:
        """Shut an account."""
        person = _known(verbs, visit, person_id)
        try:
            verbs.change_person(
                visit.caller, person.id, disabled=True, request_id=request_id_of(request)
            )
        except Conflict as error:
            return _question(person).ask(
                visit, HERE, refusal=error.detail, status=HTTPStatus.CONFLICT
            )
        return done(f"{HERE}/{person.id}", "person-disabled")

    @router.post(f"{HERE}/{{person_id}}/enable")
    def enable(
        request: Request,
        person_id: str,
        visit: Annotated[Visit, Depends(visitors.who_sends(Permission.ADMINISTER))],
    ) -> Response:
        """Open an account again."""
        person = _known(verbs, visit, person_id)
        verbs.change_person(
            visit.caller, person.id, disabled=False, request_id=request_id_of(request)
        )
        return done(f"{HERE}/{person.id}", "person-enabled")

    return router


def _known(verbs: Verbs, visit: Visit, person_id: str) -> Person:
    everybody = verbs.list_people(visit.caller)
    found = next((person for person in everybody if person.id == person_id), None)
    if found is None:
        raise PersonNotFound(f"Nobody has the id {person_id!r}.")
    return found


def _list(
    verbs: Verbs,
    visit: Visit,
    form: Filled,
    *,
    notice: str = "",
    status: HTTPStatus = HTTPStatus.OK,
) -> Response:
    values = {"people": verbs.list_people(visit.caller), "form": form, "roles": _roles()}
    return framed(
        "board_people.html", values, visit=visit, section=HERE, notice=notice, status=status
    )


def _one(
    visit: Visit,
    person: Person,
    *,
    form: Filled | None = None,
    secret: Filled | None = None,
    notice: str = "",
    status: HTTPStatus = HTTPStatus.OK,
) -> Response:
    values = {
        "person": person,
        "form": form or Filled.of(name=person.name, role=person.role.value),
        "secret": secret or Filled.of(),
        "roles": _roles(),
        "oneself": person.id == visit.caller.id,
    }
    return framed(
        "board_person.html", values, visit=visit, section=HERE, notice=notice, status=status
    )


def _roles() -> list[tuple[str, str]]:
    return [(role.value, f"{role}: {meaning}") for role, meaning in ROLES.items()]


def _password(form: Filled) -> str | None:
    """Return the password as it was typed: spaces belong to it."""
    given = form.values.get("password", ())
    return given[0] if given else ""


def _question(person: Person) -> Question:
    return Question(
        heading=f"Shut the account of {person.name}?",
        will=(
            f"{person.name} ({person.login}) is signed out everywhere and cannot sign in again.",
            "What they hold of the queue goes back to the others when its time is over.",
            "What they have done stays under their name; the account can be opened again.",
        ),
        answer="Shut it",
        address=f"{HERE}/{person.id}/disable",
        back=f"{HERE}/{person.id}",
    )
