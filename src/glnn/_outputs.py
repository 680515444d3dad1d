"""What a fitted classifier gives to people and other programs; a part of ``GLNNClassifier``."""

from importlib import import_module
from pathlib import Path
from typing import Any


class OutputsMixin:
    """The page to explore, and the graph for networkx.

    Both are made by ``glnn.report``, which is above the estimator in the order of imports, so it
    is looked up by name when it is asked for. A class that mixes it in has ``_check_fitted``.
    """

    def report(self, path: str | Path) -> Path:
        """Write a page to explore the fit with, one HTML file that needs no network."""
        page = self._page_module()
        written: Path = page.write_report(self, Path(path), getattr(self, "_fitted_to", None))
        return written

    def to_networkx(self) -> Any:
        """Return the learned graph as a ``networkx.Graph``.

        Nodes are named as the rows of the training table, else by their numbers as text, and have
        ``class``, ``probability`` and ``given_label`` (empty without one); edges have ``weight``
        and ``origin``, which is ``given`` or ``learned``, and given ones ``trust``, the share of
        their weight that was kept.
        """
        page = self._page_module().page_of_model(self, getattr(self, "_fitted_to", None))
        return import_module("glnn.report.export").network_of(page)

    def _page_module(self) -> Any:
        self._check_fitted()  # type: ignore[attr-defined]
        return import_module("glnn.report.model_page")
