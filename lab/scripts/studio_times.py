"""How long the studio makes a person wait: from a label to the next proposal, and for a refit.

    python lab/scripts/studio_times.py cora 10000

A data set is ``cora`` (needs GLNN_DATA) or a number of rows of a generated table with 20 columns.
A session labels rows by their true class while fits run in the background. Prints seconds by the
clock: of a label with the proposal that follows, all while a fit was running; of refits; and of
the same fit in a session that shares nothing with an earlier one.
"""

import argparse
import json
import tempfile
import time
from pathlib import Path

import numpy as np

from glnn.data import NodeData, write_data
from glnn.report.sources import Source
from glnn.studio import LabelSession
from glnn.studio.learning import QUICK
from glnn.studio.oracle import hide_labels
from glnn_lab.benches.first import draw_clusters


def open_data(name: str, folder: Path) -> Source:
    """Return Cora, or a table of overlapping clusters with so many rows."""
    if not name.isdigit():
        return Source(name)
    record = NodeData.from_arrays(*draw_clusters(int(name)), name="table")
    folder.mkdir()
    write_data(record, folder / "table.npz")
    return Source(str(folder / "table.npz"))


def time_labels(name: str, n_labels: int) -> list[float]:
    """Return the seconds from each label to the next proposal, for those during a fit."""
    seconds: list[float] = []
    with tempfile.TemporaryDirectory() as place:
        hidden, truth = hide_labels(open_data(name, Path(place) / "data"))
        with LabelSession(hidden, Path(place) / "s", seed=0) as session:
            row = session.next(1)[0]["id"]
            while len(seconds) < n_labels:
                is_fitting = bool(session._running)
                began = time.perf_counter()
                session.label(row, truth[row])
                row = session.next(1)[0]["id"]
                spent = time.perf_counter() - began
                if is_fitting:
                    seconds.append(spent)
                time.sleep(0.3)  # a fast person
    return seconds


def time_refits(name: str, n_labels: int, n_fits: int = 5) -> tuple[list[float], list[float]]:
    """Return the seconds of refits after one more label each, and of the same fits when cold."""
    warm, cold = [], []
    with tempfile.TemporaryDirectory() as place:
        hidden, truth = hide_labels(open_data(name, Path(place) / "data"))
        with LabelSession(hidden, Path(place) / "s", seed=0, background=False) as session:
            rows = [row for row in session.ids if row in truth][: n_labels + n_fits]
            for number, row in enumerate(rows):
                session.label(row, truth[row])
                if number >= n_labels:
                    began = time.perf_counter()
                    session.fit(QUICK)
                    warm.append(time.perf_counter() - began)
        for number in range(2):
            began = time.perf_counter()
            with LabelSession(hidden, Path(place) / f"c{number}", background=False) as session:
                session.import_labels({row: truth[row] for row in rows})
                session.fit(QUICK)
            cold.append(time.perf_counter() - began)
    return warm, cold


def main() -> None:
    """Print a line of JSON for each data set."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="+", help="cora, or a number of rows")
    parser.add_argument("--labels", type=int, default=40)
    given = parser.parse_args()
    for name in given.names:
        waits = time_labels(name, given.labels)
        warm, cold = time_refits(name, given.labels)
        page = {
            "data": name,
            "label_to_proposal_ms": {
                "median": round(1000 * float(np.median(waits)), 1),
                "90 %": round(1000 * float(np.quantile(waits, 0.9)), 1),
                "most": round(1000 * max(waits), 1),
            },
            "refit_s": [round(s, 2) for s in warm],
            "cold_s": [round(s, 2) for s in cold],
            "refit_to_cold": round(float(np.median(warm) / np.median(cold)), 2),
        }
        print(json.dumps(page), flush=True)


if __name__ == "__main__":
    main()
