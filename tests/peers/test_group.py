import os

import numpy as np
import pytest

from glnn.exceptions import InputError, PeerError
from glnn.peers import ALONE
from glnn.peers.group import _clearly, agreed, is_started_by_torchrun, joined_peers


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
