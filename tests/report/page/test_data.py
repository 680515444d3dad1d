import dataclasses

import pytest

from glnn.exceptions import InputError


def test_nodes_have_one_entry_each_in_every_field(make_page):
    nodes = make_page(20).nodes
    assert len(nodes) == 20
    with pytest.raises(InputError, match="one entry a node"):
        dataclasses.replace(nodes, ids=nodes.ids[:-1])
