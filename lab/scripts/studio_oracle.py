"""How many labels the studio's order saves: it against a random order, on three data sets.

    python lab/scripts/studio_oracle.py digits cora customers --jobs 2 --out draws.json
    python lab/scripts/studio_oracle.py --page docs/results/studio/oracle.json

For each draw a hidden column answers, once in the suggested and once in a random order, and a fit
follows each label. The goal is 90 % of the better of the two accuracies with all labels of the
budget; the number of labels until it is reached for good in the next two fits is compared, paired
by draw. A draw is a seed of the fits and of the random order, and for the customers of the table.
Draws that the file has already are not repeated. Seeds below 200 are for development, those from
300 on for reports. Cora needs GLNN_DATA. The second command writes docs/results/studio.md from the
draws and from times.jsonl beside them, the output of studio_times.py.
"""

import argparse
import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed

from glnn.data import NodeData, write_data
from glnn.report.sources import Source
from glnn.studio import LabelSession
from glnn.studio.oracle import ORDERS, hide_labels, run_oracle
from glnn_lab.experiments.trust import make_table

BUDGET = {"digits": 60, "cora": 100, "customers": 60}
GOAL, SAVED = 0.9, 0.3  # share of the final accuracy, and of the labels to save


def open_data(name: str, seed: int, folder: Path) -> Source:
    """Return a data set; the customers are drawn from the seed."""
    if name != "customers":
        return Source(name)
    table = make_table("customers", 6 * seed)
    record = NodeData.from_arrays(table.x, table.y, edges=table.graph, name="customers")
    folder.mkdir()
    write_data(record, folder / "customers.npz")
    return Source(str(folder / "customers.npz"))


def draw_curves(name: str, seed: int) -> dict[str, list[tuple[int, float]]]:
    """Return the true accuracy by number of labels in both orders."""
    curves = {}
    for order in ORDERS:
        with tempfile.TemporaryDirectory() as place:
            hidden, truth = hide_labels(open_data(name, seed, Path(place) / "data"))
            with LabelSession(hidden, Path(place) / "s", seed=seed, background=False) as session:
                points = run_oracle(session, truth, budget=BUDGET[name], order=order, seed=seed)
                curves[order] = list(points)
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


def compare(curves: dict[str, list[tuple[int, float]]]) -> dict[str, Any]:
    """Return the labels that both orders need, and the goal."""
    goal = GOAL * max(curve[-1][1] for curve in curves.values())
    needed = {order: labels_needed(curves[order], goal) for order in ORDERS}
    return {"goal": round(goal, 4), **needed}


def run_draw(name: str, seed: int) -> dict[str, Any]:
    """Return what one draw is stored as."""
    return {"data": name, "seed": seed, **compare(draw_curves(name, seed))}


def run_draws(names: Sequence[str], seeds: Sequence[int], n_jobs: int, out: Path | None) -> list:
    """Run the draws that the file does not have, store and return all."""
    done = json.loads(out.read_text(encoding="utf-8")) if out is not None and out.exists() else []
    known = {(draw["data"], draw["seed"]) for draw in done}
    missing = [(name, seed) for name in names for seed in seeds if (name, seed) not in known]
    parallel = Parallel(n_jobs=n_jobs, return_as="generator_unordered")
    for draw in parallel(delayed(run_draw)(*one) for one in missing):
        print(json.dumps(draw), flush=True)
        done.append(draw)
        done.sort(key=lambda one: (one["data"], one["seed"]))
        if out is not None:
            lines = ",\n".join(json.dumps(one) for one in done)
            out.write_text(f"[\n{lines}\n]\n", encoding="utf-8")
    return done


# The page


