import numpy as np
import torch

from glnn.experiments.machine import PeakMemory, commit, machine_facts, one_thread, versions


def test_one_thread_inside_and_as_before_outside():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with one_thread():
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
    found = versions()
    assert {"python", "glnn", "numpy", "torch", "commit"} <= found.keys()
    assert found["commit"] == commit()
    assert all(isinstance(v, str) and v for v in found.values())


def test_the_machine_is_described():
    assert machine_facts().keys() == {"cores", "memory", "system"}
    assert versions()["processor"]
