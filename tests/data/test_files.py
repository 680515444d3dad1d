import os
import shutil
import signal
import subprocess
import sys

import pytest

from glnn.data import files
from glnn.data.files import (
    atomic_write,
    check_replaceable,
    is_replaceable,
    lock_folder,
    remove_leftovers,
    replace_folder,
    sibling_path,
)
from glnn.exceptions import DataFormatError, InputError, OutputError

# Files


def test_a_failed_write_leaves_the_old_file_and_no_other(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("old")

    def fail():
        with files.atomic_write(path) as file:
            file.write("new")
            raise RuntimeError("in the middle")

    with pytest.raises(RuntimeError):
        fail()
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["a.txt"]


@pytest.mark.parametrize(("name", "message"), [("no/a", "must exist"), ("folder", "writable")])
def test_a_target_that_cannot_be_written_is_one_clear_line(tmp_path, name, message):
    (tmp_path / "folder").mkdir()
    with pytest.raises(InputError, match=message), files.atomic_write(tmp_path / name):
        pass
    assert [p.name for p in tmp_path.iterdir()] == ["folder"]


@pytest.mark.parametrize(
    "error", [ValueError("a\nb"), KeyError("k"), MemoryError(), OSError(5, "x")]
)
def test_what_a_parser_raises_becomes_one_line(tmp_path, error):
    with pytest.raises(DataFormatError) as caught, files.wrap_parse_errors(tmp_path / "f", "test"):
        raise error
    assert "\n" not in str(caught.value)


def test_a_file_beyond_the_limit_is_refused_unread(tmp_path):
    path = tmp_path / "big.csv"
    with path.open("wb") as file:
        file.truncate(files.MAX_TEXT_BYTES + 1)  # sparse: takes no room
    with pytest.raises(DataFormatError, match="at most"):
        files.check_file(path)
    with pytest.raises(InputError, match="got a folder"):
        files.check_file(tmp_path)


# Lock of a folder

HOLD = """
import sys, time
from pathlib import Path
from glnn.data.files import lock_folder
lock = lock_folder(Path(sys.argv[1]))
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
        lock_folder(tmp_path / "run")
    assert "\n" not in str(caught.value)


def test_a_killed_writer_leaves_no_lock(tmp_path, holder):
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    with lock_folder(tmp_path / "run"):
        assert sibling_path(tmp_path / "run", "lock").exists()
    assert list(tmp_path.iterdir()) == []


def test_a_second_release_leaves_the_lock_of_the_next_holder(tmp_path):
    first = lock_folder(tmp_path / "run")
    with lock_folder(tmp_path / "other"):
        first.release()
    second = lock_folder(tmp_path / "run")
    first.release()
    with pytest.raises(OutputError, match="one writer at a time"):
        lock_folder(tmp_path / "run")
    second.release()
    assert list(tmp_path.iterdir()) == []


# Replacing a folder

OWN = ("a", "b", "c")


@pytest.fixture
def folder(tmp_path):
    """A folder with an old run and things of its owner."""
    write_old(tmp_path / "run")
    return tmp_path / "run"


def write_old(folder):
    (folder / "mine").mkdir(parents=True)
    (folder / "mine" / "deep.txt").write_text("mine")
    (folder / "link").symlink_to("a")
    for name in ("a", "b"):
        (folder / name).write_text(f"old {name}")


def replace(folder):
    with replace_folder(folder, OWN) as new:
        for name in ("a", "c"):
            with atomic_write(new / name) as file:
                file.write(f"new {name}")


def run_of(folder):
    return {path.name: path.read_text() for path in folder.iterdir() if path.name in OWN}


OLD, NEW = {"a": "old a", "b": "old b"}, {"a": "new a", "c": "new c"}


@pytest.fixture(params=[True, False], ids=["exchange", "two moves"])
def moves(request, monkeypatch):
    if not request.param:
        monkeypatch.setattr(files, "exchange_folders", lambda one, other: False)
    return request.param


def test_the_new_run_takes_the_place_of_the_old_and_what_is_not_ours_stays(folder, moves):
    inode, mode = (folder / "mine" / "deep.txt").stat().st_ino, folder.stat().st_mode
    replace(folder)
    assert run_of(folder) == NEW
    assert (folder / "mine" / "deep.txt").stat().st_ino == inode  # not even copied
    assert (folder / "link").is_symlink()
    assert folder.stat().st_mode == mode
    assert list(folder.parent.iterdir()) == [folder]


def test_where_links_cannot_be_made_what_is_not_ours_is_copied(folder, monkeypatch):
    def refuse(*args, **named):
        raise OSError("no links here")

    monkeypatch.setattr(os, "link", refuse)
    replace(folder)
    assert (folder / "mine" / "deep.txt").read_text() == "mine"
    assert (folder / "link").readlink().name == "a"


def test_a_failure_in_the_block_leaves_the_old_run(folder):
    with pytest.raises(ZeroDivisionError), replace_folder(folder, OWN) as new:
        (new / "a").write_text("half")
        raise ZeroDivisionError
    assert run_of(folder) == OLD
    assert list(folder.parent.iterdir()) == [folder]


@pytest.mark.parametrize("left", ["new", "old"])
def test_leftovers_of_a_killed_writer_are_removed_by_the_next(folder, left):
    write_old(sibling_path(folder, left))
    replace(folder)
    assert run_of(folder) == NEW
    assert list(folder.parent.iterdir()) == [folder]


def test_a_run_whose_writer_was_killed_between_two_moves_comes_back(folder):
    folder.rename(sibling_path(folder, "old"))
    remove_leftovers(folder)
    assert run_of(folder) == OLD


def test_whenever_the_power_fails_the_old_or_the_new_run_is_there(
    folder, moves, power_cuts, monkeypatch
):
    cuts = power_cuts(folder.parent)
    with monkeypatch.context() as patch:
        cuts.watch(patch, (files, "exchange_folders"))
        replace(folder)
    found = []
    for state in cuts.states():
        remove_leftovers(state / folder.name)  # what the next writer does first
        found.append(run_of(state / folder.name))
        assert (state / folder.name / "mine" / "deep.txt").read_text() == "mine"
    assert all(run in (OLD, NEW) for run in found)
    assert found == sorted(found, key=lambda run: run == NEW)  # never back to the old one
    assert OLD in found and NEW in found
    assert cuts.n_cuts > 15


@pytest.mark.parametrize("kind", ["root of a disk", "here", "read-only"])
def test_a_folder_that_cannot_be_moved_is_refused_before_any_work(folder, kind, monkeypatch):
    if kind == "root of a disk":
        monkeypatch.setattr(os.path, "ismount", lambda path: True)
    elif kind == "here":
        monkeypatch.chdir(folder / "mine")
    else:
        monkeypatch.setattr(os, "access", lambda path, mode: False)
    assert not is_replaceable(folder)
    assert is_replaceable(folder / "not there")
    with pytest.raises(OutputError, match="Name another"):
        check_replaceable(folder)


FILL = """
import sys
from pathlib import Path
from glnn.data.files import atomic_write
from glnn.data.files import replace_folder
from glnn.exceptions import OutputError
run = Path(sys.argv[1]) / "run"
run.mkdir()
(run / "a").write_text("old")
try:
    with replace_folder(run, ("a", "b")) as new:
        for name in ("a", "b"):
            with atomic_write(new / name, "wb") as file:
                file.write(b"x" * 700_000)
except OutputError as error:
    print(error)
print(*sorted(path.name for path in run.parent.rglob("*")), (run / "a").read_text())
"""


def test_a_full_disk_leaves_the_old_run_and_one_line(tmp_path):
    """On a disk of a megabyte, in a name space of its own."""
    if shutil.which("unshare") is None:
        pytest.skip("no unshare")
    mount = 'mount -t tmpfs -o size=1m none "$1" || exit 77; exec "$2" -c "$3" "$1"'
    command = ["unshare", "-rm", "sh", "-c", mount, "sh", str(tmp_path), sys.executable, FILL]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode in (1, 77) and not done.stdout:
        pytest.skip("no disk can be mounted here")
    line, files = done.stdout.splitlines()
    assert "No space left" in line and "unchanged" in line
    assert files == "a run old"
