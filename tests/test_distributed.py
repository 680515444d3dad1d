import os
import signal

import numpy as np
import pytest
import torch
import torch.distributed as dist

from glnn import distributed
from glnn.distributed import (
    SINGLE_PROCESS,
    Partition,
    Peers,
    RowExchange,
    TorchPeers,
    _report_lost_peers,
    join_processes,
    run_everywhere,
)
from glnn.exceptions import InputError, PeerError, PeerInputError

# Processes started by torchrun


def test_without_torchrun_a_process_is_alone(monkeypatch):
    for name in ("RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    with join_processes() as peers:
        assert peers is SINGLE_PROCESS


def test_refused_input_is_raised_by_the_one_who_saw_it(together):
    def refuse(peers):
        def prepare():
            if peers.rank == 1:
                raise InputError("no such file")
            return peers.rank

        return run_everywhere(peers, prepare)

    assert together(1, refuse) == [0]
    with pytest.raises((InputError, PeerInputError), match=r"no such file|process 1 has rejected"):
        together(3, refuse)


def test_a_lost_connection_becomes_one_clear_line(monkeypatch):
    monkeypatch.setattr("glnn.distributed._set_sigterm_handler", lambda handler: handler)
    monkeypatch.setitem(os.environ, "RANK", "1")
    monkeypatch.setitem(os.environ, "WORLD_SIZE", "4")
    with (
        pytest.raises(PeerError, match=r"has ended, so process 1 of 4 ends too") as caught,
        _report_lost_peers(),
    ):
        raise RuntimeError("Connection closed by peer")
    assert "\n" not in str(caught.value)
    with pytest.raises(PeerError, match="did not answer in time"), _report_lost_peers():
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
        with join_processes():
            assert signal.getsignal(signal.SIGTERM) is not before
        assert signal.getsignal(signal.SIGTERM) is before
        with pytest.raises(error), join_processes():
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
        group = TorchPeers(0, 1)
        summed = group.all_reduce(torch.full((3,), 2.0, device="cuda"))
        assert summed.is_cuda
        assert summed.tolist() == [2.0, 2.0, 2.0]
        assert group.all_reduce(np.arange(3.0)).tolist() == [0.0, 1.0, 2.0]
        assert group.broadcast(np.arange(4)).tolist() == [0, 1, 2, 3]
        assert group.broadcast(0.25) == group.all_reduce(0.25, "max") == 0.25
    finally:
        dist.destroy_process_group()


# Partition


def ranks(size):
    parts = []
    for rank in range(size):
        peers = Peers()
        peers.rank, peers.size = rank, size
        parts.append(peers)
    return parts


@pytest.mark.parametrize("n_nodes", [4, 17, 83, 1000])
@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_every_row_has_one_owner(n_nodes, size):
    parts = [Partition(n_nodes, peers) for peers in ranks(size)]
    nodes = np.arange(n_nodes)
    assert sum(part.is_local(nodes).astype(int) for part in parts).tolist() == [1] * n_nodes
    assert sum(part.n_rows for part in parts) == n_nodes
    assert np.concatenate([nodes[part.rows] for part in parts]).tolist() == nodes.tolist()


def test_more_processes_than_rows_are_refused():
    with pytest.raises(InputError, match="Start fewer processes"):
        Partition(3, ranks(4)[0])


# Fetching rows

WANTED = {0: [0, 3, 11, 12], 1: [], 2: [1, 2, 5, 6, 7, 8, 16]}


def test_wanted_rows_arrive_in_order_from_whoever_has_them(together):
    whole = torch.arange(34.0).view(17, 2)

    def work(peers):
        part = Partition(17, peers)
        wanted = np.array(WANTED[peers.rank], dtype=np.int64)
        exchange = RowExchange(part, wanted)
        (first,), (again,) = (exchange.fetch(scale * whole[part.rows]) for scale in (1.0, 2.0))
        assert torch.equal(again, 2 * first)
        return torch.equal(first, whole[wanted])

    assert all(together(3, work))


@pytest.mark.parametrize("size", [2, 4])
def test_what_is_fetched_takes_no_more_room_than_the_rows_that_are_here(
    together, monkeypatch, size
):
    monkeypatch.setattr(distributed, "MAX_FETCH_BYTES", 0)

    def work(peers):
        part = Partition(80, peers)
        x = torch.ones(part.n_rows, 64)
        exchange = RowExchange(part, np.arange(80))  # everything
        blocks = list(exchange.fetch(x))
        assert torch.equal(torch.cat(blocks, 1), torch.ones(80, 64))
        assert all(block.numel() <= x.numel() for block in blocks)
        return [block.shape for block in blocks]

    shapes = together(size, work)
    assert all(found == shapes[0] for found in shapes)
