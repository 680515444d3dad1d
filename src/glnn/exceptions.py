"""The errors of glnn: each is also the built-in or scikit-learn error a caller would expect."""

from sklearn.exceptions import NotFittedError as _SklearnNotFittedError


class GlnnError(Exception):
    """Base of every error that glnn raises on purpose; its text is one clear line."""


class InputError(GlnnError, ValueError):
    """Something given by the user does not hold what it must."""


class InputTypeError(InputError, TypeError):
    """Something given by the user is of a kind that cannot be used at all."""


class DataFormatError(InputError):
    """A file is not what its format demands, or asks for more than is sensible."""


class OutputError(InputError, OSError):
    """A file or folder could not be written; what was there before is as it was."""


class DownloadError(GlnnError, OSError):
    """A data set could not be fetched, or what came is not what was published."""


class ProblemError(InputError):
    """The graph problem has no minimum, or cannot be solved as it is posed."""


class CheckpointError(GlnnError, ValueError):
    """A saved model or checkpoint cannot be read by this version."""


class StoppedError(GlnnError):
    """The work was asked to end and did so after a step; the text says how to go on.

    ``code`` is the exit code that shells expect: 128 and the number of the signal.
    """

    code: int = 130


class MissingDependencyError(GlnnError, ImportError):
    """An optional package is needed; the message names the extra that brings it."""


class NotFittedError(GlnnError, _SklearnNotFittedError):  # type: ignore[misc]
    """The estimator is used before ``fit``."""


class GraphWarning(UserWarning):
    """A given graph was used after a stated repair: loops, repeated or one-way edges."""


class PeerError(GlnnError):
    """Another process of the same fit is gone."""


class SaidByPeerError(PeerError):
    """Another process has refused the input and says why; this one ends in silence."""


class SlowPathWarning(UserWarning):
    """A faster way of computing could not be used; the result is the same kind of result."""
