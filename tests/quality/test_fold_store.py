import numpy as np
import pytest

from glnn.engine.sealed import write_sealed
from glnn.exceptions import CheckpointError, OutputError
from glnn.quality.fold_store import FORMAT, PAGE, stored


class Counted:
    """An answer that depends on the hidden nodes alone, and how often it was asked for."""

    def __init__(self, most=99):
        self.n_calls, self._most = 0, most

    def __call__(self, hidden):
        if self.n_calls == self._most:
            raise KeyboardInterrupt
        self.n_calls += 1
        return np.random.default_rng(hidden).random((5, 2))


HIDDEN = [np.array(nodes) for nodes in ([0, 1], [2], [1, 0], [3, 4])]


def test_an_answer_is_asked_for_once_and_read_to_the_same_bits(tmp_path):
    refit = Counted()
    first = [stored(refit, tmp_path / "a" / "b", b"x")(hidden) for hidden in HIDDEN]
    again = [stored(refit, tmp_path / "a" / "b", b"x")(hidden) for hidden in HIDDEN]
    assert refit.n_calls == len(HIDDEN)
    np.testing.assert_array_equal(first, again)


def test_an_estimate_that_was_cut_off_goes_on_with_the_rest(tmp_path):
    short, rest = Counted(most=2), Counted()
    with pytest.raises(KeyboardInterrupt):
        [stored(short, tmp_path, b"x")(hidden) for hidden in HIDDEN]
    found = [stored(rest, tmp_path, b"x")(hidden) for hidden in HIDDEN]
    assert (short.n_calls, rest.n_calls) == (2, 2)
    np.testing.assert_array_equal(found, [Counted()(hidden) for hidden in HIDDEN])


def test_folds_of_another_estimate_are_refused(tmp_path):
    stored(Counted(), tmp_path, b"x")
    with pytest.raises(CheckpointError, match="of this very estimate"):
        stored(Counted(), tmp_path, b"y")


def test_folds_of_another_version_are_refused(tmp_path):
    write_sealed(tmp_path / PAGE, FORMAT, 99, {})
    with pytest.raises(CheckpointError, match="got '99'"):
        stored(Counted(), tmp_path, b"x")


@pytest.mark.parametrize("damage", [lambda b: b[:-1], lambda b: b[:-1] + bytes([b[-1] ^ 4])])
def test_a_damaged_answer_is_one_line(tmp_path, damage):
    stored(Counted(), tmp_path, b"x")(HIDDEN[0])
    (path,) = tmp_path.glob("*.safetensors")
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(CheckpointError, match="damaged") as caught:
        stored(Counted(), tmp_path, b"x")(HIDDEN[0])
    assert "\n" not in str(caught.value)


def test_a_folder_that_cannot_be_made_is_one_line(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match="writable"):
        stored(Counted(), tmp_path / "file" / "f", b"x")
