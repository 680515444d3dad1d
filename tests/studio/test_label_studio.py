import json

import pytest

from glnn.exceptions import InputError
from glnn.studio import LabelSession
from glnn.studio.label_studio import export_label_studio, import_label_studio


@pytest.fixture
def session(tmp_path, people):
    with LabelSession(people(30), tmp_path / "s", background=False) as one:
        yield one


def choices(*names, **more):
    entry = {"type": "choices", "from_name": "c", "to_name": "t", "value": {"choices": [*names]}}
    return {"id": 1, "result": [entry], **more}


def task(row, *annotations):
    return {"id": 5, "data": {"id": row, "text": "..."}, "annotations": [*annotations]}


def write(path, page):
    path.write_text(json.dumps(page), encoding="utf-8")
    return path


def test_labels_come_back_from_an_export_and_one_undo_takes_them_back(session, tmp_path, people):
    for row, value in (("p0", "ä"), ("p1", "<b>"), ("p2", "ä")):
        session.label(row, value)
    path = tmp_path / "tasks.json"
    assert export_label_studio(session, path) == 3
    tasks = json.loads(path.read_text(encoding="utf-8"))
    assert len(tasks) == 30
    assert set(tasks[0]["data"]) == {"id", "height", "width", "soil"}
    assert tasks[0]["annotations"][0]["result"][0]["value"] == {"choices": ["ä"]}
    with LabelSession(people(30), tmp_path / "other", background=False) as other:
        assert import_label_studio(other, path) == 3
        assert other.labels == session.labels
        other.undo()
        assert other.labels == {}


def test_predictions_of_the_last_fit_are_exported(tmp_path, people):
    how = {"background": False, "params": {"n_epochs": 3}}
    with LabelSession(people(30), tmp_path / "s", **how) as session:
        session.label("p0", "a")
        session.label("p1", "b")
        session.fit("quick")
        export_label_studio(session, tmp_path / "tasks.json")
        found = json.loads((tmp_path / "tasks.json").read_text())[5]["predictions"][0]
        card = session.card("p5")
    assert found["result"][0]["value"]["choices"] == [card["predicted"]]
    assert found["score"] == card["probabilities"][0][1]


def test_the_last_annotation_counts_that_was_not_cancelled_and_a_ground_truth_first(
    session, tmp_path
):
    page = [
        task("p0", choices("a"), choices("b"), choices("c", was_cancelled=True)),
        task("p1", choices("a", ground_truth=True), choices("b")),
        task("p2"),
        task("p3", choices("c", was_cancelled=True)),
        task("p4", {"result": [{"type": "rectanglelabels", "value": {}}]}),
        {"data": {"id": "p5"}},
    ]
    assert import_label_studio(session, write(tmp_path / "t.json", page)) == 2
    assert session.labels == {"p0": "b", "p1": "a"}


@pytest.mark.parametrize(
    "page",
    [
        {},
        [1],
        [task("nobody", choices("a"))],
        [{"data": {}, "annotations": [choices("a")]}],
        [{"data": [], "annotations": [choices("a")]}],
        [task("p0", choices("a", "b"))],
        [task("p0", choices(""))],
        [task("p0", choices({"a": 1}))],
        [task("p0", {"result": [{"type": "choices"}]})],
        [task("p0", {"result": 3})],
        [task("p0", 3)],
    ],
)
def test_other_files_are_refused_in_one_line_and_change_nothing(page, session, tmp_path):
    with pytest.raises(InputError) as caught:
        import_label_studio(session, write(tmp_path / "t.json", page))
    assert "\n" not in str(caught.value)
    assert session.labels == {}
    (tmp_path / "t.json").write_text("{")
    with pytest.raises(InputError):
        import_label_studio(session, tmp_path / "t.json")
