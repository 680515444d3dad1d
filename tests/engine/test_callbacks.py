import io
import json
import math
import sys

import numpy as np
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from glnn import GLNNClassifier
from glnn.engine.callbacks import (
    Callback,
    EarlyStopping,
    History,
    Progress,
    ProgressLog,
    StageLog,
    TensorBoardLog,
    notify_epoch_end,
    notify_stage,
)
from glnn.exceptions import DataFormatError, MissingDependencyError

# Callbacks


def asked(callback, losses):
    """Return after which of the epochs with these losses the callback asks to stop."""
    callback.on_stage_begin("classifier", len(losses))
    return [callback.on_epoch_end("classifier", {"validation_loss": loss}) for loss in losses]


def test_the_base_does_nothing_and_never_asks_to_stop():
    assert asked(Callback(), [1.0, 2.0, 3.0]) == [False] * 3
    assert Callback().on_stage_end("classifier") is None


def test_early_stopping_asks_after_that_many_epochs_without_improvement():
    assert asked(EarlyStopping(2), [3.0, 2.0, 2.5, 2.1]) == [False, False, False, True]


def test_early_stopping_waits_anew_after_every_improvement():
    assert asked(EarlyStopping(2), [3.0, 4.0, 2.0, 4.0, 1.0, 4.0]) == [False] * 6


def test_an_equal_loss_is_no_improvement():
    assert asked(EarlyStopping(1), [2.0, 2.0]) == [False, True]


def test_a_loss_that_is_not_a_number_is_no_improvement():
    assert asked(EarlyStopping(2), [math.nan, math.nan]) == [False, True]


def test_early_stopping_watches_the_number_it_is_told_to():
    stopping = EarlyStopping(1, monitor="loss")
    stopping.on_stage_begin("classifier", 3)
    records = [{"loss": 2.0, "validation_loss": 1.0}, {"loss": 1.0, "validation_loss": 2.0}]
    assert [stopping.on_epoch_end("classifier", record) for record in records] == [False, False]


def test_a_number_that_is_never_recorded_counts_as_no_improvement():
    stopping = EarlyStopping(2)
    stopping.on_stage_begin("classifier", 2)
    assert [stopping.on_epoch_end("classifier", {"epoch": e}) for e in range(2)] == [False, True]


def test_every_stage_starts_counting_anew():
    stopping = EarlyStopping(2)
    assert asked(stopping, [1.0, 2.0]) == [False, False]
    assert asked(stopping, [5.0, 6.0]) == [False, False]


def test_the_progress_log_reports_the_stage_and_every_finished_epoch():
    seen = []
    log = ProgressLog(seen.append)
    log.on_stage_begin("graph 1", 0)
    log.on_stage_begin("classifier 1", 2)
    assert not log.on_epoch_end("classifier 1", {"epoch": 0})
    assert not log.on_epoch_end("classifier 1", {"epoch": 1})
    assert seen == [
        Progress("graph 1", 0, 0),
        Progress("classifier 1", 0, 2),
        Progress("classifier 1", 1, 2),
        Progress("classifier 1", 2, 2),
    ]


@pytest.mark.parametrize("answers", [(), (False, False), (True, False), (False, True)])
def test_one_request_to_stop_is_enough_and_every_callback_is_told_all_the_same(answers):
    told = []

    class Answering(Callback):
        def __init__(self, answer):
            self.answer = answer

        def on_epoch_end(self, stage, record):
            told.append((stage, record["epoch"]))
            return self.answer

    callbacks = [Answering(answer) for answer in answers]
    assert notify_epoch_end(callbacks, "classifier", {"epoch": 4}) == any(answers)
    assert told == [("classifier", 4)] * len(answers)


def test_a_line_is_written_for_each_stage():
    stream = io.StringIO()
    lines = StageLog(stream)
    lines.on_stage_begin("graph 1", 0)
    lines.on_stage_end("graph 1")
    assert stream.getvalue().startswith("[glnn] graph 1 ")
    assert stream.getvalue().endswith(" s\n")


def test_who_says_nothing_is_told_of_each_epoch_at_once():
    assert Callback.may_lag is False


def test_the_end_of_a_stage_is_told_unless_it_raises():
    heard = []

    class Listener(Callback):
        def on_stage_begin(self, stage, n_epochs):
            heard.append((stage, n_epochs))

        def on_stage_end(self, stage):
            heard.append(stage)

    with notify_stage([Listener(), Listener()], "graph 1"):
        heard.append("work")
    assert heard == [("graph 1", 0), ("graph 1", 0), "work", "graph 1", "graph 1"]
    heard.clear()
    with pytest.raises(ValueError), notify_stage([Listener()], "classifier 1", 5):
        raise ValueError
    assert heard == [("classifier 1", 5)]


