import io
import math

import pytest

from glnn.engine.callbacks import (
    Callback,
    EarlyStopping,
    GiveUp,
    Progress,
    ProgressLog,
    StageLines,
    stop_requested,
    told_of_stage,
)


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
    assert stop_requested(callbacks, "classifier", {"epoch": 4}) == any(answers)
    assert told == [("classifier", 4)] * len(answers)


def test_a_line_is_written_for_each_stage():
    stream = io.StringIO()
    lines = StageLines(stream)
    lines.on_stage_begin("graph 1", 0)
    lines.on_stage_end("graph 1")
    assert stream.getvalue().startswith("[glnn] graph 1 ")
    assert stream.getvalue().endswith(" s\n")


@pytest.mark.parametrize(
    ("accuracies", "asked"),
    [
        ([0.4, 0.5, 0.5, 0.5], [False, False, True, True]),
        ([0.4, 0.6, 0.5, 0.5], [False, False, False, False]),
        ([0.4, 0.5, 0.5, 0.6], [False, False, True, False]),
    ],
)
def test_who_has_not_come_near_a_rival_after_the_grace_gives_up(accuracies, asked):
    give_up = GiveUp(0.6, grace=2)
    records = [{"epoch": k, "validation_accuracy": a} for k, a in enumerate(accuracies)]
    assert [give_up.on_epoch_end("linear", record) for record in records] == asked


def test_who_is_not_judged_does_not_give_up():
    assert not GiveUp(0.6, grace=0).on_epoch_end("linear", {"epoch": 5})


def test_who_says_nothing_is_told_of_each_epoch_at_once():
    assert Callback.may_lag is False


def test_the_end_of_a_stage_is_told_unless_it_raises():
    heard = []

    class Listener(Callback):
        def on_stage_begin(self, stage, n_epochs):
            heard.append((stage, n_epochs))

        def on_stage_end(self, stage):
            heard.append(stage)

    with told_of_stage([Listener(), Listener()], "graph 1"):
        heard.append("work")
    assert heard == [("graph 1", 0), ("graph 1", 0), "work", "graph 1", "graph 1"]
    heard.clear()
    with pytest.raises(ValueError), told_of_stage([Listener()], "classifier 1", 5):
        raise ValueError
    assert heard == [("classifier 1", 5)]
