import inspect

import pytest
from sklearn.exceptions import NotFittedError as SklearnNotFittedError

from glnn import exceptions
from glnn.exceptions import GlnnError

ALL = [
    cls
    for _, cls in inspect.getmembers(exceptions, inspect.isclass)
    if cls.__module__ == exceptions.__name__
]
ERRORS = [cls for cls in ALL if not issubclass(cls, Warning)]


@pytest.mark.parametrize("error", ERRORS)
def test_every_error_is_caught_as_one_of_glnn(error):
    assert issubclass(error, GlnnError)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (exceptions.InputError, ValueError),
        (exceptions.InputTypeError, TypeError),
        (exceptions.DataFormatError, exceptions.InputError),
        (exceptions.OutputError, exceptions.InputError),
        (exceptions.OutputError, OSError),
        (exceptions.DownloadError, OSError),
        (exceptions.ProblemError, exceptions.InputError),
        (exceptions.CheckpointError, ValueError),
        (exceptions.StoppedError, GlnnError),
        (exceptions.MissingDependencyError, ImportError),
        (exceptions.NotFittedError, SklearnNotFittedError),
        (exceptions.PeerError, GlnnError),
        (exceptions.PeerInputError, exceptions.PeerError),
        (exceptions.GraphWarning, UserWarning),
        (exceptions.SlowPathWarning, UserWarning),
    ],
)
def test_every_error_is_also_the_one_a_caller_would_expect(error, expected):
    with pytest.raises(expected, match="one clear line"):
        raise error("one clear line")


def test_no_error_is_left_without_its_expected_kind():
    assert len(ALL) == 15  # the fourteen above, and their base


@pytest.mark.parametrize("error", ALL)
def test_every_error_says_when_it_is_raised(error):
    assert error.__doc__.strip().endswith(".")
