import dataclasses
import json
import math
import shutil

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from glnn.distributed import SINGLE_PROCESS, Partition
from glnn.engine import checkpoint
from glnn.engine import rounds as rounds_module
from glnn.engine.archive import write_archive
from glnn.engine.callbacks import Callback
from glnn.engine.checkpoint import PAGE, Checkpoint
from glnn.engine.fit import fit_problem
from glnn.engine.fit_problem import hide_labels
from glnn.engine.inputs import Scaling
from glnn.engine.rounds import Rounds
from glnn.engine.settings import resolve_settings
from glnn.engine.steps import Steps
from glnn.exceptions import CheckpointError
from glnn.solver.attribution import link_shares

# Checkpoint

SETTINGS = resolve_settings("paper", changes={"n_epochs": 8, "n_rounds": 2})
MIXED = resolve_settings("default", changes={"n_epochs": 3, "n_rounds": 2})
THREE = MIXED.select(["learned", "features", "linear"])


def fresh(problem, peers=SINGLE_PROCESS, seed=0, settings=SETTINGS):
    rows = Partition(60, peers).rows
    own = None if problem.graph is None else problem.graph[rows]
    problem = dataclasses.replace(problem, features=problem.features[rows], graph=own, peers=peers)
    scaling = Scaling.fit(problem.features, peers=peers)
    return Steps(problem, settings, scaling, seed=seed, device="cpu")


N_FOLDS = 2


def without_validation(problem):
    """Return the problem with labels hidden in folds in place of validation nodes."""
    problem = dataclasses.replace(problem, validation=None)
    return dataclasses.replace(problem, folds=hide_labels(problem, N_FOLDS, 0))


def run(steps, folder=None):
    """All rounds, from what the folder holds."""
    rounds = Rounds(steps)
    if folder is None:
        return rounds.run(rounds.start())
    checkpoint = Checkpoint(folder, steps)
    return rounds.run(checkpoint.load() or rounds.start(), checkpoint.save)


@pytest.mark.parametrize(("share", "n_saved"), [(math.inf, 9), (1e-9, 4)])
def test_not_every_short_round_of_a_fold_is_written(
    share, n_saved, problem, tmp_path, monkeypatch, all_tracks_count
):
    pages = []
    monkeypatch.setattr(checkpoint, "SHARE", share)
    monkeypatch.setattr(checkpoint, "write_checked_json", lambda *args: pages.append(args[-1]))
    steps = fresh(without_validation(problem), settings=MIXED.select(["learned", "linear"]))
    run(steps, tmp_path)
    parts = [page["progress"]["part"] for page in pages]
    assert len(parts) == n_saved
    assert parts.count(N_FOLDS) == 3  # all rounds of the training on all labels


class StoppedError(Exception):
    pass


def stopped_after_one_round(folder, steps):
    """Run one round, and break off in the second as if the machine had gone."""
    checkpoint = Checkpoint(folder, steps)

    def after_round(progress):
        checkpoint.save(progress)
        raise StoppedError

    with pytest.raises(StoppedError):
        Rounds(steps).run(Rounds(steps).start(), after_round)


def same(first, second):
    assert first.weights == second.weights
    assert first.all_weights == second.all_weights
    assert (first.held_out is None) == (second.held_out is None)
    if first.held_out is not None:
        for one, two in zip(*(vars(mixture.held_out).values() for mixture in (first, second))):
            np.testing.assert_array_equal(one, two)
    assert len(first.states) == len(second.states)
    for one, two in zip(first.states, second.states):
        same_state(one, two)


def same_state(first, second):
    assert abs(first.adjacency - second.adjacency).max() == 0
    assert (first.probabilities == second.probabilities).all()
    parameters = (state.task.module.parameters() for state in (first, second))
    assert all(torch.equal(a, b) for a, b in zip(*parameters))
    assert (first.track, first.round) == (second.track, second.round)


