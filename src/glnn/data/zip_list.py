"""Zip archives, whose list of members is measured before it is read into memory."""

import struct
import zipfile
from pathlib import Path

from glnn.data.files import shown_path
from glnn.exceptions import DataFormatError

MAX_LIST = 2**20
"""Bytes of the list of members: room for thousands of them."""

_END = b"PK\x05\x06"
_END_SIZE, _END_64_SIZE = 22, 76  # with the locator that stands between the two
_END_64 = b"PK\x06\x06"
_COMMENT = 2**16


def opened_zip(path: Path) -> zipfile.ZipFile:
    """Open an archive; one whose list of members would take much memory is refused unread."""
    n_bytes = _list_size(path)
    if n_bytes > MAX_LIST:
        raise DataFormatError(
            f"{shown_path(path)} must list its members in at most {MAX_LIST:,} bytes, "
            f"got {n_bytes:,}. Nothing was unpacked."
        )
    return zipfile.ZipFile(path)


def _list_size(path: Path) -> int:
    """Return the size that the end of the archive declares, found where ``zipfile`` looks."""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - _COMMENT - _END_SIZE - _END_64_SIZE))
        tail = file.read()
    end = tail[-_END_SIZE:]
    has_comment = not (end.startswith(_END) and end.endswith(b"\0\0"))
    place = tail.rfind(_END) if has_comment else len(tail) - _END_SIZE
    if place < 0 or len(tail) - place < _END_SIZE:
        return 0  # no archive, which zipfile says in its own words
    size: int = struct.unpack_from("<L", tail, place + 12)[0]
    if place >= _END_64_SIZE and tail.startswith(_END_64, place - _END_64_SIZE):
        size = struct.unpack_from("<Q", tail, place - _END_64_SIZE + 40)[0]
    return size
