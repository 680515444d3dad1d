import os
import shutil
import subprocess
import sys

import pytest

from glnn.data import swap
from glnn.data.files import atomic_write
from glnn.data.lock import beside
from glnn.data.swap import check_replaceable, is_replaceable, remove_leftovers, swapped
from glnn.exceptions import OutputError

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
    with swapped(folder, OWN) as new:
        for name in ("a", "c"):
            with atomic_write(new / name) as file:
                file.write(f"new {name}")


def run_of(folder):
    return {path.name: path.read_text() for path in folder.iterdir() if path.name in OWN}


OLD, NEW = {"a": "old a", "b": "old b"}, {"a": "new a", "c": "new c"}


@pytest.fixture(params=[True, False], ids=["exchange", "two moves"])
def moves(request, monkeypatch):
    if not request.param:
        monkeypatch.setattr(swap, "exchanged", lambda one, other: False)
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


@pytest.mark.parametrize("made", [True, False])
def test_a_new_or_empty_folder_is_filled_in_one_move(tmp_path, made):
    if made:
        (tmp_path / "run").mkdir()
    replace(tmp_path / "run")
    assert run_of(tmp_path / "run") == NEW


def test_a_link_to_a_folder_stays_a_link(folder, tmp_path):
    (tmp_path / "name").symlink_to(folder)
    replace(tmp_path / "name")
    assert (tmp_path / "name").is_symlink()
    assert run_of(folder) == NEW


def test_a_failure_in_the_block_leaves_the_old_run(folder):
    with pytest.raises(ZeroDivisionError), swapped(folder, OWN) as new:
        (new / "a").write_text("half")
        raise ZeroDivisionError
    assert run_of(folder) == OLD
    assert list(folder.parent.iterdir()) == [folder]


@pytest.mark.parametrize("left", ["new", "old"])
def test_leftovers_of_a_killed_writer_are_removed_by_the_next(folder, left):
    write_old(beside(folder, left))
    replace(folder)
    assert run_of(folder) == NEW
    assert list(folder.parent.iterdir()) == [folder]


def test_a_run_whose_writer_was_killed_between_two_moves_comes_back(folder):
    folder.rename(beside(folder, "old"))
    remove_leftovers(folder)
    assert run_of(folder) == OLD


def test_whenever_the_power_fails_the_old_or_the_new_run_is_there(
    folder, moves, power_cuts, monkeypatch
):
    cuts = power_cuts(folder.parent)
    with monkeypatch.context() as patch:
        cuts.watch(patch, (swap, "exchanged"))
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
from glnn.data.swap import swapped
from glnn.exceptions import OutputError
run = Path(sys.argv[1]) / "run"
run.mkdir()
(run / "a").write_text("old")
try:
    with swapped(run, ("a", "b")) as new:
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
    assert "No space left" in line and "as it was" in line
    assert files == "a run old"
