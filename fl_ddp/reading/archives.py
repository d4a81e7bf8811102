"""Files of data and archives of them that cannot be read."""

from __future__ import annotations

import lzma
import tarfile
import zipfile
import zlib

UNREADABLE = (
    OSError,
    ValueError,
    EOFError,
    RuntimeError,
    lzma.LZMAError,
    tarfile.TarError,
    zipfile.BadZipFile,
    zlib.error,
)
"""What is raised where one is damaged, cut short, of an unknown kind or, RuntimeError says that, encrypted."""
