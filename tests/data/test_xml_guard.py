import io
from xml.parsers import expat

import pytest

from glnn.data.xml_guard import MAX_DEPTH, refuse_declarations
from glnn.exceptions import DataFormatError

BOMB = b"""<?xml version="1.0"?>
<!DOCTYPE lolz [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]>
<graphml>&b;</graphml>"""
EXTERNAL = b"""<?xml version="1.0"?><!DOCTYPE g SYSTEM "file:///etc/hostname"><g/>"""


@pytest.mark.parametrize("content", [BOMB, EXTERNAL])
@pytest.mark.parametrize("start", [None, lambda *_: None])
def test_document_types_and_entities_are_refused(content, start):
    with pytest.raises(DataFormatError, match=r"a GraphML file must have no .*DOCTYPE"):
        refuse_declarations(io.BytesIO(content), "a GraphML file", start)


def test_a_file_that_nests_without_end_is_refused():
    with pytest.raises(DataFormatError, match="nest at most"):
        refuse_declarations(io.BytesIO(b"<x>" * (MAX_DEPTH + 1)), "a file", lambda *_: None)


def test_every_element_is_told_with_its_depth():
    seen = []
    content = io.BytesIO(b'<a><p:b id="1"/><b><c/></b></a>')
    refuse_declarations(content, "a file", lambda *told: seen.append(told))
    assert seen == [("a", {}, 1), ("b", {"id": "1"}, 2), ("b", {}, 2), ("c", {}, 3)]


def test_without_a_listener_only_the_beginning_is_read():
    content = io.BytesIO(b"<a>" + b"<b/>" * 100_000 + b"not even closed")
    refuse_declarations(content, "a file")
    assert content.tell() < 100_000


def test_a_file_that_ends_too_early_is_no_xml():
    with pytest.raises(expat.ExpatError):
        refuse_declarations(io.BytesIO(b"<a><b/>"), "a file", lambda *_: None)
