"""Explain a node of a run by ids and column names."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.box import SIMPLE
from rich.table import Table

from glnn.data.arguments import find_row
from glnn.estimator import GLNNClassifier
from glnn.quality.explain import Explanation, Link
from glnn.quality.folds import label_weights
from glnn.report.links import OTHER_TERMS, name_terms
from glnn.report.predict import DataDescription, run_ids
from glnn.report.text import format_percent

_MIN_SHARE = 0.005  # smaller contributions to a link are not named


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
    columns = DataDescription.read(run).feature_names
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
    """Return the heaviest links, and why they are there."""
    title = "Heaviest links (? marks a predicted class)"
    table = Table("link to", title=title, title_justify="left", box=SIMPLE, pad_edge=False)
    table.add_column("class")
    table.add_column("weight", justify="right", no_wrap=True)
    table.add_column("why")
    for link in node.explanation.links:
        known = f"{link.predicted} ?" if link.label is None else f"{link.label}"
        cells = (node.name(link.node), known, f"{link.weight:.3f}", describe_link(link))
        table.add_row(*cells)
    return table


def describe_link(link: Link) -> str:
    """Return why a link is there: the reasons for it, the most important first."""
    names, (shares,) = name_terms(list(link.terms), np.array([list(link.terms.values())]))
    reasons = []
    for share, name in sorted(zip(shares, names), reverse=True):
        if share >= _MIN_SHARE and name != OTHER_TERMS:
            is_alike = name == "similarity" and link.columns
            reasons.append(f"similar in {', '.join(link.columns)}" if is_alike else name)
    return "; ".join(reasons)
