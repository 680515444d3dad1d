import pytest

from glnn.engine.callbacks import Progress, ProgressLog, show_progress

# Callbacks


def test_a_log_of_the_progress_stops_no_training():
    seen = []
    log = ProgressLog(seen.append)
    log.on_stage_begin("far", 10)
    assert not log.on_epoch_end("far", {"epoch": 3})
    assert seen == [Progress("far", 0, 10), Progress("far", 4, 10)]


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
    with show_progress([], 20, is_shown=False) as callbacks:
        assert callbacks == bars == []
    with show_progress([], 20, is_shown=True) as (log,):
        log.on_stage_begin("fold 1 of 2, far", 10)
        assert not log.on_epoch_end("far", {"epoch": 3})  # which would stop the training
        assert (bars[0].n, bars[0].text) == (4, "glnn: fold 1 of 2")
        log.on_stage_begin("fold 2 of 2, far", 10)
        assert bars[0].n == 10
    assert bars[0].n == 20 and bars[0].closed
    shown = show_progress([], 20, is_shown=True)
    with pytest.raises(ValueError, match="stop"), shown as (log,):
        log.on_stage_begin("far", 10)
        raise ValueError("stop")
    assert bars[1].n == 0 and bars[1].closed
