"""Elements of the report's page, with everything in them escaped."""

from collections.abc import Iterable, Sequence

from markupsafe import Markup, escape

_EMPTY = {"input"}


def tag(name: str, *inside: str | Markup, **attributes: str) -> Markup:
    """Return an element; an underscore in an attribute's name stands for a hyphen."""
    written = Markup("").join(
        Markup(' {}="{}"').format(key.rstrip("_").replace("_", "-"), value)
        for key, value in attributes.items()
    )
    if name in _EMPTY:
        return Markup("<{0}{1}>").format(Markup(name), written)  # noqa: S704 -- ours
    content = Markup("").join(escape(each) for each in inside)
    return Markup("<{0}{1}>{2}</{0}>").format(Markup(name), written, content)  # noqa: S704 -- ours


def table(
    heads: Sequence[str], rows: Sequence[Sequence[str]], caption: str, **attributes: str
) -> Markup:
    """Return a table in a box that scrolls, below its caption."""
    head = tag(
        "tr",
        *(
            tag("th" if name else "td", name, **({"scope": "col"} if name else {}))
            for name in heads
        ),
    )
    body = [
        tag("tr", tag("th", row[0], scope="row"), *(tag("td", cell) for cell in row[1:]))
        for row in rows
    ]
    drawn = tag("table", tag("thead", head), tag("tbody", *body), **attributes)
    box = tag(
        "div", drawn, class_="scroll", tabindex="0", role="group", aria_label=caption or "Table"
    )
    # Beside the box: in it, a caption is as wide as the table, and scrolls out of sight with it.
    return Markup("").join([*([tag("p", caption, class_="caption")] if caption else []), box])


def folded(summary: str, inside: Iterable[Markup]) -> Markup:
    """Return elements behind a summary."""
    return tag("details", tag("summary", summary), *inside)
