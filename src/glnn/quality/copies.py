"""Unfitted copies of an estimator, for fits without some labels."""

from typing import Any

from sklearn.base import clone


def unfitted(estimator: Any, **changes: Any) -> Any:
    """Return an unfitted copy with some parameters changed; those that it lacks are skipped.

    Unlike scikit-learn's ``clone`` it does not copy callbacks, which may hold a progress bar or
    an open file.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> unfitted(LogisticRegression(C=2.0), max_iter=7, callbacks=None)
    LogisticRegression(C=2.0, max_iter=7)
    """
    known = estimator.get_params(deep=False)
    wanted = {name: value for name, value in changes.items() if name in known}
    kept = {
        name: value if name == "callbacks" else clone(value, safe=False)
        for name, value in known.items()
        if name not in wanted
    }
    return type(estimator)(**kept, **wanted)
