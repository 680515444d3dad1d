import dataclasses
import json

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from glnn.distributed import SINGLE_PROCESS, Partition
from glnn.engine.archive import read_checked_json, write_checked_json
from glnn.engine.callbacks import Callback
from glnn.engine.checkpoint import (
    FORMAT,
    PAGE,
    VERSION,
    Checkpoint,
    pack_callback_state,
    restore_callback_state,
)
from glnn.engine.inputs import Scaling
from glnn.engine.rounds import Rounds
from glnn.engine.settings import resolve_settings
from glnn.engine.steps import Steps
from glnn.exceptions import CheckpointError

# Checkpoint

SETTINGS = resolve_settings("paper", changes={"n_epochs": 8, "n_rounds": 2})


def fresh(problem, peers=SINGLE_PROCESS, seed=0, settings=SETTINGS):
    rows = Partition(60, peers).rows
    own = None if problem.graph is None else problem.graph[rows]
    problem = dataclasses.replace(problem, features=problem.features[rows], graph=own, peers=peers)
    scaling = Scaling.fit(problem.features, peers=peers)
    return Steps(problem, settings, scaling, seed=seed, device="cpu")


def run(steps, folder=None):
    """All rounds, from what the folder holds."""
    if folder is None:
        return Rounds(steps).run(steps.start())
    checkpoint = Checkpoint(folder, steps)
    return Rounds(steps).run(checkpoint.load() or steps.start(), checkpoint.save)


class StoppedError(Exception):
    pass


def stopped_after_one_round(folder, steps):
    """Run one round, and break off in the second as if the machine had gone."""
    checkpoint = Checkpoint(folder, steps)

    def after_round(state):
        checkpoint.save(state)
        raise StoppedError

    with pytest.raises(StoppedError):
        Rounds(steps).run(steps.start(), after_round)


def same(first, second):
    assert abs(first.adjacency - second.adjacency).max() == 0
    assert (first.trained.probabilities == second.trained.probabilities).all()
    parameters = (state.trained.task.module.parameters() for state in (first, second))
    assert all(torch.equal(a, b) for a, b in zip(*parameters))
    assert (first.graph, first.head) == (second.graph, second.head)
    assert (first.round, first.n_rounds) == (second.round, second.n_rounds)


@pytest.mark.parametrize("size", [1, 2])
@pytest.mark.parametrize("preset", ["paper", "default"])
def test_an_interrupted_fit_goes_on_to_the_same_bits(problem, together, tmp_path, size, preset):
    settings = resolve_settings(preset, changes={"n_epochs": 6, "n_rounds": 2})

    def work(peers):
        stopped_after_one_round(tmp_path, fresh(problem, peers, settings=settings))
        resumed, straight = (fresh(problem, peers, settings=settings) for _ in range(2))
        same(run(resumed, tmp_path), run(straight))
        assert list(resumed.history) == list(straight.history)
        return True

    assert together(size, work) == [True] * size
    names = sorted(path.name.rsplit("-", 1)[0] for path in tmp_path.iterdir())
    assert names == [PAGE] + [f"process-{rank}-of-{size}" for rank in range(size)]