@pytest.mark.parametrize(("size", "watched"), [(1, True), (2, True), (2, False)])
def test_an_interrupted_fit_goes_on_to_the_same_bits(problem, together, tmp_path, size, watched):
    settings = THREE if watched else SETTINGS
    if not watched:  # labels are hidden in folds
        problem = without_validation(problem)

    def work(peers):
        stopped_after_one_round(tmp_path, fresh(problem, peers, settings=settings))
        resumed, straight = (fresh(problem, peers, settings=settings) for _ in range(2))
        same(run(resumed, tmp_path), run(straight))
        assert list(resumed.history) == list(straight.history)
        return True

    assert together(size, work) == [True] * size
    names = sorted(path.name.rsplit("-", 1)[0] for path in tmp_path.iterdir())
    assert names == [PAGE] + [f"process-{rank}-of-{size}" for rank in range(size)]


# Every point at which a fit can be interrupted


def fitted(problem, settings, folder, checkpoint):
    """Fit and save the model; return the files of the model and what else the fit says."""
    result = fit_problem(problem, settings, seed=0, checkpoint=checkpoint)
    write_archive(folder, result.model, result.model.partition)
    files = {path.name: path.read_bytes() for path in folder.iterdir()}
    hidden = None if result.held_out is None else result.held_out.probabilities.tobytes()
    return files, list(result.history), result.choices, result.weights, hidden


@pytest.fixture
def keep_states(monkeypatch):
    """Keep a copy of the checkpoint of a fit after each time it was written."""

    def keep(folder):
        save = Checkpoint.save

        def save_and_copy(self, progress):
            save(self, progress)
            shutil.copytree(self.folder, folder / f"{len(list(folder.iterdir())):02}")

        folder.mkdir()
        monkeypatch.setattr(Checkpoint, "save", save_and_copy)
        return lambda: monkeypatch.setattr(Checkpoint, "save", save)

    return keep


@pytest.fixture
def bad_linear(monkeypatch, blocks):
    """Let the track ``linear`` be sure of the wrong classes, and be given up for that."""
    step = Steps.classifier_step

    def classifier_step(self, state, is_hopeless=None):
        state = step(self, state)
        if state.track.name != "linear":
            return state
        wrong = 1.0 * (blocks[2][:, None] != np.arange(2))
        return state.replace(predictions=wrong)

    def spoil():
        monkeypatch.setattr(Steps, "classifier_step", classifier_step)
        monkeypatch.setattr(rounds_module, "NEGLIGIBLE", 0.15)

    return spoil


@pytest.mark.parametrize(
    ("with_graph", "watched", "all_count"),
    [(True, True, False), (True, False, True), (False, True, True), (False, False, False)],
)
def test_a_fit_interrupted_after_any_round_of_any_track_leaves_the_same_files(
    problem, tmp_path, keep_states, all_tracks_count, bad_linear, with_graph, watched, all_count
):
    if not all_count:
        bad_linear()
    names = ["learned", "features", "linear"] if with_graph else ["features", "linear"]
    if with_graph and not watched:
        names.remove("features")  # many folds take long
    settings = THREE.select(names)
    problem = dataclasses.replace(problem, graph=problem.graph if with_graph else None)
    problem = problem if watched else without_validation(problem)
    release = keep_states(tmp_path / "states")
    whole = fitted(problem, settings, tmp_path / "whole", tmp_path / "checkpoint")
    release()
    straight = fitted(problem, settings, tmp_path / "straight", None)
    assert straight == whole  # checkpoints change nothing
    states = sorted((tmp_path / "states").iterdir())
    n_rounds = len(names) + len(names) - 1  # tracks that learn take two
    n_all = n_rounds * (1 if watched else N_FOLDS + 1)
    if all_count or watched:  # a first round is all that linear takes
        assert len(states) == n_all
    else:
        assert len(states) < n_all
    assert ("linear" in straight[2]["mixture"]) == all_count
    for state in states:
        assert fitted(problem, settings, tmp_path / f"from {state.name}", state) == straight


# What a checkpoint holds


