import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glnn.data import load_dataset, read_data
from glnn.data.linqs import (
    RELATIONS,
    read_linqs,
    read_terror_attack,
    read_terrorists_rel,
)
from glnn.exceptions import DataFormatError, InputError

SETTINGS = settings(settings.get_profile("records"))

CONTENT = "p1\t0\t1\tTheory\np2\t1\t1\tCase\np3\t0\t0\tTheory\n"
CITES = "p1\tp2\np2\tp1\np1\tgone\n"


def write_cora_like(folder, content=CONTENT, cites=CITES):
    (folder / "toy.content").write_text(content)
    (folder / "toy.cites").write_text(cites)
    return folder / "toy.content"


def test_content_and_cites_become_a_record(tmp_path):
    data = read_linqs(write_cora_like(tmp_path))
    assert data.features.toarray().tolist() == [[0, 1], [1, 1], [0, 0]]
    assert data.class_names == ("Case", "Theory")
    assert data.labels.tolist() == [1, 0, 1]
    assert data.n_edges == 1
    assert data.provenance["edges left out"] == "1 of 3 lines, naming 1 other ids"
    assert data.ids.tolist() == ["p1", "p2", "p3"]


NAMES = st.text("abcé#/:=\"'.", min_size=1, max_size=6)


@SETTINGS
@given(st.data())
def test_what_the_files_hold_comes_back(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("linqs")
    ids = data.draw(st.lists(NAMES, min_size=1, max_size=6, unique=True))
    rows = [[data.draw(st.integers(0, 1)) for _ in range(2)] for _ in ids]
    labels = [data.draw(st.sampled_from(["A", "B"])) for _ in ids]
    lines = ["\t".join([n, *map(str, r), y]) + "\n" for n, r, y in zip(ids, rows, labels)]
    pairs = data.draw(st.lists(st.tuples(st.sampled_from(ids), st.sampled_from(ids))))
    pairs = [(a, b) for a, b in pairs if not a.startswith("#")]
    write_cora_like(folder, "".join(lines), "".join(f"{a}\t{b}\n" for a, b in pairs))
    record = read_linqs(folder / "toy.content")
    assert [str(node) for node in record.ids] == ids
    assert record.features.toarray().tolist() == rows
    assert [record.class_names[label] for label in record.labels] == labels
    assert record.n_edges == len({frozenset(pair) for pair in pairs if len(set(pair)) == 2})


def write_attacks(folder):
    base = "http://example.org/x.owl#"
    nodes = "".join(f"{base}n{k}\t{k % 2}\t1\t{base}{'AB'[k % 2]}\n" for k in range(4))
    (folder / "terrorist_attack.nodes").write_text(nodes)
    (folder / "terrorist_attack.labels").write_text(f"{base}B\n{base}A")
    (folder / "terrorist_attack_loc.edges").write_text(f"{base}n0 {base}n1\n{base}n1 {base}n2\n")
    (folder / "terrorist_attack_loc_org.edges").write_text(f"{base}n0 {base}n1\n")


def test_terror_attack_has_two_graphs_and_listed_classes(tmp_path):
    write_attacks(tmp_path)
    data = read_terror_attack(tmp_path)
    assert data.class_names == ("B", "A")
    assert data.labels.tolist() == [1, 0, 1, 0]
    assert (data.n_edges, read_terror_attack(tmp_path, graph="loc_org").n_edges) == (2, 1)
    with pytest.raises(InputError, match="Did you mean 'loc_org'"):
        read_data(tmp_path, graph="loc_orgs")


def write_relations(folder, n_nodes=10):
    classes = [name.lower() for name in RELATIONS]
    for number, name in enumerate(RELATIONS):
        order = np.roll(np.arange(n_nodes), number)  # the four files need not agree on the order
        lines = [
            f"r{k}\t{k % 2}\t{k % 3 % 2}\t{'' if k % 5 == number else 'non-'}{classes[number]}\n"
            for k in order
        ]
        (folder / f"TerroristRel_{name}.nodes").write_text("".join(lines))
    (folder / "TerroristRel.labels").write_text("\n".join(classes) + "\n")
    (folder / "TerroristRel.edges").write_text("r0\tr1\nr1\tr2\nr2\tother\n")


def test_four_files_with_one_class_each_become_one_set(tmp_path):
    write_relations(tmp_path)
    data = read_terrorists_rel(tmp_path)
    assert data.labels.tolist() == [0, 1, 2, 3, -1, 0, 1, 2, 3, -1]
    assert data.n_edges == 2
    assert data.ids is None  # the published ids name people
    assert "1 other ids" in data.provenance["edges left out"]


@pytest.mark.parametrize(
    "content",
    [
        "",
        "p1\t0\n",
        "p1\t0\t1\tA\np2\t0\tA\n",
        "p1\tx\t1\tA\n",
        "p1\t1e99\t1\tA\n",
        "p1\t0\tA\np1\t0\tA\n",
    ],
)
def test_bad_lines_are_refused(tmp_path, content):
    with pytest.raises(DataFormatError):
        read_linqs(write_cora_like(tmp_path, content))


@pytest.mark.dataset
@pytest.mark.parametrize(
    ("raw_graph", "npz_graph"), [("default", "default"), ("loc_org", "loc_org")]
)
def test_raw_terror_attack_gives_the_arrays_of_the_npz(published, raw_graph, npz_graph):
    if not (published / "raw" / "TerrorAttack").is_dir():
        pytest.skip("the raw files are not in GLNN_DATA")
    raw = read_terror_attack(published / "raw" / "TerrorAttack", graph=raw_graph)
    assert raw.replace(ids=None).equals(load_dataset("terrorattack", graph=npz_graph))


def test_mutated_content_and_cites_give_a_record_or_one_clear_line(tmp_path, survives_mutation):
    path = write_cora_like(tmp_path)
    survives_mutation(lambda: read_linqs(path), [path, tmp_path / "toy.cites"])


def test_mutated_terror_files_do_too(tmp_path, survives_mutation):
    write_attacks(tmp_path)
    files = [p for p in tmp_path.iterdir() if "org" not in p.name]
    survives_mutation(lambda: read_terror_attack(tmp_path), files)


def test_mutated_relation_files_do_too(tmp_path, survives_mutation):
    write_relations(tmp_path, n_nodes=4)
    files = list(tmp_path.iterdir())
    survives_mutation(lambda: read_terrorists_rel(tmp_path), files)
