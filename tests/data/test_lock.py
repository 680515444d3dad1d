import errno
import os
import signal
import subprocess
import sys

import pytest

from glnn.data.lock import WriterLock, beside, only_writer
from glnn.exceptions import OutputError

HOLD = """
import sys, time
from pathlib import Path
from glnn.data.lock import WriterLock
lock = WriterLock.taken(Path(sys.argv[1]))
print("held", flush=True)
time.sleep(60)
"""


@pytest.fixture
def holder(tmp_path):
    """Another process that holds the lock of a folder."""
    command = [sys.executable, "-c", HOLD, str(tmp_path / "run")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def test_a_second_writer_is_told_in_one_line(tmp_path, holder):
    with pytest.raises(OutputError, match="one writer at a time") as caught:
        WriterLock.taken(tmp_path / "run")
    assert "\n" not in str(caught.value)


def test_a_killed_writer_leaves_no_lock(tmp_path, holder):
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    with only_writer(tmp_path / "run"):
        assert beside(tmp_path / "run", "lock").exists()
    assert list(tmp_path.iterdir()) == []


def test_a_lock_is_free_after_its_release_and_other_folders_always_are(tmp_path):
    lock = WriterLock.taken(tmp_path / "a")
    with only_writer(tmp_path / "b"), pytest.raises(OutputError), only_writer(tmp_path / "a"):
        pass
    lock.release()
    lock.release()
    with only_writer(tmp_path / "a"):
        pass


def test_a_lock_file_that_its_holder_has_just_removed_is_not_taken_for_the_lock(
    tmp_path, monkeypatch
):
    path, opened = beside(tmp_path / "run", "lock"), []

    def open_then_remove(*args):
        opened.append(os_open(*args))
        if len(opened) == 1:
            path.unlink()
        return opened[-1]

    os_open = os.open
    monkeypatch.setattr(os, "open", open_then_remove)
    with only_writer(tmp_path / "run"):
        monkeypatch.undo()
        assert len(opened) == 2
        assert os.path.samestat(os.fstat(opened[1]), path.stat())


def test_a_place_that_cannot_be_written_is_one_line(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match="must be writable"):
        WriterLock.taken(tmp_path / "file" / "run")


def test_a_second_release_leaves_the_lock_of_the_next_holder(tmp_path):
    first = WriterLock.taken(tmp_path / "run")
    first.release()
    second = WriterLock.taken(tmp_path / "run")
    first.release()
    with pytest.raises(OutputError, match="one writer at a time"):
        WriterLock.taken(tmp_path / "run")
    second.release()
    assert list(tmp_path.iterdir()) == []


def test_where_a_system_or_a_folder_has_no_locks_writing_goes_on(tmp_path, monkeypatch):
    def no_locks(handle, how):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("fcntl.flock", no_locks)
    with only_writer(tmp_path / "run"):
        pass
    monkeypatch.setitem(sys.modules, "fcntl", None)
    with only_writer(tmp_path / "run"):
        pass
