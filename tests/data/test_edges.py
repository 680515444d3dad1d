import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glnn.data import TableOptions, read_data
from glnn.data.edges import read_edge_list, read_edges
from glnn.data.table_files import write_edge_table
from glnn.exceptions import DataFormatError, InputError

SETTINGS = settings(settings.get_profile("records"))

INDEX = {"a": 0, "b": 1, "c": 2}


def edges(tmp_path, content, name="e.csv", **options):
    path = tmp_path / name
    path.write_text(content)
    return read_edges(path, INDEX, TableOptions(**options))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("e.csv", "source,target\na,b\nb,c\n"),
        ("e.csv", "a,b\nb,c\n"),
        ("e.csv", "from;to\na;b\nb;c\n"),
        ("e.csv", "year,to,from\n1,b,a\n2,c,b\n"),
        ("e.csv", "who,whom\na,b\nb,c\n"),
        ("e.tsv", "a\tb\nb\tc\n"),
        ("e.edges", "# a comment\na b\nc b\n"),
        ("e.txt", "a\tb\nb\tc\n"),
    ],
)
def test_one_graph_in_many_spellings(tmp_path, name, content):
    graph, report = edges(tmp_path, content, name)
    assert graph.toarray().tolist() == [[0, 1, 0], [1, 0, 1], [0, 1, 0]]
    assert (report.n_rows, report.n_dropped, report.n_repeated) == (2, 0, 0)


def test_unknown_ids_are_reported_with_count_and_first_three(tmp_path):
    content = "source,target\n" + "".join(f"a,x{k}\n" for k in range(5)) + "a,b\na,x0\n"
    with pytest.raises(InputError, match=r"5 unknown ids \('x0', 'x1', 'x2', \.\.\.\)") as caught:
        edges(tmp_path, content)
    assert "--set on_unknown=drop" in str(caught.value)
    graph, report = edges(tmp_path, content + "b,a\nc,c\n", on_unknown="drop")
    assert (graph.nnz, report.n_self_loops, report.n_repeated) == (2, 1, 1)
    assert report.unknown == ["x0", "x1", "x2", "x3", "x4"]
    assert report.n_dropped == 6


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("e.csv", "source\na\n", "two columns"),
        ("e.csv", "source,target,weight\na,b,heavy\n", "numbers"),
        ("e.csv", "source,target,weight\na,b,-1\n", "at least 0"),
        ("e.csv", "source,target,weight\na,b,nan\n", "finite"),
        ("e.edges", "a b\na\n", "on every line"),
        ("e.edges", "a b c d\n", "on every line"),
    ],
)
def test_bad_lines_are_refused(tmp_path, name, content, message):
    with pytest.raises(DataFormatError, match=message):
        edges(tmp_path, content, name)


@SETTINGS
@given(st.data())
def test_a_written_edge_table_comes_back(records, tmp_path_factory, data):
    record = records(data)
    if record.graph is None:
        return
    path = tmp_path_factory.mktemp("edges") / "e.csv"
    write_edge_table(path, record.graph, record.node_ids)
    index = {str(node): row for row, node in enumerate(record.node_ids)}
    graph, _ = read_edges(path, index)
    assert np.array_equal(graph.toarray(), record.graph.toarray())


def test_a_graph_alone_has_the_nodes_it_names(tmp_path):
    (tmp_path / "e.edgelist").write_text("900000000000 1 0.5\n1 7 2\n")
    graph, ids = read_edge_list(tmp_path / "e.edgelist")
    assert ids == ["900000000000", "1", "7"]  # an absurd number is a name, and takes no memory
    assert graph.toarray().tolist() == [[0, 0.5, 0], [0.5, 0, 2], [0, 2, 0]]
    (tmp_path / "none.edgelist").write_text("\n")
    with pytest.raises(DataFormatError, match="at least one edge"):
        read_edge_list(tmp_path / "none.edgelist")


@pytest.mark.parametrize("name", ["e.csv", "e.edges"])
def test_mutated_lists_give_a_record_or_one_clear_line(tmp_path, survives_mutation, name):
    mark = "," if name == "e.csv" else " "
    lines = ["source target weight", "a b 1", "b c 2.5", "d é 1e-3"][name != "e.csv" :]
    (tmp_path / name).write_text("\n".join(line.replace(" ", mark) for line in lines))
    survives_mutation(lambda: read_data(tmp_path / name), [tmp_path / name])
