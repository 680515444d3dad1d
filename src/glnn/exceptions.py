"""Errors and warnings of glnn; each error also derives from the usual built-in error."""

from sklearn.exceptions import NotFittedError as _SklearnNotFittedError


class GlnnError(Exception):
    """Base of every error that glnn raises on purpose; its message is one line."""


class InputError(GlnnError, ValueError):
    """An argument or a file of the user is invalid."""

    add: str = ""  # options that would make the command work


class InputTypeError(InputError, TypeError):
    """An argument has a type that cannot be used."""


class DataFormatError(InputError):
    """A file does not follow its format, or declares unreasonable sizes."""


class OutputError(InputError, OSError):
    """A file or folder could not be written; what was there before is unchanged."""


class DownloadError(GlnnError, OSError):
    """A data set could not be downloaded, or differs from the published one."""


class ProblemError(InputError):
    """The graph problem has no unique minimum, or cannot be solved with these settings."""


class CheckpointError(GlnnError, ValueError):
    """A saved model or checkpoint cannot be read by this version."""


class StoppedError(GlnnError):
    """The fit was interrupted and stopped after a step; the message says how to resume it.

    ``code`` is the exit code that shells expect: 128 plus the number of the signal.
    """

    code: int = 130


class MissingDependencyError(GlnnError, ImportError):
    """An optional package is missing; the message names the extra that installs it."""


class NotFittedError(GlnnError, _SklearnNotFittedError):  # type: ignore[misc]
    """The estimator was used before ``fit``."""


class GraphWarning(UserWarning):
    """The given graph was repaired: loops, repeated edges or edges in one direction only."""


class PeerError(GlnnError):
    """Another process of the same fit has ended or does not respond."""


class PeerInputError(PeerError):
    """Another process has rejected the input and reports why; this one prints nothing."""


class SlowPathWarning(UserWarning):
    """A slower method is used; the result is equally valid."""
