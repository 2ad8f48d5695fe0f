"""Learning: label sets with a calibrated confidence. No HTTP, no SQL."""

from pathlib import Path

from setwise.models.compilation import keep_compiled_code

keep_compiled_code(Path(__file__).parent)
