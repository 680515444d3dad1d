import json

import numpy as np
import pytest
import torch

from glnn.engine.presets import resolve_settings
from glnn.exceptions import CheckpointError
from glnn.parallel.checkpoint import PAGE, Checkpoint
from glnn.parallel.fit import FitPlan, run_rows
from glnn.parallel.rounds import RowsRounds, TakenRows
from glnn.peers import ALONE

SETTINGS = resolve_settings("paper", changes={"n_epochs": 8, "n_rounds": 2})


def fresh(load, peers=ALONE, seed=0):
    taken = TakenRows.of(peers, load, SETTINGS)
    return RowsRounds(taken, SETTINGS, seed=seed, device="cpu", callbacks=())


class StoppedError(Exception):
    pass


def stopped_after_one_round(folder, rounds):
    """Run one round, and break off in the second as if the machine had gone."""
    store = Checkpoint(folder, rounds)

    def after_round(state):
        store.save(state)
        raise StoppedError

    with pytest.raises(StoppedError):
        rounds.run(after_round=after_round)


def same_state(first, second):
    assert abs(first.adjacency - second.adjacency).max() == 0
    assert (first.trained.probabilities == second.trained.probabilities).all()
    for a, b in zip(
        first.trained.task.module.parameters(), second.trained.task.module.parameters()
    ):
        assert torch.equal(a, b)
    assert list(first.history) == list(second.history)


@pytest.mark.parametrize("size", [1, 2])
def test_an_interrupted_fit_goes_on_to_the_same_bits(load, together, tmp_path, size):
    plan = FitPlan(SETTINGS, 0, "cpu")

    def work(peers):
        stopped_after_one_round(tmp_path, fresh(load, peers))
        resumed = run_rows(peers, load, plan, tmp_path)
        uninterrupted = run_rows(peers, load, plan)
        same_state(resumed, uninterrupted)
        return resumed.n_done

    assert together(size, work) == [2] * size
    shards = sorted(path.name for path in tmp_path.iterdir())
    assert shards == [PAGE] + [f"round-2-process-{r}-of-{size}.safetensors" for r in range(size)]


def test_a_finished_fit_is_read_back_whole(load, tmp_path):
    plan = FitPlan(SETTINGS, 0, "cpu")
    first = run_rows(ALONE, load, plan, tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    same_state(run_rows(ALONE, load, plan, tmp_path), first)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_write_that_fails_leaves_the_old_state(load, tmp_path, monkeypatch):
    rounds = fresh(load)
    stopped_after_one_round(tmp_path, rounds)
    store = Checkpoint(tmp_path, rounds)
    monkeypatch.setattr(store, "_write_page", lambda text: (_ for _ in ()).throw(OSError("full")))
    rounds.later_round(2)
    rounds.n_done = 2
    with pytest.raises(OSError, match="full"):
        store.save(rounds)
    again = fresh(load)
    Checkpoint(tmp_path, again).restore(again)
    assert again.n_done == 1


def test_a_checkpoint_of_another_fit_is_refused(load, tmp_path):
    stopped_after_one_round(tmp_path, fresh(load))
    other = fresh(load, seed=1)
    with pytest.raises(CheckpointError, match="of this very fit"):
        Checkpoint(tmp_path, other).restore(other)


@pytest.mark.parametrize("damage", ["page", "shard", "gone"])
def test_a_damaged_checkpoint_is_refused_in_one_line(load, tmp_path, damage):
    stopped_after_one_round(tmp_path, fresh(load))
    shard = next(tmp_path.glob("*.safetensors"))
    if damage == "page":
        (tmp_path / PAGE).write_text("{")
    elif damage == "gone":
        shard.unlink()
    else:
        content = bytearray(shard.read_bytes())
        content[-1] ^= 1
        shard.write_bytes(content)
    again = fresh(load)
    with pytest.raises(CheckpointError, match=r"damaged|cannot be read") as caught:
        Checkpoint(tmp_path, again).restore(again)
    assert "\n" not in str(caught.value)


def test_the_page_is_json_and_the_rest_safetensors(load, tmp_path):
    stopped_after_one_round(tmp_path, fresh(load))
    page = json.loads((tmp_path / PAGE).read_text())
    assert (page["n_done"], len(page["shards"])) == (1, 1)
    assert np.isfinite(page["validation"]).all()
