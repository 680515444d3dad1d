import inspect

import pytest
from sklearn.exceptions import NotFittedError as SklearnNotFittedError

from glnn import exceptions
from glnn.exceptions import GlnnError


def test_every_error_is_caught_as_one_of_glnn():
    errors = inspect.getmembers(exceptions, inspect.isclass)
    own = [cls for _, cls in errors if cls.__module__ == exceptions.__name__]
    assert all(issubclass(cls, GlnnError | Warning) for cls in own)


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
    assert issubclass(error, expected)
