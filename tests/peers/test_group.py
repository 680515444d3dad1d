import os
import signal

import numpy as np
import pytest
import torch
import torch.distributed as dist

from glnn.exceptions import InputError, PeerError
from glnn.peers import ALONE
from glnn.peers.group import Group, _clearly, agreed, is_started_by_torchrun, joined_peers


def test_without_torchrun_a_process_is_alone(monkeypatch):
    for name in ("RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    assert not is_started_by_torchrun()
    with joined_peers() as peers:
        assert peers is ALONE


def test_torchrun_is_known_by_its_environment(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "1")
    assert is_started_by_torchrun()
    monkeypatch.setenv("WORLD_SIZE", "1")
    assert not is_started_by_torchrun()


def test_refused_input_is_raised_by_the_one_who_saw_it():
    def refuse():
        raise InputError("no such file")

    with pytest.raises(InputError, match="no such file"):
        agreed(ALONE, refuse)
    agreed(ALONE, lambda: np.ones(1))


def test_a_lost_connection_becomes_one_clear_line(monkeypatch):
    monkeypatch.setattr("glnn.peers.group._on_end", lambda handler: handler)
    monkeypatch.setitem(os.environ, "RANK", "1")
    monkeypatch.setitem(os.environ, "WORLD_SIZE", "4")
    with (
        pytest.raises(PeerError, match=r"has ended, so process 1 of 4 ends too") as caught,
        _clearly(),
    ):
        raise RuntimeError("Connection closed by peer")
    assert "\n" not in str(caught.value)
    with pytest.raises(PeerError, match="did not answer in time"), _clearly():
        raise RuntimeError("Timed out waiting 1800000ms: Timeout")


@pytest.mark.parametrize("error", [PeerError, InputError])
def test_the_request_to_end_cannot_cut_off_the_line_of_a_process_that_fails(monkeypatch, error):
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "0")
    for name in ("init_process_group", "destroy_process_group", "barrier"):
        monkeypatch.setattr(dist, name, lambda *_, **__: None)
    monkeypatch.setattr(dist, "get_rank", lambda: 0)
    monkeypatch.setattr(dist, "get_world_size", lambda: 2)
    before = signal.getsignal(signal.SIGTERM)
    try:
        with joined_peers():
            assert signal.getsignal(signal.SIGTERM) is not before
        assert signal.getsignal(signal.SIGTERM) is before
        with pytest.raises(error), joined_peers():
            raise error("what went wrong")
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGTERM, before)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")
def test_tensors_of_a_gpu_travel_over_nccl_and_arrays_over_gloo(tmp_path):
    """One process: NCCL wants a GPU for each, and this must run where there is one."""
    torch.cuda.set_device(0)
    store = f"file://{tmp_path / 'store'}"
    dist.init_process_group("cpu:gloo,cuda:nccl", init_method=store, rank=0, world_size=1)
    try:
        group = Group(0, 1)
        summed = group.all_reduce_(torch.full((3,), 2.0, device="cuda"))
        assert summed.is_cuda
        assert summed.tolist() == [2.0, 2.0, 2.0]
        assert group.all_reduce(np.arange(3.0)).tolist() == [0.0, 1.0, 2.0]
        assert group.broadcast(np.arange(4)).tolist() == [0, 1, 2, 3]
        assert group.broadcast(0.25) == group.all_reduce(0.25, "max") == 0.25
    finally:
        dist.destroy_process_group()
