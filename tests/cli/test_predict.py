import shutil

import pytest


@pytest.fixture
def run(finished):
    return finished / "run"


@pytest.fixture
def people(finished):
    return finished


def test_new_rows_are_printed_as_csv_with_their_ids(glnn, run, people):
    outcome = glnn("predict", run, people / "new.csv")
    assert outcome.code == 0
    lines = [line.split(",") for line in outcome.out.splitlines()]
    assert lines[0] == ["id", "label", "probability"]
    assert [line[:2] for line in lines[1:]] == [["n0", "cook"], ["n1", "pilot"]]
    assert all(0.5 <= float(line[2]) <= 1 for line in lines[1:])


def test_new_rows_are_written_with_all_probabilities(glnn, run, people):
    outcome = glnn("predict", run, people / "new.csv", "--out", people / "found.csv")
    assert outcome.code == 0
    assert "2 rows" in outcome.out
    first = (people / "found.csv").read_text().splitlines()[0]
    assert first == "id,predicted,probability,p(cook),p(pilot)"


def test_links_of_new_rows_count(glnn, run, people):
    (people / "links.csv").write_text("source,target\nn0,p1\np3,n0\np0,p2\n")
    alone = glnn("predict", run, people / "new.csv").out
    linked = glnn("predict", run, people / "new.csv", "--links", people / "links.csv")
    assert linked.code == 0
    assert "left out 1 edges" in linked.err
    assert linked.out != alone


def test_known_labels_of_new_rows_give_an_accuracy(glnn, run, people):
    table = people / "labelled.csv"
    table.write_text("id,height,age,job\nn0,0.1,0.2,cook\nn1,4.1,-3.9,cook\n")
    said = "accuracy on 2 rows with a label that the fit has not seen: 50.0 % [5.5, 94.5]"
    assert said in glnn("predict", run, table).err


def test_labels_that_trained_give_no_accuracy(glnn, run, people):
    rows = (people / "people.csv").read_text().splitlines()[1:11]  # those with a label
    jobs = ("cook", "pilot")
    lines = [f"{row},{jobs[k % 2]}" for k, row in enumerate(rows)]
    table = people / "again.csv"
    table.write_text("\n".join(["id,height,age,job", *lines, ""]))
    outcome = glnn("predict", run, table)
    assert outcome.code == 0
    assert "no accuracy" in outcome.err and "10 rows whose label the fit has seen" in outcome.err
    assert "%" not in outcome.err
    table.write_text("\n".join(["id,height,age,job", *lines, "n0,0.1,0.2,cook", ""]))
    mixed = glnn("predict", run, table).err
    assert "accuracy on 1 row with a label that the fit has not seen: 100.0 % [" in mixed
    assert "left out 10 rows" in mixed


def test_further_columns_of_any_kind_are_left_out_and_named(glnn, run, people):
    (people / "more.csv").write_text("id,height,age,city\nn0,0.1,0.2,Rome\n")
    outcome = glnn("predict", run, people / "more.csv")
    assert outcome.code == 0
    assert "left out columns 'city'" in outcome.err


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("id,height\nn0,1\n", ("columns of the training data", "'age'")),
        ("id,height,age\nn0,1,nan\n", ("'age'", "row 1")),
        ("id,height,age\nn0,1\n", ("'age'", "row 1")),
        ("id,height,age\n", ("at least one row",)),
    ],
)
def test_bad_tables_are_one_line(glnn, run, people, text, words):
    (people / "bad.csv").write_text(text)
    assert glnn("predict", run, people / "bad.csv").is_bad_input(*words)


def test_missing_files_are_one_line(glnn, run, people):
    assert glnn("predict", run, people / "none.csv").is_bad_input("none.csv")
    assert glnn("predict", people / "norun", people / "new.csv").is_bad_input("norun", "glnn fit")
    missing = ("--links", people / "none.csv")
    assert glnn("predict", run, people / "new.csv", *missing).is_bad_input("none.csv")


def test_a_folder_without_its_model_is_one_line(glnn, run, people):
    broken = people / "broken"
    shutil.copytree(run, broken)
    (broken / "model.safetensors").write_bytes(b"")
    assert glnn("predict", broken, people / "new.csv").is_bad_input("model.safetensors")
    (broken / "data.json").write_text("[]")
    assert glnn("predict", broken, people / "new.csv").is_bad_input("data.json")


def test_links_to_unknown_ids_are_one_line(glnn, run, people):
    (people / "links.csv").write_text("source,target\nn0,ghost\n")
    args = ("predict", run, people / "new.csv", "--links", people / "links.csv")
    assert glnn(*args).is_bad_input("1 unknown id", "'ghost'")


def test_ids_that_training_had_cannot_be_linked(glnn, run, people):
    (people / "again.csv").write_text("id,height,age\np0,1,1\n")
    (people / "links.csv").write_text("source,target\np0,p1\n")
    args = ("predict", run, people / "again.csv", "--links", people / "links.csv")
    assert glnn(*args).is_bad_input("must differ", "'p0'")
