"""Explain a node of a run by ids and column names."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from rich.box import SIMPLE
from rich.table import Table

from glnn.data.arguments import find_row
from glnn.estimator import GLNNClassifier
from glnn.quality.explain import Explanation
from glnn.quality.folds import label_weights
from glnn.report.links import name_terms
from glnn.report.predict import read_data_description, run_ids
from glnn.report.text import format_percent


@dataclass(frozen=True, eq=False)
class NodeExplanation:
    """The explanation of a node, with the ids of all nodes of the run."""

    explanation: Explanation  # of the fit that was trained on all given labels
    ids: np.ndarray  # of all nodes
    held_out: tuple[Any, float] | None = None  # class and probability without the node's label
    is_calibrated: bool = True  # whether probabilities are calibrated

    def name(self, node: int) -> str:
        """Return the id of a node as text."""
        return str(self.ids[node])

    def to_dict(self) -> dict[str, Any]:
        """Return the explanation as plain values, with an id for every row number."""
        values = self.explanation.to_dict()
        for part in (values, *values["links"], *values["label_effects"]):
            part["id"] = self.name(part["node"])
        keys = ("predicted", "probability")
        held_out = None if self.held_out is None else dict(zip(keys, self.held_out))
        return values | {"without_its_label": held_out, "calibrated": self.is_calibrated}


def explain_node(run: Path, name: str, *, n_links: int = 10) -> NodeExplanation:
    """Explain the node of a run folder with the id ``name``, or row number if there are no ids."""
    columns = read_data_description(run)["feature_names"]
    model = GLNNClassifier.load(run)
    ids = run_ids(model)
    number = find_row(name, ids)
    found = model.explain(number, n_links=n_links, column_names=columns)
    held_out = None
    hidden = model.held_out_
    if hidden is not None and hidden.n_folds > 1 and hidden.classes[number] >= 0:
        weights = label_weights(model.class_weight, None, model.classes_, hidden.classes)
        row = hidden.calibrated(weights)[number]
        held_out = model.classes_.tolist()[row.argmax()], float(row.max())
    return NodeExplanation(found, ids, held_out, not model.calibration_.is_identity)


def heading(node: NodeExplanation) -> str:
    """Return the prediction in one line; the held-out prediction comes first if there is one."""
    found, held_out = node.explanation, node.held_out
    own = f"{found.predicted} ({format_percent(found.probability)})"
    if found.label is None:
        text = f"predicted {own}; no label was given"
    elif held_out is None:
        text = f"predicted {own} by a fit trained on its label; given label {found.label}"
    else:
        text = (
            f"predicted {held_out[0]} ({format_percent(held_out[1])}) without its "
            f"label; given label {found.label}; with its label, as explained here, predicted {own}"
        )
    return f"{node.name(found.node)}: {text}."


def link_table(node: NodeExplanation) -> Table:
    """Return the heaviest links, and the contribution of each term to them."""
    links = node.explanation.links
    names = list(dict.fromkeys(name for link in links for name in link.terms))
    values = np.array([[link.terms.get(name, 0.0) for name in names] for link in links])
    terms, parts = name_terms(names, values.reshape(len(links), len(names)))
    table = _table("link to", "Heaviest links, and the contribution of each term")
    for column in ("class", "weight", *terms, "columns"):
        justify: Literal["left", "right"] = "left" if column in ("class", "columns") else "right"
        table.add_column(column, justify=justify, min_width=max(map(len, column.split())))
    for link, part in zip(links, parts):
        known = f"{link.predicted} ?" if link.label is None else f"{link.label}"
        shares = [f"{share:+.3f}" for share in part]
        table.add_row(
            node.name(link.node), known, f"{link.weight:.3f}", *shares, ", ".join(link.columns)
        )
    return table


def _table(first: str, title: str) -> Table:
    """Return an empty table in a compact style."""
    return Table(first, title=title, title_justify="left", box=SIMPLE, pad_edge=False)
