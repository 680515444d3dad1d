import struct
import zipfile

import pytest

from glnn.data import zip_list
from glnn.data.zip_list import opened_zip
from glnn.exceptions import DataFormatError


def archive(path, n_members, comment=b""):
    with zipfile.ZipFile(path, "w") as made:
        for number in range(n_members):
            made.writestr(f"member {number}", b"x")
        made.comment = comment
    return path


@pytest.mark.parametrize("comment", [b"", b"some words"])
@pytest.mark.parametrize("n_members", [0, 3, 70_000])  # the last has the longer kind of end
def test_the_measured_list_is_the_list(tmp_path, n_members, comment, monkeypatch):
    path = archive(tmp_path / "a.zip", n_members, comment)
    with zipfile.ZipFile(path) as wanted:
        n_bytes = sum(46 + len(member.filename) for member in wanted.infolist())
    monkeypatch.setattr(zip_list, "MAX_LIST", n_bytes)
    with opened_zip(path) as found:
        assert len(found.namelist()) == n_members
    monkeypatch.setattr(zip_list, "MAX_LIST", n_bytes - 1)
    with pytest.raises(DataFormatError, match=f"got {n_bytes:,}. Nothing was unpacked"):
        opened_zip(path)


def test_many_members_are_refused_before_they_are_read(tmp_path, monkeypatch):
    path = archive(tmp_path / "a.zip", 30_000)
    monkeypatch.setattr(zipfile, "ZipFile", None)
    with pytest.raises(DataFormatError, match="list its members in at most 1,048,576 bytes"):
        opened_zip(path)


@pytest.mark.parametrize("content", [b"", b"PK", b"PK\x05\x06", b"x" * 200])
def test_what_is_no_archive_is_left_to_zipfile(tmp_path, content):
    path = tmp_path / "a.zip"
    path.write_bytes(content)
    with pytest.raises(zipfile.BadZipFile):
        opened_zip(path)


def test_a_list_that_claims_to_be_huge_is_refused(tmp_path):
    path = archive(tmp_path / "a.zip", 2)
    content = bytearray(path.read_bytes())
    struct.pack_into("<L", content, len(content) - 10, 2**32 - 1)
    path.write_bytes(content)
    with pytest.raises(DataFormatError, match="got 4,294,967,295"):
        opened_zip(path)
