"""Cells of CSV files that spreadsheets would run as formulas."""

FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""Spreadsheets run cells that start with these as formulas (OWASP), also in full width."""


def guard(text: str) -> str:
    """Return a cell of a CSV file that no spreadsheet runs as a formula.

    >>> guard("=1+1"), guard("fever")
    ("'=1+1", 'fever')
    """
    return f"'{text}" if text.startswith(FORMULA_STARTS) else text  # spreadsheets hide it


def unguarded(text: str) -> str:
    """Return a cell of a CSV file without the apostrophe that guards formulas.

    >>> unguarded("'=1+1"), unguarded("'tis")
    ('=1+1', "'tis")
    """
    guarded = text.startswith("'") and text[1:].startswith(FORMULA_STARTS)
    return text[1:] if guarded else text
