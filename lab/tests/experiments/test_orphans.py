import os
import subprocess
import sys
import time
from pathlib import Path

from glnn_lab.experiments.orphans import end_with

CHILD = """
import os, time
from glnn_lab.experiments.orphans import end_with
assert end_with(os.getppid())
print(os.getpid(), flush=True)
time.sleep(60)
"""
PARENT = f"""
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", {CHILD!r}], stdout=subprocess.PIPE, text=True)
print(child.stdout.readline(), flush=True)
child.wait()
"""


def is_running(process):
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    try:
        state = Path(f"/proc/{process}/stat").read_text()
        return state.rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_worker_ends_with_a_parent_that_was_killed():
    words = [sys.executable, "-c", PARENT]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as parent:
        child = int(parent.stdout.readline())
        assert is_running(child)
        parent.kill()
    deadline = time.monotonic() + 20
    while is_running(child) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not is_running(child)


def test_a_process_that_is_no_child_is_left_alone():
    assert not end_with(os.getpid())
