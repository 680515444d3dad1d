"""How many labels the studio's order saves: it against a random order, on three data sets.

    python lab/scripts/studio_oracle.py digits cora customers --draws 10 --first-seed 300

For each draw a hidden column answers, once in the suggested and once in a random order, and a fit
follows each label. The goal is 90 % of the better of the two accuracies with all labels of the
budget; the number of labels until it is reached for good in the next two fits is compared, paired
by draw. A draw is a seed of the fits and of the random order, and for the customers of the table.
Seeds below 200 are for development, those from 300 on for reports. Cora needs GLNN_DATA.
"""

import argparse
import json
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from glnn.data import NodeData
from glnn.report.sources import Source
from glnn.studio import LabelSession
from glnn.studio.opening import open_source
from glnn.studio.oracle import ORDERS, hide_labels, run_oracle
from glnn_lab.experiments.trust import make_table

BUDGET = {"digits": 60, "cora": 100, "customers": 60}
GOAL = 0.9


def open_data(name: str, seed: int, folder: Path) -> Source:
    """Return a data set; the customers are drawn from the seed."""
    if name != "customers":
        return Source(name)
    table = make_table("customers", 6 * seed)
    record = NodeData.from_arrays(table.x, table.y, edges=table.graph, name="customers")
    return open_source(record, folder, None, None, {})


def draw_curves(name: str, seed: int) -> dict[str, list[tuple[int, float]]]:
    """Return the true accuracy by number of labels in both orders."""
    curves = {}
    for order in ORDERS:
        with tempfile.TemporaryDirectory() as place:
            hidden, truth = hide_labels(open_data(name, seed, Path(place) / "data"))
            with LabelSession(hidden, Path(place) / "s", seed=seed, background=False) as session:
                how: Any = {"budget": BUDGET[name], "order": order, "seed": seed}
                points = run_oracle(session, truth, **how)
                curves[order] = [(one.n_labels, one.accuracy) for one in points]
    return curves


def labels_needed(curve: Sequence[tuple[int, float]], goal: float) -> int:
    """Return the number of labels after which three fits in a row reach the goal.

    At the end of the curve those that are left count; a goal that is not reached needs one label
    more than there are.
    """
    for k, (n_labels, _) in enumerate(curve):
        if all(accuracy >= goal for _, accuracy in curve[k : k + 3]):
            return n_labels
    return curve[-1][0] + 1


def compare(curves: dict[str, list[tuple[int, float]]]) -> dict[str, float]:
    """Return the labels that both orders need, and the goal."""
    goal = GOAL * max(curve[-1][1] for curve in curves.values())
    needed = {order: labels_needed(curve, goal) for order, curve in curves.items()}
    return {"goal": goal, **needed, "saved": 1 - needed["suggested"] / needed["random"]}


def main() -> None:
    """Run the draws, print a line for each and the mean with its range, and store the curves."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="+", choices=sorted(BUDGET))
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument("--first-seed", type=int, default=100)
    parser.add_argument("--out", type=Path, help="file for all curves, as JSON")
    given = parser.parse_args()
    if "cora" in given.names and not os.environ.get("GLNN_DATA"):
        parser.error("cora needs the folder of the data in GLNN_DATA.")
    stored: dict[str, Any] = {}
    for name in given.names:
        rows = []
        for seed in range(given.first_seed, given.first_seed + given.draws):
            curves = draw_curves(name, seed)
            rows.append(compare(curves))
            stored[f"{name} {seed}"] = {"curves": curves, **rows[-1]}
            print(name, seed, {key: round(value, 3) for key, value in rows[-1].items()}, flush=True)
            if given.out is not None:
                given.out.write_text(json.dumps(stored))
        suggested, at_random = (np.array([row[order] for row in rows]) for order in ORDERS)
        saved = 1 - suggested.mean() / at_random.mean()
        verdict = "reached" if saved >= 0.3 else "MISSED"
        print(
            f"{name}: {suggested.mean():.1f} labels suggested, {at_random.mean():.1f} at random, "
            f"{saved:.0%} fewer (fewer in {int((suggested < at_random).sum())} of {len(rows)} "
            f"draws); at least 30 % fewer: {verdict}",
            flush=True,
        )


if __name__ == "__main__":
    main()
