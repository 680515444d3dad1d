import sys

import numpy as np
import pytest

from glnn import GLNNClassifier
from glnn.engine.tensorboard import TensorBoardLog
from glnn.exceptions import MissingDependencyError

pytest.importorskip("tensorboard")

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator


def test_tensorboard_reads_the_history_of_the_fit(tmp_path):
    x = np.random.default_rng(0).normal(size=(20, 3))
    y = np.where(np.arange(20) < 8, np.arange(20) % 2, -1)
    log = TensorBoardLog(tmp_path)
    clf = GLNNClassifier(n_epochs=6, n_rounds=1, random_state=0, calibrate=None, callbacks=[log])
    clf.fit(x, y)
    events = EventAccumulator(str(tmp_path))
    events.Reload()
    losses = [event.value for event in events.Scalars("classifier 1/loss")]
    np.testing.assert_allclose(losses, clf.history_.column("loss"), rtol=1e-6)
    (edges,) = events.Scalars("graph/edges")
    assert (edges.step, edges.value) == (1, clf.graph_.nnz / 2)


def test_without_the_package_its_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(MissingDependencyError, match=r"glnn\[tensorboard\]"):
        TensorBoardLog(tmp_path)


def test_it_needs_no_epoch_at_once(tmp_path):
    assert TensorBoardLog(tmp_path).may_lag
