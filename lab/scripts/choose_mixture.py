"""Compare rules of the mixture on labels that were kept from the fits, to choose among them.

    python lab/scripts/choose_mixture.py collect FOLDER cora/no-validation wine/no-validation \
        --seeds 100-105 --jobs 2
    python lab/scripts/choose_mixture.py compare FOLDER

``collect`` trains every track to its end, as if none was negligible, and keeps what each says of
the labels that judge it after each round, and of the public validation nodes. ``compare`` combines
these predictions by one rule after the other. A fit without validation nodes is judged by the
accuracy on these nodes, which it has not seen; a fit with them by halves, weights found on one half
and accuracy on the other. Test labels are used only for data without validation nodes (the terror
sets), and seeds must lie below 200. Cases are those of ``develop.py``.
"""

import argparse
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from develop import parse
from joblib import Parallel, delayed

from glnn import GLNNClassifier
from glnn.engine import rounds
from glnn_lab.experiments.datasets import load_cell
from glnn_lab.experiments.machine import use_threads

Run = dict[str, np.ndarray]
Key = tuple[str, int]  # name of a track and number of its round


class RecordedRounds(rounds.Rounds):
    """Rounds that keep all predictions, by track and round, in ``judged`` and ``final``."""

    judged: dict[Key, np.ndarray]
    final: dict[Key, np.ndarray]

    def _record(self, progress: Any, state: Any) -> Any:
        after = super()._record(progress, state)
        key = (state.track.name, state.round)
        number = [track.name for track in self.tracks].index(state.track.name)
        if progress.part < len(self.entries):
            own = self.entries[progress.part]
            kept = self.judged.setdefault(key, np.zeros(after.judged.shape[1:]))
            kept[own] = after.judged[number, own]
        if progress.part == self._last:
            self.final[key] = state.probabilities
        RecordedRounds.classes = self.classes
        return after


def collect(case: str, seed: int, folder: Path) -> None:
    """Fit one case and write the predictions of all tracks."""
    cell, has_validation = parse(case, "glnn", seed)
    RecordedRounds.judged, RecordedRounds.final = {}, {}
    import glnn.engine.fit as fit

    fit.Rounds, rounds.NEGLIGIBLE = RecordedRounds, 0.0  # type: ignore[misc]
    with use_threads(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        data, split = load_cell(cell)
        seen = np.concatenate([split.train, split.val]) if has_validation else split.train
        y = np.full(data.n_nodes, -1)
        y[seen] = data.labels[seen]
        validation = split.val if has_validation and split.val.size else None
        GLNNClassifier(random_state=seed, calibrate=None).fit(
            data.features, y, data.graph, validation
        )
    kept = split.val if split.val.size else split.test
    arrays = {"classes": RecordedRounds.classes, "kept": data.labels[kept]}
    arrays["is judged by halves"] = np.array(validation is not None)
    for (name, number), probabilities in RecordedRounds.judged.items():
        arrays[f"judged {name} {number}"] = probabilities
        arrays[f"kept {name} {number}"] = RecordedRounds.final[name, number][kept]
    np.savez_compressed(folder / f"{case.replace('/', '+')}_{seed}.npz", **arrays)


def choose_tracks(
    run: Run, without: str = "", rounds_of: dict[str, int] | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Return what the tracks say in their last round of judging and of kept labels."""
    last: dict[str, int] = {}
    for what, name, number in (key.split() for key in run if key.startswith("judged ")):
        most = (rounds_of or {}).get(name, 9)
        if what and name != without and int(number) <= most:
            last[name] = max(last.get(name, 0), int(number))
    both = (
        np.stack([run[f"{what} {name} {number}"] for name, number in last.items()])
        for what in ("judged", "kept")
    )
    return tuple(both)  # type: ignore[return-value]


def score(
    run: Run, floor: float = 0.01, prior: float = 1.0, variance: float = 0.0, **tracks: Any
) -> float:
    """Return the accuracy in percent of the mixture on labels that took no part in its weights.

    ``variance`` is that of the prior of the correction of the classes.
    """
    judged, kept = choose_tracks(run, **tracks)
    classes = run["classes"]

    def weigh(places: np.ndarray) -> np.ndarray:
        right = np.maximum(judged[:, places, classes[places]].T, floor)
        return rounds.fit_weights(right, np.full(len(places), 1 / prior))

    def predict(places: np.ndarray, new: np.ndarray) -> np.ndarray:
        """Return the classes of new nodes; weights and correction are found on some labels."""
        weights = weigh(places)
        mixed = np.tensordot(weights, new, 1)
        if variance:
            own, each = np.tensordot(weights, judged[:, places], 1), np.ones(len(places))
            found = rounds.fit_correction(own, classes[places], each, variance)
            mixed = rounds.correct(mixed, found)
        return np.asarray(mixed.argmax(1))

    if not run["is judged by halves"]:
        predicted = predict(np.arange(len(classes)), kept)
        return 100 * float((predicted == run["kept"]).mean())
    found = []
    for seed in range(4):
        order = np.random.default_rng(seed).permutation(len(classes))
        half = len(order) // 2
        for own, rest in ((order[:half], order[half:]), (order[half:], order[:half])):
            predicted = predict(own, judged[:, rest])
            found.append(100 * float((predicted == classes[rest]).mean()))
    return float(np.mean(found))


RULES: dict[str, Callable[[Run], float]] = {
    "as it is": score,
    "corrected": lambda run: score(run, variance=0.25),
    "floor 0.1": lambda run: score(run, floor=0.1),
    "3 prior labels": lambda run: score(run, prior=3.0),
    "equal": lambda run: score(run, prior=1e6),
    "2 rounds": lambda run: score(run, rounds_of=dict.fromkeys(("learned", "features"), 2)),
    "no features": lambda run: score(run, without="features"),
    "no linear": lambda run: score(run, without="linear"),
    "no hops": lambda run: score(run, without="hops"),
}


def compare(folder: Path) -> None:
    """Print the accuracy of the rule as it is, and the differences of the others, by case."""
    cases: dict[str, list[Run]] = {}
    for path in sorted(folder.glob("*.npz")):
        with np.load(path) as file:
            cases.setdefault(path.stem.rpartition("_")[0], []).append(dict(file))
    names = list(RULES)
    print(f"{'case':30}" + "".join(f"{name:>15}" for name in names))
    table = []
    for case, runs in cases.items():
        found = np.array([[RULES[name](run) for name in names] for run in runs]).mean(0)
        table.append(np.concatenate([found[:1], found[1:] - found[0]]))
        print(f"{case:30}{table[-1][0]:15.2f}" + "".join(f"{x:+15.2f}" for x in table[-1][1:]))
    mean = np.mean(table, 0)
    print(f"{'mean':30}{mean[0]:15.2f}" + "".join(f"{x:+15.2f}" for x in mean[1:]))


def main() -> None:
    """Collect predictions, or compare rules."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["collect", "compare"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("cases", nargs="*")
    parser.add_argument("--seeds", default="100-105", help="first and last; below 200")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    if options.what == "compare":
        compare(options.folder)
        return
    first, last = (int(part) for part in options.seeds.split("-"))
    if not 0 <= first <= last < 200:
        parser.error("seeds must lie below 200: later ones are for reported results.")
    options.folder.mkdir(parents=True, exist_ok=True)
    Parallel(n_jobs=options.jobs)(
        delayed(collect)(case, seed, options.folder)
        for case in options.cases
        for seed in range(first, last + 1)
    )


if __name__ == "__main__":
    main()