# History

RECORDS = [
    {"stage": "classifier", "epoch": 0, "loss": 1.5},
    {"stage": "classifier", "epoch": 1, "loss": 0.1 + 0.2, "validation_loss": 1e-300},
]


@pytest.fixture
def history():
    history = History()
    for record in RECORDS:
        history.append(record)
    return history


def written(tmp_path, content):
    path = tmp_path / "history.jsonl"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def test_records_stay_in_the_order_they_came(history):
    assert list(history) == RECORDS
    assert len(history) == 2
    assert history[-1] == RECORDS[-1]


def test_a_column_is_empty_where_nothing_was_recorded(history):
    assert history.column("loss") == [1.5, 0.1 + 0.2]
    assert history.column("validation_loss") == [None, 1e-300]


def test_a_record_changed_after_it_was_appended_does_not_change_the_history():
    history, record = History(), {"epoch": 0}
    history.append(record)
    record["epoch"] = 9
    assert history[0] == {"epoch": 0}


def test_extending_appends_all_records_of_the_other(history):
    whole = History()
    whole.extend(history)
    whole.extend(history)
    assert list(whole) == RECORDS + RECORDS


def test_json_lines_come_back_bit_for_bit(history, tmp_path):
    assert list(History.read(written(tmp_path, history.to_jsonl()))) == RECORDS


def test_an_empty_history_comes_back_empty(tmp_path):
    assert len(History.read(written(tmp_path, History().to_jsonl()))) == 0


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_number_that_is_not_finite_is_written_as_null_and_read_as_nan(value, tmp_path):
    history = History()
    history.append({"loss": value, "epoch": 0})
    text = history.to_jsonl()
    assert json.loads(text, parse_constant=pytest.fail) == {"loss": None, "epoch": 0}
    back = History.read(written(tmp_path, text))
    assert math.isnan(back[0]["loss"])
    assert back.to_jsonl() == text


@pytest.mark.parametrize(
    "content",
    [
        '{"epoch": 0}\nloss\n',
        b'{"epoch": 0}\n\xff\xfe\n',
        '{"epoch": 0}\n' + "[" * 100_000,
        '{"epoch": 0}\n\n',
    ],
    ids=["text", "not utf-8", "too deep", "blank"],
)
def test_a_line_that_is_not_json_is_named_in_one_line(content, tmp_path):
    with pytest.raises(DataFormatError, match=r"history\.jsonl must .* line 2 is not JSON\.$"):
        History.read(written(tmp_path, content))


def test_a_line_that_is_not_an_object_is_named_in_one_line(tmp_path):
    with pytest.raises(DataFormatError, match=r"^history\.jsonl line 1 must be a JSON object\.$"):
        History.read(written(tmp_path, "[1, 2]\n"))


# TensorBoard

pytest.importorskip("tensorboard")


def logged(folder, tracks):
    """Fit with a log; return the fit and what TensorBoard reads."""
    x = np.random.default_rng(0).normal(size=(20, 3))
    y = np.where(np.arange(20) < 12, np.arange(20) % 2, -1)
    quick = {"n_epochs": 6, "n_rounds": 1, "random_state": 0, "calibrate": None}
    clf = GLNNClassifier(**quick, tracks=tracks, callbacks=[TensorBoardLog(folder)])
    clf.fit(x, y, validation=np.arange(8, 12))
    events = EventAccumulator(str(folder))
    events.Reload()
    return clf, events


def test_tensorboard_reads_the_history_of_the_fit(tmp_path):
    clf, events = logged(tmp_path, ["features"])
    losses = [event.value for event in events.Scalars("classifier 1/loss")]
    np.testing.assert_allclose(losses, clf.history_.column("loss"), rtol=1e-6)
    (edges,) = events.Scalars("graph/edges")
    assert (edges.step, edges.value) == (1, clf.graph_.nnz / 2)


def test_every_track_of_a_mixture_has_its_own_group_in_tensorboard(tmp_path):
    clf, events = logged(tmp_path, ["features", "hops"])
    stages = clf.history_.column("stage")
    assert set(stages) == {"features, classifier 1", "hops, classifier 1"}
    for stage in set(stages):
        own = [loss for name, loss in zip(stages, clf.history_.column("loss")) if name == stage]
        losses = [event.value for event in events.Scalars(f"{stage}/loss")]
        np.testing.assert_allclose(losses, own, rtol=1e-6)


def test_without_the_package_its_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(MissingDependencyError, match=r"glnn\[tensorboard\]"):
        TensorBoardLog(tmp_path)


def test_it_needs_no_epoch_at_once(tmp_path):
    assert TensorBoardLog(tmp_path).may_lag
