import errno
import json
import os
import subprocess
import sys
import time

import pytest

from glnn.exceptions import DataFormatError, OutputError
from glnn.studio import LabelSession
from glnn.studio.journal import Journal, LabelState

ENTRIES = [{"act": "label", "id": f"r{k}", "value": "ä\n'\"<"} for k in range(4)]


def write(path, entries=ENTRIES):
    journal = Journal(path)
    for entry in entries:
        journal.append(entry)
    return path.read_bytes()


def read(path):
    return Journal(path).entries


def test_a_journal_returns_what_was_appended_also_over_several_openings(tmp_path):
    path = tmp_path / "j"
    write(path, ENTRIES[:2])
    write(path, ENTRIES[2:])
    assert read(path) == ENTRIES
    assert len(path.read_bytes().splitlines()) == 4


def test_a_line_that_was_cut_short_anywhere_is_removed_and_the_next_one_follows_the_whole_ones(
    tmp_path,
):
    path = tmp_path / "j"
    whole = write(path)
    last = whole.splitlines(keepends=True)[-1]
    for size in range(1, len(last)):
        path.write_bytes(whole[:-size])
        write(path, [{"act": "skip", "id": "x"}])
        assert read(path) == [*ENTRIES[:3], {"act": "skip", "id": "x"}]


@pytest.mark.parametrize("damage", ["changed", "missing", "swapped"])
def test_a_line_in_the_middle_that_was_changed_or_is_missing_is_an_error_of_one_line(
    damage, tmp_path
):
    path = tmp_path / "j"
    lines = write(path).splitlines(keepends=True)
    if damage == "changed":
        lines[1] = lines[1].replace(b"r1", b"r9")
    elif damage == "missing":
        del lines[1]
    else:
        lines[1:3] = lines[2:0:-1]
    path.write_bytes(b"".join(lines))
    with pytest.raises(DataFormatError, match="damaged line 2"):
        Journal(path)
    assert path.read_bytes() == b"".join(lines)


@pytest.mark.parametrize("call", ["write", "fsync"])
def test_a_full_disk_is_an_error_of_one_line_and_leaves_the_journal_as_it_was(
    call, tmp_path, monkeypatch
):
    path = tmp_path / "j"
    whole = write(path)
    journal, real = Journal(path), os.write

    def full(handle, *data):
        if call == "write":
            real(handle, data[0][:7])  # a part of it had room
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, call, full)
        with pytest.raises(OutputError, match="No space left") as caught:
            journal.append({"act": "skip", "id": "x"})
        assert "\n" not in str(caught.value)
    assert path.read_bytes() == whole
    journal.append({"act": "skip", "id": "y"})
    assert read(path) == [*ENTRIES, {"act": "skip", "id": "y"}]


def test_what_a_failed_write_has_left_is_removed_even_if_it_could_not_be_at_once(
    tmp_path, monkeypatch
):
    path = tmp_path / "j"
    write(path)
    journal, real = Journal(path), os.write

    def full(handle, data):
        real(handle, data[:7])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def broken(handle, size):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        patch.setattr(os, "ftruncate", broken)
        with pytest.raises(OutputError):
            journal.append({"act": "skip", "id": "x"})
    journal.append({"act": "skip", "id": "y"})
    assert read(path) == [*ENTRIES, {"act": "skip", "id": "y"}]


# What the acts amount to


def acts(*parts):
    return [dict(zip(("act", "id", "value"), part)) for part in parts]


def test_undo_takes_back_one_act_after_the_other_as_if_it_had_not_been():
    entries = acts(
        ("label", "a", "x"),
        ("label", "a", "y"),
        ("skip", "b"),
        ("unsure", "a"),
        ("label", "b", "z"),
    )
    state = LabelState({"c": "x"}, ["x"], entries)
    for n_left in range(len(entries) - 1, -1, -1):
        state.apply({"act": "undo"})
        fresh = LabelState({"c": "x"}, ["x"], entries[:n_left])
        for name in ("labels", "classes", "skipped", "unsure", "looked", "acts"):
            assert getattr(state, name) == getattr(fresh, name)
    assert state.n_entries == 2 * len(entries)


def test_a_label_counts_as_looked_at_once_it_was_kept_and_no_longer_when_it_changes():
    state = LabelState({"c": "x"}, ["x"])
    state.apply({"act": "skip", "id": "c"})
    assert state.looked == {"c"}
    assert state.labels == {"c": "x"}
    state.apply({"act": "label", "id": "c", "value": "y"})
    assert state.looked == set()
    state.apply({"act": "label", "id": "c", "value": "y"})
    assert state.looked == {"c"}


# Killed processes

N_KILLS = 20

# Forks children that label one row after the other and name each once it is acknowledged, and
# kills each of them at a random moment soon after it has begun.
LABEL_AND_KILL = """
import itertools, os, random, signal, sys, time
from glnn.studio import LabelSession

table, folder, told, n_kills = *sys.argv[1:4], int(sys.argv[4])
chance = random.Random(0)
said = os.open(told, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
for _ in range(n_kills):
    before = os.stat(told).st_size
    child = os.fork()
    if child == 0:
        session = LabelSession(table, folder, params={"n_epochs": 2})
        for number, row in enumerate(itertools.cycle(session.ids)):
            value = "class " + chance.choice("xyz")
            session.label(row, value)
            os.write(said, f"{row}={value}\\n".encode())
    while os.stat(told).st_size == before:
        time.sleep(0.002)
    time.sleep(0.02 * chance.random())
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    assert os.WTERMSIG(status) == signal.SIGKILL
"""


def test_no_acknowledged_label_is_lost_when_the_process_is_killed(tmp_path, people):
    table, folder, told = people(40), tmp_path / "s", tmp_path / "told"
    args = [str(part) for part in (table, folder, told, N_KILLS)]
    subprocess.run([sys.executable, "-c", LABEL_AND_KILL, *args], check=True, timeout=300)
    acknowledged = [tuple(line.split("=")) for line in told.read_text().splitlines()]
    entries = [entry for entry in read(folder / "journal.jsonl") if entry["act"] == "label"]
    kept = iter([(entry["id"], entry["value"]) for entry in entries])
    assert len(acknowledged) >= N_KILLS
    assert all(one in kept for one in acknowledged)  # all of them, in their order
    assert len(entries) - len(acknowledged) <= N_KILLS  # on the disk, killed before it was said


def test_lines_are_json_and_say_who_and_when(tmp_path, people):
    with LabelSession(people(30), tmp_path / "s", background=False) as session:
        session.label(session.ids[3], "x")
    first, second = map(json.loads, (tmp_path / "s" / "journal.jsonl").read_text().splitlines())
    assert first["act"] == "open"
    assert first["source"]["name"].endswith("people.csv")
    assert (second["act"], second["id"], second["value"]) == ("label", session.ids[3], "x")
    assert abs(second["time"] - time.time()) < 60
