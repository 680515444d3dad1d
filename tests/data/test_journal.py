import multiprocessing
import os

import pytest

from glnn.data.journal import FileLock, open_journal
from glnn.exceptions import DataFormatError, OutputError

optuna = pytest.importorskip("optuna")


@pytest.fixture
def path(tmp_path):
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(storage=open_journal(tmp_path / "new" / "journal"), study_name="s")
    for value in (3.0, 1.0):
        study.add_trial(optuna.trial.create_trial(value=value))
    return tmp_path / "new" / "journal"


def values(path):
    study = optuna.load_study(storage=open_journal(path), study_name="s")
    return [trial.value for trial in study.trials]


def test_what_was_written_is_there_and_the_lock_leaves_no_file(path):
    assert values(path) == [3.0, 1.0]
    assert [child.name for child in path.parent.iterdir()] == ["journal"]


def test_a_last_line_that_was_cut_off_is_removed_and_its_trial_with_it(path):
    whole = path.read_bytes()
    start = whole[:-1].rfind(b"\n") + 1
    for end in (start + 1, (start + len(whole)) // 2, len(whole) - 1):
        path.write_bytes(whole[:end])
        assert values(path) == [3.0]
        assert path.read_bytes() == whole[:start]


def test_a_search_goes_on_after_the_cut(path):
    path.write_bytes(path.read_bytes()[:-5])
    study = optuna.load_study(storage=open_journal(path), study_name="s")
    study.add_trial(optuna.trial.create_trial(value=2.0))
    assert values(path) == [3.0, 2.0]


@pytest.mark.parametrize("text", ["no json\n", "[]\n", "{}\n", '{"op_code": 77}\n', "12\n"])
def test_what_is_no_journal_is_refused_in_one_line(tmp_path, text):
    (tmp_path / "journal").write_text(text)
    with pytest.raises(DataFormatError, match="must be the journal of a search"):
        open_journal(tmp_path / "journal")


def test_a_place_that_cannot_be_written_is_one_line(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError):
        open_journal(tmp_path / "file" / "journal")


def test_a_lock_keeps_others_out_and_ends_with_its_process(tmp_path):
    context = multiprocessing.get_context("fork")
    ready = context.Event()

    def hold():
        FileLock(tmp_path / "journal").acquire()
        ready.set()
        os.kill(os.getpid(), 9)

    process = context.Process(target=hold)
    process.start()
    process.join()
    assert ready.is_set() and process.exitcode == -9
    lock = FileLock(tmp_path / "journal")
    assert lock.acquire()  # at once: nobody waits for the dead
    lock.release()


def test_a_journal_has_the_rights_of_any_new_file(tmp_path):
    open_journal(tmp_path / "journal")
    (tmp_path / "other").touch()
    modes = {(tmp_path / name).stat().st_mode for name in ("journal", "other")}
    assert len(modes) == 1
