"""Numbers as text: no exponents, no rounding to a whole, no minus zero."""

import math

_LARGEST = 1e12
"""The largest count to show; a larger one is shown as more than this."""


def percent(share: float | None, digits: int = 1) -> str:
    """Write a share; it reads 0 % and 100 % only where it is.

    >>> [percent(share) for share in (0, -0.0, 0.9534, 0.99999, 1, None)]
    ['0 %', '0 %', '95.3 %', '> 99.9 %', '100 %', 'unknown']
    """
    if share is None or math.isnan(share):
        return "unknown"
    if share in {0.0, 1.0}:
        return f"{round(100 * share)} %"
    unit = 10**-digits
    if 100 * share < unit:
        return f"< {unit:g} %"
    if 100 * share > 100 - unit:
        return f"> {100 - unit:g} %"
    return f"{100 * share:.{digits}f} %"


def share_of(part: int, whole: int) -> str:
    """Write a share as a percentage that never rounds to nothing or to all.

    >>> [share_of(part, 1000) for part in (0, 2, 426, 998, 1000)]
    ['0 %', '< 1 %', '43 %', '> 99 %', '100 %']
    """
    if part in {0, whole}:
        return "100 %" if part else "0 %"
    share = 100 * part / whole
    if share < 1:
        return "< 1 %"
    return "> 99 %" if share > 99 else f"{share:.0f} %"


def exactly(share: float) -> str:
    """Write a share that was set by hand, with all its digits.

    >>> [exactly(share) for share in (0.9, 0.07, 0.995, 0.9995, 1e-7)]
    ['90 %', '7 %', '99.5 %', '99.95 %', '0.00001 %']
    """
    return f"{_trimmed(f'{100 * share:.8f}')} %"


def plain(number: float, digits: int = 3) -> str:
    """Write a number with so many digits that count, and all of those before the point.

    >>> [plain(x) for x in (0, -0.0, 0.00002, 0.0345, 2.0, 12.34, 99.96, 12345.6, 1e6, -0.25)]
    ['0', '0', '< 0.001', '0.0345', '2', '12.3', '100', '12,346', '1,000,000', '-0.25']
    >>> plain(float("nan")), plain(1e300)
    ('unknown', '> 1,000,000,000,000')
    """
    if math.isnan(number):
        return "unknown"
    if abs(number) > _LARGEST:
        return f"> {_LARGEST:,.0f}" if number > 0 else f"< -{_LARGEST:,.0f}"
    if number and abs(number) < 0.001:
        return "< 0.001" if number > 0 else "> -0.001"
    before = math.floor(math.log10(abs(number))) + 1 if number else 1
    return _trimmed(f"{number:,.{max(0, digits - before)}f}")


def on_axis(number: float) -> str:
    """Write a round number beside an axis, with all its digits.

    >>> [on_axis(x) for x in (0, 0.00002, 0.5, 20, 2_000_000)]
    ['0', '0.00002', '0.5', '20', '2,000,000']
    """
    return _trimmed(f"{number:,.10f}")


def confidence(value: float) -> str:
    """Write a confidence or a threshold; it reads 0 and 1 only where it is.

    >>> [confidence(x) for x in (0.9, 0.87654, 0.99964, 1.0, 0.0, 0.99999999)]
    ['0.9', '0.877', '0.9996', '1', '0', 'just below 1']
    """
    for digits in range(3, 7):
        written = _trimmed(f"{value:.{digits}f}")
        if written not in {"0", "1"} or float(written) == value:
            return written
    return "just below 1" if value > 0.5 else "just above 0"


def chance(p_value: float) -> str:
    """Write a p-value, as what follows the letter.

    >>> [chance(p) for p in (0.04321, 0.5, 0.00002, 1.0)]
    ['= 0.043', '= 0.5', '< 0.001', '= 1']
    """
    return "< 0.001" if p_value < 0.001 else f"= {plain(p_value, 2)}"


def plural(n: int, singular: str, many: str | None = None) -> str:
    """Write a number with its noun.

    >>> plural(1, "audit"), plural(1200, "audit"), plural(2, "is", "are")
    ('1 audit', '1,200 audits', '2 are')
    """
    return f"{n:,} {singular if n == 1 else many or singular + 's'}"


_UNITS = (("day", 86_400.0), ("hour", 3_600.0), ("minute", 60.0))


def span(seconds: float) -> str:
    """Write a time in its largest sensible unit.

    >>> [span(s) for s in (0, 0.1, 2.5, 20, 59.9, 90 * 60, 49 * 3600)]
    ['0 seconds', 'under a second', '2.5 seconds', '20 seconds', '1 minute', '1.5 hours', '2 days']
    """
    return _in_unit(seconds, _UNITS)


def working_time(seconds: float) -> str:
    """Write a working time in hours or less.

    >>> [working_time(s) for s in (0.1, 12 * 60, 5400, 36_000, 5_000_000)]
    ['under a second', '12 minutes', '1.5 hours', '10 hours', '1,389 hours']
    """
    return _in_unit(seconds, _UNITS[1:])


def _in_unit(seconds: float, units: tuple[tuple[str, float], ...]) -> str:
    for name, unit in units:
        if seconds >= 1.5 * unit or (name == "minute" and round(seconds) >= unit):
            return _with_noun(seconds / unit, name)
    if 0 < seconds < 0.95:
        return "under a second"
    return _with_noun(max(seconds, 0.0), "second")


def _with_noun(number: float, noun: str) -> str:
    written = _trimmed(f"{number:,.{0 if number >= 9.95 else 1}f}")
    return f"{written} {noun}{'' if written == '1' else 's'}"


def _trimmed(written: str) -> str:
    """Return a number without zeros behind that say nothing, and without minus nothing."""
    if "." in written:
        written = written.rstrip("0").rstrip(".")
    return "0" if written == "-0" else written