def test_a_finished_fit_is_read_back_whole(problem, tmp_path):
    first = run(fresh(problem), tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    same(run(fresh(problem), tmp_path), first)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_graph_that_is_not_trusted_stays_so(problem, tmp_path, monkeypatch):
    losses = iter([1.0, 0.1])
    monkeypatch.setattr(Steps, "probe", lambda self, state: next(losses))
    settings = resolve_settings("default", changes={"n_epochs": 3, "n_rounds": 1})
    run(fresh(problem, settings=settings), tmp_path)
    state = Checkpoint(tmp_path, fresh(problem, settings=settings)).load()
    assert state.given is None
    assert state.graph == settings.no_graph


def test_a_write_that_fails_leaves_the_old_state(problem, tmp_path, monkeypatch):
    steps = fresh(problem)
    stopped_after_one_round(tmp_path, steps)
    checkpoint = Checkpoint(tmp_path, steps)
    state = Rounds(steps).later_round(checkpoint.load())

    def full(page):
        raise OSError("full")

    monkeypatch.setattr(checkpoint, "_write_page", full)
    with pytest.raises(OSError, match="full"):
        checkpoint.save(state)
    assert Checkpoint(tmp_path, fresh(problem)).load().round == 1


@pytest.mark.parametrize("missing", ["history", "graph", "memories", "validation"])
def test_a_page_that_lacks_something_is_refused_in_one_line(problem, tmp_path, missing):
    stopped_after_one_round(tmp_path, fresh(problem))
    page = read_checked_json(tmp_path / PAGE, FORMAT, VERSION)
    del page[missing]
    write_checked_json(tmp_path / PAGE, FORMAT, VERSION, page)
    with pytest.raises(CheckpointError, match="damaged"):
        Checkpoint(tmp_path, fresh(problem)).load()


def test_which_term_made_which_link_survives(problem, tmp_path):
    settings = resolve_settings("paper", changes={"n_epochs": 3, "n_rounds": 1})
    straight = run(fresh(problem, settings=settings), tmp_path).learned
    again = Checkpoint(tmp_path, fresh(problem, settings=settings)).load().learned
    assert straight.saved_shares is None and again.learned is None
    assert again.shares().names == straight.shares().names
    np.testing.assert_array_equal(again.shares().values, straight.shares().values)


@pytest.mark.parametrize("change", ["seed", "label", "feature", "weight"])
def test_a_checkpoint_of_another_fit_is_refused(problem, tmp_path, change):
    stopped_after_one_round(tmp_path, fresh(problem))
    if change == "label":
        problem.labels.classes[0] = 1 - problem.labels.classes[0]
    if change == "feature":
        problem.features.data[0] *= 2
    if change == "weight":
        problem.labels.weights = torch.ones(len(problem.labels))
    other = fresh(problem, seed=int(change == "seed"))
    with pytest.raises(CheckpointError, match="of this very fit"):
        Checkpoint(tmp_path, other).load()


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        ("page", "cannot be read"),
        ("not ours", "cannot be read"),
        ("version", "of format 4, got '99'"),
        ("folder", "cannot be read"),
        ("number", "damaged"),
        ("file", "damaged"),
        ("gone", "damaged"),
    ],
)
def test_a_damaged_checkpoint_is_refused_in_one_line(problem, tmp_path, damage, words):
    stopped_after_one_round(tmp_path, fresh(problem))
    page, file = tmp_path / PAGE, next(tmp_path.glob("*.safetensors"))
    if damage == "page":
        page.write_text("{")
    elif damage == "not ours":
        page.write_text("[]")
    elif damage == "version":
        page.write_text(json.dumps(json.loads(page.read_text()) | {"version": 99}))
    elif damage == "number":
        page.write_text(json.dumps(json.loads(page.read_text()) | {"round": 7}))
    elif damage == "folder":
        page.write_bytes(b"\xff\xfe")
    elif damage == "gone":
        file.unlink()
    else:
        content = bytearray(file.read_bytes())
        content[-1] ^= 1
        file.write_bytes(content)
    with pytest.raises(CheckpointError, match=words) as caught:
        Checkpoint(tmp_path, fresh(problem)).load()
    assert "\n" not in str(caught.value)


def test_the_page_is_json_and_the_rest_safetensors(problem, tmp_path):
    stopped_after_one_round(tmp_path, fresh(problem))
    page = json.loads((tmp_path / PAGE).read_text())
    assert (page["round"], len(page["files"])) == (1, 1)
    assert np.isfinite(page["validation"]).all()


# State of the callbacks


class Remembering(Callback):
    def __init__(self, kept):
        self.kept = kept

    def state_dict(self):
        return self.kept

    def load_state_dict(self, state):
        self.kept = state


def test_every_callback_gets_back_its_own_memory():
    graphs = [sp.csr_matrix(np.eye(3) * k) for k in (1, 2, 3)]
    first = Remembering({"a": (graphs[0], {"x": 0.5}), "b": (graphs[1], {})})
    last = Remembering({"a": (graphs[2], {"y": 2.0})})
    arrays = {}
    packed = pack_callback_state([first, Callback(), last], arrays)
    again = [Remembering(None), Callback(), Remembering(None), Remembering("new")]
    restore_callback_state(again, packed, arrays)
    for old, new in ((first, again[0]), (last, again[2])):
        assert list(new.kept) == list(old.kept)
        for name, (graph, numbers) in old.kept.items():
            assert (new.kept[name][0] != graph).nnz == 0
            assert new.kept[name][1] == numbers
    assert again[3].kept == "new"
