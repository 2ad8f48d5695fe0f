"""The places of the dashboard, and who is shown the way to which."""

from dataclasses import dataclass

from setwise.service.domain.callers import Caller, Permission


@dataclass(frozen=True)
class Place:
    """A page that the header of every page leads to.

    Attributes
    ----------
    name : str
        As people read it.
    address : str
        The path of the page; what lies below it counts as being there.
    needed : Permission or None
        What a visitor must be allowed; None for whoever is signed in.
    invitation : str
        What the start page says to those who may go there.
    """

    name: str
    address: str
    needed: Permission | None = None
    invitation: str = ""


# In the order of the header. Whoever adds a page adds its line; a test asks for every address.
PLACES: tuple[Place, ...] = (
    Place("Overview", "/"),
    Place("Review", "/desk", Permission.REVIEW, "Review the next document"),
    Place("Cockpit", "/cockpit", Permission.REPORT, "See how the machine does"),
    Place("Board", "/board", Permission.INSPECT, "Look after the service"),
)


def places_for(caller: Caller) -> list[Place]:
    """Return the places that ``caller`` may go to."""
    return [place for place in PLACES if place.needed is None or caller.may(place.needed)]
