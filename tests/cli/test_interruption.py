import os
import signal
import threading

import pytest

from glnn.cli.interruption import Interruption
from glnn.exceptions import StoppedError


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_request_ends_the_work_after_its_step(number, capsys):
    seen = []
    with (
        pytest.raises(StoppedError, match="Go on") as caught,
        Interruption("Go on so.") as stop,
    ):
        watch = stop.watching(seen.append)
        watch(1)
        os.kill(os.getpid(), number)
        seen.append("the step goes on")
        watch(2)
    assert seen == [1, "the step goes on"]
    assert caught.value.code == 128 + number
    assert capsys.readouterr().err.count("\n") == 1


def test_the_second_request_ends_it_at_once():
    with pytest.raises(KeyboardInterrupt), Interruption(""):
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGTERM)


def test_afterwards_signals_do_what_they_did_before():
    before = signal.getsignal(signal.SIGTERM)
    with Interruption("") as stop:
        assert signal.getsignal(signal.SIGTERM) != before
        stop.check()  # nothing was asked for
    assert signal.getsignal(signal.SIGTERM) == before


def test_with_other_processes_or_in_another_thread_signals_are_left_alone():
    before, seen = signal.getsignal(signal.SIGINT), []

    def work():
        with Interruption("") as stop:
            stop.check()
            seen.append(signal.getsignal(signal.SIGINT))

    with Interruption("", alone=False):
        seen.append(signal.getsignal(signal.SIGINT))
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [before, before]
