"""What can go wrong while a ZIP archive from elsewhere is read."""

import lzma
import struct
import tokenize
import zipfile
import zlib

UNREADABLE: tuple[type[Exception], ...] = (
    zipfile.BadZipFile,  # detected damage
    ValueError,  # a directory that points before the file's start
    RuntimeError,  # encryption, or a compression method that Python lacks (NotImplementedError)
    EOFError,  # truncation
    struct.error,  # a field that ends too early
    OverflowError,  # a size or an offset beyond any file
    IndexError,  # an empty name
    zlib.error,  # damaged DEFLATE data
    lzma.LZMAError,  # damaged LZMA data; bzip2 raises an OSError
    MemoryError,  # an array's header that promises more than there is room for
    RecursionError,  # such a header, nested too deeply
    SyntaxError,  # such a header that is no Python
    tokenize.TokenError,  # such a header that ends early
)
"""Errors of reading a bad archive."""
