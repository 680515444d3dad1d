import pytest

from glnn.data import files
from glnn.exceptions import DataFormatError, InputError


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


def test_a_write_replaces_the_file_whole(tmp_path):
    path = tmp_path / "a.txt"
    with files.atomic_write(path) as file:
        file.write("é\r\n")
        assert not path.exists()
    assert path.read_bytes() == "é\r\n".encode()


def test_a_folder_that_is_not_there_is_one_clear_line(tmp_path):
    with pytest.raises(InputError, match="must exist"), files.atomic_write(tmp_path / "no" / "a"):
        pass


def test_a_target_that_cannot_be_written_is_one_clear_line(tmp_path):
    (tmp_path / "folder").mkdir()
    with pytest.raises(InputError, match="writable"), files.atomic_write(tmp_path / "folder"):
        pass


@pytest.mark.parametrize(
    "error", [ValueError("a\nb"), KeyError("k"), MemoryError(), OSError(5, "x")]
)
def test_what_a_parser_raises_becomes_one_line(tmp_path, error):
    with pytest.raises(DataFormatError) as caught, files.parsing(tmp_path / "f", "test"):
        raise error
    assert "\n" not in str(caught.value)


def test_errors_of_glnn_pass_unchanged(tmp_path):
    with pytest.raises(InputError, match=r"^mine$"), files.parsing(tmp_path, "test"):
        raise InputError("mine")


def test_a_file_beyond_the_limit_is_refused_unread(tmp_path):
    path = tmp_path / "big.csv"
    with path.open("wb") as file:
        file.truncate(files.MAX_TEXT_BYTES + 1)  # sparse: takes no room
    with pytest.raises(DataFormatError, match="at most"):
        files.check_file(path)


def test_text_in_another_encoding_says_how_to_save_it(tmp_path):
    path = tmp_path / "latin.csv"
    path.write_bytes("name\nJosé\n".encode("latin1"))
    with pytest.raises(DataFormatError, match="CSV UTF-8"):
        files.read_text(path)


def test_a_byte_order_mark_is_left_out(tmp_path):
    (tmp_path / "a").write_bytes(b"\xef\xbb\xbfid")
    assert files.read_text(tmp_path / "a") == "id"


def test_a_folder_is_no_file(tmp_path):
    with pytest.raises(InputError, match="got a folder"):
        files.check_file(tmp_path)


def test_values_in_messages_are_short_and_printable():
    assert files.shown("a\nb") == r"'a\nb'"
    assert len(files.shown("x" * 1000)) < 50
    assert files.one_line("\x1b[31mred\n") == "?[31mred"
