import numpy as np
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from glnn import GLNNClassifier
from glnn.engine.callbacks import (
    Progress,
    ProgressBar,
    ProgressLog,
    TensorBoardLog,
    show_progress,
)

# Callbacks


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


# TensorBoard

pytest.importorskip("tensorboard")


def test_tensorboard_reads_the_history_of_every_track(tmp_path):
    x = np.random.default_rng(0).normal(size=(20, 3))
    y = np.where(np.arange(20) < 12, np.arange(20) % 2, -1)
    quick = {"n_epochs": 6, "n_rounds": 1, "random_state": 0, "calibrate": None}
    clf = GLNNClassifier(**quick, tracks=["features", "hops"], callbacks=[TensorBoardLog(tmp_path)])
    clf.fit(x, y, validation=np.arange(8, 12))
    events = EventAccumulator(str(tmp_path))
    events.Reload()
    stages = clf.history_.column("stage")
    assert set(stages) == {"features, classifier 1", "hops, classifier 1"}
    for stage in set(stages):
        own = [loss for name, loss in zip(stages, clf.history_.column("loss")) if name == stage]
        losses = [event.value for event in events.Scalars(f"{stage}/loss")]
        np.testing.assert_allclose(losses, own, rtol=1e-6)
    edges = events.Scalars("graph/edges")[0]
    assert (edges.step, edges.value) == (1, clf.graph_.nnz / 2)


def test_the_bar_is_full_at_the_end_and_stays_where_a_fit_failed(monkeypatch):
    bars = []

    class Bar:
        def __init__(self, total, **_):
            self.total, self.n, self.closed = total, 0, False
            bars.append(self)

        def update(self, n):
            self.n += n

        def set_description(self, text, refresh):
            self.text = text

        def close(self):
            self.closed = True

    monkeypatch.setattr("tqdm.auto.tqdm", Bar)
    log = ProgressBar()
    log.on_stage_begin("alone", 5)  # nothing is shown outside of a fit
    with show_progress([log], 20):
        log.on_stage_begin("fold 1 of 2, far", 10)
        log.on_epoch_end("far", {"epoch": 3})
        assert (bars[0].n, bars[0].text) == (4, "glnn: fold 1 of 2")
        log.on_stage_begin("fold 2 of 2, far", 10)
        assert bars[0].n == 10
    assert bars[0].n == 20 and bars[0].closed
    with pytest.raises(ValueError, match="stop"), show_progress([log], 20):
        log.on_stage_begin("far", 10)
        raise ValueError("stop")
    assert bars[1].n == 0 and bars[1].closed
