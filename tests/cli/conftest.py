import csv

import numpy as np
import pytest

from glnn.cli.main import main


def write_csv(path, header, rows):
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([header, *rows])
    return path


@pytest.fixture
def people(tmp_path):
    return write_people(tmp_path)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A folder of people with a finished run that no test may change."""
    folder = write_people(tmp_path_factory.mktemp("people"))
    files = ["--labels", folder / "jobs.csv", "--graph", folder / "friends.csv"]
    how = ["--label", "job", "--preset", "paper", "--epochs", "20", "--rivals", "none", "--quiet"]
    args = ["fit", folder / "people.csv", *files, *how, "--out", folder / "run"]
    assert main([str(arg) for arg in args]) == 0
    return folder


def write_people(tmp_path):
    """Two kinds of people, with names, text labels on some, friends, and two newcomers."""
    rng = np.random.default_rng(0)
    jobs = ["cook", "pilot"]
    rows, labels, friends = [], [], []
    for k in range(40):
        kind = k % 2
        height, age = rng.normal([4.0 * kind, -4.0 * kind], 0.5)
        rows.append([f"p{k}", f"{height:.3f}", f"{age:.3f}"])
        labels.append([f"p{k}", jobs[kind] if k < 10 else ""])
        friends.append([f"p{k}", f"p{(k + 2) % 40}"])
    new = [["n0", "0.1", "0.2"], ["n1", "4.1", "-3.9"]]
    write_csv(tmp_path / "people.csv", ["id", "height", "age"], rows)
    write_csv(tmp_path / "jobs.csv", ["id", "job"], labels)
    write_csv(tmp_path / "friends.csv", ["source", "target"], friends)
    write_csv(tmp_path / "new.csv", ["id", "age", "height"], [[i, a, h] for i, h, a in new])
    return tmp_path