def summarise(draws: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the means of one data set's draws, and the labels that are saved, paired by draw."""
    suggested, at_random = (np.array([draw[order] for draw in draws]) for order in ORDERS)
    less = at_random - suggested
    return {
        "suggested": suggested.mean(),
        "random": at_random.mean(),
        "share": 1 - suggested.mean() / at_random.mean(),
        "wins": int((less > 0).sum()),
        "n": len(less),
        "difference": less.mean(),
        "error": less.std(ddof=1) / np.sqrt(len(less)) if len(less) > 1 else float("nan"),
    }


def table_lines(draws: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the table of all data sets."""
    lines = [
        "| data | labels, suggested | labels, at random | fewer | fewer in | difference "
        "| at least 30 % fewer |",
        "|---|---|---|---|---|---|---|",
    ]
    for name in dict.fromkeys(draw["data"] for draw in draws):
        one = summarise([draw for draw in draws if draw["data"] == name])
        lines.append(
            f"| {name} | {one['suggested']:.1f} | {one['random']:.1f} | {100 * one['share']:.0f} % "
            f"| {one['wins']} of {one['n']} draws | {one['difference']:.1f} ± {one['error']:.1f} "
            f"| {'met' if one['share'] >= SAVED else '**missed**'} |"
        )
    return lines


def time_lines(times: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the table of times, from the lines of studio_times.py."""
    lines = [
        "| data | label to next proposal, ms: median / 90 % / maximum | refit, s "
        "| ratio to a new session |",
        "|---|---|---|---|",
    ]
    for one in times:
        waits, name = one["label_to_proposal_ms"], one["data"]
        lines.append(
            f"| {f'{int(name):,} rows' if name.isdigit() else name} "
            f"| {waits['median']} / {waits['90 %']} / {waits['most']} "
            f"| {min(one['refit_s'])} to {max(one['refit_s'])} | {one['refit_to_cold']} |"
        )
    return lines


def page_text(draws: Sequence[Mapping[str, Any]], times: Sequence[Mapping[str, Any]]) -> str:
    """Return the page as Markdown."""
    seeds = sorted({draw["seed"] for draw in draws})
    missed = [
        f"On {name} the suggested order needs {one['suggested']:.1f} labels and a random one "
        f"{one['random']:.1f}, so the goal is missed there."
        for name in dict.fromkeys(draw["data"] for draw in draws)
        if (one := summarise([d for d in draws if d["data"] == name]))["share"] < SAVED
    ]
    budgets = ", ".join(f"{count} for {name}" for name, count in BUDGET.items())
    parts = [
        "# The studio: labels saved, and waiting times",
        "How many labels does it take to reach 90 % of the final accuracy? A hidden column answers "
        "in place of a person, once for the rows that the studio proposes and once for rows in "
        "random order. A quick fit follows each label, and the accuracy is that on all rows "
        f"without a label. The final accuracy is the better of the two orders with all labels "
        f"({budgets}). The goal counts as reached when three fits in a row reach it. Seeds "
        f"{seeds[0]} to {seeds[-1]}: a seed draws the random order and the fits, and for the "
        "customers a table of 800 rows with a partly wrong graph. The difference is "
        "the mean over draws ± its standard error.",
        "\n".join(table_lines(draws)),
        " ".join([*missed, "Each draw is a line of [oracle.json](studio/oracle.json)."]),
        "    python lab/scripts/studio_oracle.py digits cora customers --first-seed 300 "
        "--jobs 2 --out docs/results/studio/oracle.json\n"
        "    python lab/scripts/studio_oracle.py --page docs/results/studio/oracle.json",
        "## Waiting times",
        "Wall-clock times on two otherwise idle cores. The first column is the time from a label "
        "to the next proposal while a fit was running in the background. The second is the time of "
        "one quick refit after a label; the third is its ratio to the same fit in a new session. "
        "The tables are generated, with 20 columns.",
        "\n".join(time_lines(times)),
        "    python lab/scripts/studio_times.py cora 10000 20000 > docs/results/studio/times.jsonl",
    ]
    return "\n\n".join(parts) + "\n"


def main() -> None:
    """Run the draws and print a table, or write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", choices=[*BUDGET, []], metavar="NAME")
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument("--first-seed", type=int, default=100)
    parser.add_argument("--jobs", type=int, default=1, help="draws at a time")
    parser.add_argument("--out", type=Path, help="file of draws, continued if it exists")
    parser.add_argument("--page", type=Path, help="write the page of a file of draws")
    given = parser.parse_args()
    if given.page is not None:
        lines = (given.page.parent / "times.jsonl").read_text(encoding="utf-8").splitlines()
        draws = json.loads(given.page.read_text(encoding="utf-8"))
        page = page_text(draws, [json.loads(line) for line in lines])
        given.page.parent.with_suffix(".md").write_text(page, encoding="utf-8")
        return
    if "cora" in given.names and not os.environ.get("GLNN_DATA"):
        parser.error("cora needs the folder of the data in GLNN_DATA.")
    seeds = range(given.first_seed, given.first_seed + given.draws)
    print("\n".join(table_lines(run_draws(given.names, seeds, given.jobs, given.out))))


if __name__ == "__main__":
    main()
