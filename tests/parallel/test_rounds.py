import pytest

from glnn.engine.presets import resolve_settings
from glnn.exceptions import InputError
from glnn.parallel.rounds import RowsRounds, TakenRows
from glnn.peers import ALONE


def test_each_process_keeps_its_rows_alone(load, together):
    settings = resolve_settings("paper")

    def work(peers):
        taken = TakenRows.of(peers, load, settings)
        height = taken.partition.n_rows
        assert taken.problem.features.shape == (height, 45)
        assert taken.problem.graph.shape == (height, 150)
        assert taken.problem.labels.one_hot.shape == (height, 3)
        return height

    assert sum(together(4, work)) == 150


def test_rounds_are_told_one_by_one(load):
    settings = resolve_settings("paper", changes={"n_epochs": 3})
    taken = TakenRows.of(ALONE, load, settings)
    rounds = RowsRounds(taken, settings, seed=0, device="cpu", callbacks=())
    seen = []
    rounds.run(after_round=lambda state: seen.append(state.n_done))
    assert seen == [1, 2, 3]
    assert rounds.learned_rows().certificate.converged


def test_the_dense_preset_is_refused(load):
    with pytest.raises(InputError, match="must run in one process"):
        TakenRows.of(ALONE, load, resolve_settings("literal"))
