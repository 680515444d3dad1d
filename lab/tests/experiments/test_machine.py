import subprocess

import numpy as np
import pytest
import torch

from glnn_lab.experiments import machine
from glnn_lab.experiments.machine import (
    PeakMemory,
    machine_facts,
    software_versions,
    source_commit,
    use_threads,
)


def test_threads_are_so_many_inside_and_as_before_outside():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with use_threads(1):
            assert torch.get_num_threads() == 1
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_the_peak_rises_with_what_is_held():
    memory = PeakMemory()
    before = memory.megabytes()
    block = np.ones(40 * 1024**2 // 8)
    assert memory.megabytes() >= before + 20
    assert block.size


def test_versions_are_text_and_name_the_commit():
    found = software_versions()
    assert {"python", "glnn", "numpy", "torch", "commit"} <= found.keys()
    assert found["commit"] == source_commit()
    assert all(isinstance(v, str) and v for v in found.values())


def test_the_machine_is_described():
    assert machine_facts().keys() == {"cores", "memory", "system"}
    assert software_versions()["processor"]


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """Two folders of code in a repository of one commit, and a function that runs git there."""

    def git(*words):
        named = ["-c", "user.name=a", "-c", "user.email=a@b", "-C", str(tmp_path)]
        subprocess.run(["git", *named, *words], check=True, capture_output=True)

    folders = (tmp_path / "src", tmp_path / "lab")
    for folder in folders:
        folder.mkdir()
        (folder / "code.py").write_text("1")
    git("init")
    git("add", ".")
    git("commit", "-m", "first")
    monkeypatch.setattr(machine, "_FOLDERS", folders)
    source_commit.cache_clear()
    yield tmp_path, git
    source_commit.cache_clear()


def test_results_are_of_this_code_until_a_line_of_it_changes(repository):
    folder, git = repository
    first = source_commit()
    (folder / "page.md").write_text("words")
    git("add", ".")
    git("commit", "-m", "words")
    assert machine.matches_commit(first)
    assert not machine.matches_commit(f"{first}+")
    (folder / "lab" / "code.py").write_text("2")
    assert not machine.matches_commit(first)


def test_changed_code_is_marked_and_code_from_two_places_is_unknown(repository, monkeypatch):
    folder, _ = repository
    assert not source_commit().endswith("+")
    source_commit.cache_clear()
    (folder / "src" / "new.py").write_text("2")
    assert source_commit().endswith("+")
    source_commit.cache_clear()
    monkeypatch.setattr(machine, "_FOLDERS", (folder / "src", folder.parent))
    assert source_commit() == "unknown"
    assert not machine.matches_commit("abc")
