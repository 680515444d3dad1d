"""The page of a run: from its results to what the page shows."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Float

from glnn.engine.presets import resolve_settings
from glnn.report.learning import learning_of
from glnn.report.page.data import Evaluation, Graphs, Nodes, PageData, Reproduce
from glnn.report.page.judged import estimated, on_test_nodes
from glnn.report.predictions import shown_probabilities
from glnn.report.remarks import suspect_lines, warning_lines
from glnn.report.results import FitResults
from glnn.report.versions import versions
from glnn.report.words import (
    equal_label_words,
    label_sentence,
    unjudged_advice,
    verdict_line,
)


def page_of(results: FitResults, places: Float[np.ndarray, "n 2"] | None = None) -> PageData:
    """Return what the page of a run shows.

    Parameters
    ----------
    results
        The run.
    places
        Where the nodes lie on the map, if that is known.
    """
    data = results.data
    return PageData(
        title=data.name,
        subtitle=label_sentence(results),
        class_names=tuple(data.class_names),
        nodes=_nodes(results, places),
        graphs=Graphs(
            results.adjacency,
            data.graph,
            results.terms,
            results.trust,
            "" if results.facts.equal_labels is None else equal_label_words(results.facts),
        ),
        evaluation=_measured(results),
        learning=learning_of(
            results.history,
            results.certificate,
            results.settings.get("chosen", {}),
            results.rounds,
            results.metric,
        ),
        reproduce=_reproduce(results),
        notes=results.notes,
        search=results.search,
        unjudged=f"{_capital(verdict_line(results))}.",
        advice=unjudged_advice(results),
        warnings=tuple(map(_capital, [*warning_lines(results), *suspect_lines(results)[:1]])),
    )


def _capital(line: str) -> str:
    """Return a line as a sentence begins."""
    return line[:1].upper() + line[1:]


def _nodes(results: FitResults, places: Float[np.ndarray, "n 2"] | None) -> Nodes:
    """Test nodes are judged by the fit itself, labelled ones only by folds that hid their label.

    Predictions and probabilities are those of ``predictions.csv``.
    """
    data, split = results.data, results.split
    shown, _ = shown_probabilities(results)
    probabilities = np.zeros((data.n_nodes, data.n_classes))
    probabilities[:, results.classes] = shown
    seen = np.zeros(data.n_nodes, dtype=bool)
    seen[np.concatenate([split.train, split.val])] = True
    judged = np.full(data.n_nodes, -1, dtype=np.int64)
    judged[split.test] = results.predictions[split.test]
    if results.estimate is not None:
        nodes = results.estimate.held_out.judged
        judged[nodes] = results.classes[results.estimate.own.judged.predicted]
    suspect = np.zeros(data.n_nodes, dtype=bool)
    suspect[list(results.suspects)] = True
    return Nodes(
        [str(name) for name in data.node_ids],
        results.classes[shown.argmax(1)],
        probabilities,
        data.labels,
        seen,
        judged,
        suspect,
        places,
    )


def _measured(results: FitResults) -> Evaluation | None:
    """Return the estimate of the folds, or else what the test nodes say, or nothing."""
    if results.estimate is not None:
        found = estimated(results.estimate, results.data.class_names)
        return dataclasses.replace(found, warnings=tuple(map(_capital, found.warnings)))
    if results.tested is None:
        return None
    return on_test_nodes(results.tested, results.data.class_names)


def _reproduce(results: FitResults) -> Reproduce:
    data = results.data
    facts = (
        ("seed", str(results.seed)),
        ("device", results.device),
        ("data digest", f"SHA-256 {results.digest}"),
        ("nodes", f"{data.n_nodes:,}"),
        ("features", f"{data.n_features:,}"),
        ("given graph", "none" if data.graph is None else f"{data.n_edges:,} edges"),
        *data.provenance.items(),
        *((f"seconds: {name}", f"{value:.1f}") for name, value in results.seconds.items()),
        *versions().items(),
    )
    own = {name: part for name, part in results.settings.items() if name != "chosen"}
    settings = flat_settings(own)
    usual = dict(flat_settings(_preset_settings(own, data.graph is not None)))
    changed = tuple(
        (name, value, usual.get(name, "-")) for name, value in settings if usual.get(name) != value
    )
    return Reproduce(results.command, facts, changed, tuple(settings))


def _preset_settings(settings: Mapping[str, Any], has_graph: bool) -> dict[str, Any]:
    """Return the settings of the preset that a run began with."""
    preset = resolve_settings(str(settings.get("preset", "default")))
    page = dataclasses.asdict(preset)
    page["graph"] = dataclasses.asdict(preset.graph_settings(has_graph))
    del page["no_graph"]
    return page


def flat_settings(settings: Mapping[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    """Return nested settings as pairs of a dotted name and a value.

    Examples
    --------
    >>> flat_settings({"head": {"n_epochs": 5}, "n_rounds": 2})
    [('head.n_epochs', '5'), ('n_rounds', '2')]
    """
    pairs: list[tuple[str, str]] = []
    for name, value in settings.items():
        if isinstance(value, Mapping):
            pairs += flat_settings(value, f"{prefix}{name}.")
        else:
            pairs.append((f"{prefix}{name}", "the preset's rule" if value is None else str(value)))
    return pairs
