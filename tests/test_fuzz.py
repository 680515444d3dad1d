"""What glnn has written and someone has changed: an answer or one clear line, nothing else."""

import json
import os
import random
import shutil

import numpy as np
import pytest

from glnn import GLNNClassifier
from glnn.cli.main import main
from glnn.engine import archive
from glnn.engine.archive import read_checked_json, write_checked_json
from glnn.exceptions import GlnnError
from glnn.quality.folds import cache_refit
from glnn.report.compare import compare_runs
from glnn.report.page.document import render
from glnn.report.predict import predict_rows
from glnn.report.results import read_results

COUNT = int(os.environ.get("GLNN_FUZZ", "40"))
VALUES = [None, -1, 0, 1e308, 10**20, True, "", "x", "9" * 50, [], {}, [[]], {"a": 1}, "NaN"]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run of a table with text, and new rows for it."""
    folder = tmp_path_factory.mktemp("fuzz")
    rng = np.random.default_rng(0)
    lines = [f"p{k},{k % 2 * 4 + rng.normal():.3f},{'ab'[k % 3 == 0]}" for k in range(40)]
    labels = [("cook", "pilot")[k % 2] if k < 12 else "" for k in range(40)]
    rows = [f"{line},{label}" for line, label in zip(lines, labels)]
    (folder / "t.csv").write_text("\n".join(["id,height,kind,label", *rows]))
    (folder / "new.csv").write_text("id,height,kind\nn0,0.1,a\nn1,4.2,b\n")
    how = ["--encode", "onehot", "--epochs", "5", "--folds", "0", "--quiet"]
    args = ["fit", folder / "t.csv", *how, "--out", folder / "run"]
    assert main([str(arg) for arg in args]) == 0
    return folder / "run"


def changed(page, rng):
    """The page with one entry somewhere in it replaced or taken out."""
    page = json.loads(json.dumps(page))
    place = page
    while True:
        keys = list(place) if isinstance(place, dict) else range(len(place))
        key = rng.choice(list(keys))
        inner = place[key]
        if not isinstance(inner, dict | list) or not inner or rng.random() < 0.2:
            break
        place = inner
    if rng.random() < 0.3:
        del place[key]
    else:
        place[key] = rng.choice(VALUES)
    return page


def check(read, damage):
    """Damage and read again and again; an error of another kind than ours fails the test."""
    rng, n_refused = random.Random(0), 0
    for _ in range(COUNT):
        damage(rng)
        try:
            read()
        except GlnnError as error:
            n_refused += 1
            assert str(error)
            assert "\n" not in str(error)
    assert n_refused


def test_a_model_with_a_changed_page_that_was_sealed_again(run, tmp_path):
    folder = shutil.copytree(run, tmp_path / "m")
    page = read_checked_json(run / "model.json", archive.FORMAT, archive.VERSION)
    body = {name: part for name, part in page.items() if name not in ("format", "version")}

    def damage(rng):
        write_checked_json(
            folder / "model.json", archive.FORMAT, archive.VERSION, changed(body, rng)
        )

    check(lambda: GLNNClassifier.load(folder), damage)


@pytest.mark.parametrize("name", ["model.json", "model.safetensors"])
def test_a_model_with_changed_bytes(run, tmp_path, mutation, name):
    folder = shutil.copytree(run, tmp_path / "m")
    whole = (run / name).read_bytes()
    check(
        lambda: GLNNClassifier.load(folder),
        lambda rng: (folder / name).write_bytes(mutation(whole, rng)),
    )


def test_the_results_of_a_run_with_changed_bytes(run, tmp_path, mutation):
    folder = shutil.copytree(run, tmp_path / "m")
    whole = (run / "results.npz").read_bytes()

    def read():
        render(read_results(folder))
        compare_runs([folder, run])

    check(read, lambda rng: (folder / "results.npz").write_bytes(mutation(whole, rng)))


def test_how_the_data_of_a_run_were_read(run, tmp_path):
    folder = shutil.copytree(run, tmp_path / "m")
    page = json.loads((run / "data.json").read_text())
    check(
        lambda: predict_rows(folder, run.parent / "new.csv"),
        lambda rng: (folder / "data.json").write_text(json.dumps(changed(page, rng))),
    )


def test_a_checkpoint_with_changed_bytes(run, tmp_path, mutation):
    features, y = np.random.default_rng(0).normal(size=(30, 3)), np.arange(30) % 2
    quick = {"n_epochs": 3, "n_rounds": 1, "random_state": 0, "calibrate": None}
    GLNNClassifier(**quick).fit(features, y, checkpoint=tmp_path)
    whole = {path: path.read_bytes() for path in tmp_path.iterdir()}

    def damage(rng):
        for path in tmp_path.iterdir():
            path.unlink()
        path = rng.choice(sorted(whole))
        for other, content in whole.items():
            other.write_bytes(mutation(content, rng) if other == path else content)

    check(lambda: GLNNClassifier(**quick).fit(features, y, checkpoint=tmp_path), damage)


def test_a_fold_with_changed_bytes_is_fitted_again(tmp_path, mutation):
    rng, answer = random.Random(0), np.ones((5, 2))
    refit = cache_refit(lambda nodes: answer, tmp_path, b"x")
    refit(np.arange(3))
    (path,) = tmp_path.glob("*/*.safetensors")
    whole = path.read_bytes()
    for _ in range(COUNT):
        path.write_bytes(mutation(whole, rng))
        np.testing.assert_array_equal(refit(np.arange(3)), answer)