def test_tracks_that_were_given_up_stay_so(problem, tmp_path, bad_linear, monkeypatch):
    bad_linear()
    settings = THREE.select(["learned", "linear"])
    mixture = run(fresh(problem, settings=settings), tmp_path)
    progress = Checkpoint(tmp_path, fresh(problem, settings=settings)).load()
    assert progress.kept == ("learned",)
    assert [state.track.name for state in progress.states] == ["learned", "linear"]
    monkeypatch.setattr(rounds_module, "NEGLIGIBLE", 0.0)  # which would keep all of them
    same(run(fresh(problem, settings=settings), tmp_path), mixture)


def test_a_write_that_fails_leaves_the_old_state(problem, tmp_path, monkeypatch):
    steps = fresh(problem)
    stopped_after_one_round(tmp_path, steps)
    checkpoint = Checkpoint(tmp_path, steps)

    def full(page):
        raise OSError("full")

    monkeypatch.setattr(checkpoint, "_write_page", full)
    with pytest.raises(OSError, match="full"):
        Rounds(steps).run(checkpoint.load(), checkpoint.save)
    (state,) = Checkpoint(tmp_path, fresh(problem)).load().states
    assert state.round == 1


def test_which_term_made_which_link_survives(problem, tmp_path):
    settings = resolve_settings("paper", changes={"n_epochs": 3, "n_rounds": 1})
    straight = link_shares(run(fresh(problem, settings=settings), tmp_path).shown.attribution)
    (state,) = Checkpoint(tmp_path, fresh(problem, settings=settings)).load().states
    assert state.attribution.names == straight.names
    np.testing.assert_array_equal(state.attribution.values, straight.values)


@pytest.mark.parametrize("change", ["seed", "label", "feature", "weight", "tracks"])
def test_a_checkpoint_of_another_fit_is_refused(problem, tmp_path, change):
    stopped_after_one_round(tmp_path, fresh(problem, settings=THREE))
    settings = THREE.select(["learned", "features"]) if change == "tracks" else THREE
    if change == "label":
        problem.labels.classes[0] = 1 - problem.labels.classes[0]
    if change == "feature":
        problem.features.data[0] *= 2
    if change == "weight":
        problem.labels.weights = torch.ones(len(problem.labels))
    other = fresh(problem, seed=int(change == "seed"), settings=settings)
    with pytest.raises(CheckpointError, match="of this very fit"):
        Checkpoint(tmp_path, other).load()


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        ("page", "cannot be read"),
        ("not ours", "cannot be read"),
        ("version", "of format 7, got '99'"),
        ("folder", "cannot be read"),
        ("choice", "damaged"),
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
    elif damage == "choice":
        page.write_text(json.dumps(json.loads(page.read_text()) | {"kept": ["learned"]}))
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


# State of the callbacks


class Remembering(Callback):
    def __init__(self, kept):
        self.kept = kept

    def state_dict(self):
        return self.kept

    def load_state_dict(self, state):
        self.kept = state


def test_every_callback_gets_back_its_own_state(problem, tmp_path):
    graphs = [sp.csr_matrix(np.eye(3) * k) for k in (1, 2, 3)]
    first = Remembering({"a": (graphs[0], {"x": 0.5}), "b": (graphs[1], {})})
    last = Remembering({"a": (graphs[2], {"y": 2.0})})
    steps = fresh(problem)
    steps.callbacks = [first, Callback(), last]
    stopped_after_one_round(tmp_path, steps)
    again = [Remembering(None), Callback(), Remembering(None), Remembering("new")]
    resumed = fresh(problem)
    resumed.callbacks = again
    assert Checkpoint(tmp_path, resumed).load() is not None
    for old, new in ((first, again[0]), (last, again[2])):
        assert list(new.kept) == list(old.kept)
        for name, (graph, numbers) in old.kept.items():
            assert (new.kept[name][0] != graph).nnz == 0
            assert new.kept[name][1] == numbers
    assert again[3].kept == "new"
