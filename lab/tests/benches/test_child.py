import numpy as np
import pytest

from glnn.exceptions import InputError
from glnn_lab.benches.child import ExtraMemory, run_in_process, run_job, time_call


def test_a_job_runs_in_a_process_of_its_own():
    found = run_in_process("contender", 1, method="label-spreading", dataset="tiny", n_epochs=None)
    assert 0 <= found["peak_memory_mb"] < 500


def test_a_job_that_fails_says_why():
    found = run_in_process("contender", 1, method="nothing", dataset="tiny", n_epochs=None)
    assert "method must be one of" in found["error"]


def test_an_unknown_job_is_refused():
    with pytest.raises(InputError, match="the job must be one of"):
        run_job("dance", 1, {})


def test_memory_counts_from_the_base_and_can_forget_a_peak():
    memory = ExtraMemory()
    block = np.ones(8_000_000)  # 64 MB
    assert memory.megabytes() > 50
    del block
    assert memory.restart() < 50


def test_timing_returns_what_the_call_returns():
    result, measured = time_call(lambda: 7)
    assert result == 7
    assert measured.seconds >= 0
