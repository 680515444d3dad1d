"""The report page as one HTML file that works offline.

``build_page`` collects the page's data from a run, ``build_model_page`` from a fitted classifier,
and ``render`` fills the templates.
"""

import base64
import dataclasses
import hashlib
import json
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import jinja2
import numpy as np
from jaxtyping import Float, Int
from markupsafe import Markup

from glnn.data.files import atomic_write
from glnn.engine.settings import resolve_settings
from glnn.estimator import GLNNClassifier
from glnn.graph.convert import as_adjacency
from glnn.quality.metrics import ScoredPredictions
from glnn.report.explained import link_terms, metric_columns
from glnn.report.page.charts import (
    Frame,
    bokeh_script,
    chart_json,
    error_frames,
    has_bokeh,
    learning_frames,
    search_frames,
)
from glnn.report.page.page_data import Graphs, Nodes, PageData, PageEvaluation, RunRecipe
from glnn.report.page.sections import (
    MatrixPictures,
    build_learning,
    error_section,
    evaluation_from_folds,
    evaluation_from_hidden,
    evaluation_from_test,
    format_lead,
    format_number,
    format_share,
    map_section,
    matrix_pictures,
    verdict_section,
)
from glnn.report.page.subset import build_arrays, encode_block, select_subset
from glnn.report.results import FitResults, describe_settings, merge_held_out
from glnn.report.text import (
    describe_equal_labels,
    evaluation_advice,
    format_percent,
    label_sentence,
    package_versions,
    rival_notes,
    suspect_lines,
    uncalibrated_lines,
    verdict_line,
    warning_lines,
)

# Scripts, style and content security policy

PARTS = (
    "bytes", "model", "state", "colours", "grid", "view", "edges", "nodes", "scene", "pane",
    "pointer", "map", "panel", "search", "controls", "confusion", "table", "csv", "matrix",
    "charts", "main",
)  # fmt: skip


def read_script() -> str:
    """Return all parts of the page's script, in one function so that no name becomes global."""
    folder = files("glnn.report.page") / "templates" / "js"
    parts = [(folder / f"{name}.js").read_text(encoding="utf-8") for name in PARTS]
    return '"use strict";\n(() => {\n' + "\n".join(parts) + "})();\n"


def read_style() -> str:
    """Return the page's style sheet."""
    path = files("glnn.report.page") / "templates" / "page.css"
    return path.read_text(encoding="utf-8")


def content_policy(scripts: Sequence[str]) -> str:
    """Return the content security policy: no requests, and only these scripts.

    Inline styles are allowed because Bokeh positions its elements with them.

    Examples
    --------
    >>> content_policy(["let a"])[:66]
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-"
    """
    digests = (hashlib.sha256(script.encode()).digest() for script in scripts)
    hashes = " ".join(f"'sha256-{base64.b64encode(d).decode('ascii')}'" for d in digests)
    rules = (
        "default-src 'none'",
        "style-src 'unsafe-inline'",
        f"script-src {hashes}",
        "base-uri 'none'",
        "form-action 'none'",
    )
    return "; ".join(rules)


def inline_script(text: str) -> str:
    """Return a script that can be embedded in HTML unchanged, or raise an error.

    Examples
    --------
    >>> inline_script("a = 1;")
    'a = 1;'
    """
    plain = text.replace("\r\n", "\n")
    for ending in ("</script", "<!--"):
        if ending in plain.lower():
            raise ValueError(f"a script on the page must not contain {ending!r}.")
    return plain


def inline_json(value: Any) -> str:
    r"""Return JSON with ``<``, ``>`` and ``&`` escaped, safe inside HTML.

    Examples
    --------
    >>> print(inline_json({"name": "</script>"}))
    {"name":"\u003c/script\u003e"}
    """
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text


# Rendering

SECTIONS = (
    ("verdict", "Verdict"),
    ("errors", "Where it is wrong"),
    ("map", "Map"),
    ("nodes", "Nodes"),
    ("learning", "How the graph was learned"),
    ("reproduce", "Reproduce"),
)


def render(page: PageData) -> str:
    """Return the page as HTML that loads nothing and runs only its own scripts."""
    template = _environment().get_template("page.html")
    frames = {
        "errors": error_frames(page),
        "learning": learning_frames(page),
        "search": search_frames(page),
    }
    return template.render(
        page=page,
        evaluation=page.evaluation,
        learning=page.learning,
        reproduce=page.reproduce,
        sections=SECTIONS,
        style=Markup(read_style()),
        chart_frames=frames,
        **_scripts([frame for part in frames.values() for frame in part]),
        **_data(page),
        **verdict_section(page),
        **error_section(page),
    )


def _scripts(frames: list[Frame]) -> dict[str, Any]:
    """Return the charts' data, the scripts and their content security policy."""
    drawn = frames if has_bokeh() else []
    scripts = [inline_script(bokeh_script())] if drawn else []
    scripts.append(inline_script(read_script()))
    return {
        "has_charts": bool(drawn),
        "charts": Markup(inline_json([chart_json(f.draw(), f.target) for f in drawn])),
        "scripts": [Markup(script) for script in scripts],
        "policy": content_policy(scripts),
    }


def _data(page: PageData) -> dict[str, Any]:
    """Return the block of data for the script, and the words about it for the templates."""
    shown = select_subset(page)
    words, arrays = build_arrays(page, shown)
    pictures, order = _pictures(page)
    n_cells = pictures.values.shape[1]
    words |= {"matrixNames": list(pictures.names), "matrixSide": n_cells}
    return {
        "data": encode_block(words, arrays | {"matrices": pictures.values}),
        "matrix_names": pictures.names,
        "matrix_side": n_cells,
        "matrix_starts": pictures.starts.tolist()[1:],
        "matrix_order": order,
        **map_section(page, shown),
    }


def _pictures(page: PageData) -> tuple[MatrixPictures, str]:
    """Return pictures of all rounds; nodes are sorted by label if all labels are known."""
    nodes, rounds = page.nodes, page.learning.rounds
    known = bool((nodes.truth >= 0).all())
    graphs = [] if page.graphs.given is None else [("given graph", page.graphs.given)]
    graphs += [(f"after {r.name}", r.graph) for r in rounds if r.graph is not None]
    if not any(r.graph is not None for r in rounds):
        graphs.append(("learned graph", page.graphs.learned))
    order = nodes.truth if known else nodes.predicted
    return matrix_pictures(graphs, np.asarray(order)), "known labels" if known else "predictions"


def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("glnn.report.page"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    filters: dict[str, Any] = {
        "format_share": format_share,
        "format_lead": format_lead,
        "format_number": format_number,
        "format_percent": format_percent,
    }
    environment.filters.update(filters)
    return environment


# The page of a run


def build_page(results: FitResults, places: Float[np.ndarray, "n 2"] | None = None) -> PageData:
    """Return the data of a run's page; ``places`` are the positions on the map, if known."""
    data = results.data
    return PageData(
        title=data.name,
        subtitle=label_sentence(results),
        class_names=tuple(data.class_names),
        nodes=_run_nodes(results, places),
        graphs=Graphs(
            results.adjacency,
            data.graph,
            results.terms,
            results.trust,
            "" if results.facts.equal_labels is None else describe_equal_labels(results.facts),
        ),
        evaluation=_run_evaluation(results),
        learning=build_learning(
            results.history,
            results.certificate,
            results.settings.get("chosen", {}),
            results.rounds,
            results.metric,
        ),
        reproduce=_run_recipe(results),
        notes=results.notes,
        search=results.search,
        unjudged=verdict_line(results),
        advice=evaluation_advice(results),
        warnings=tuple(map(_capitalize, [*warning_lines(results), *suspect_lines(results)[:1]])),
    )


def _capitalize(line: str) -> str:
    """Return a line with its first letter in upper case."""
    return line[:1].upper() + line[1:]


def _run_nodes(results: FitResults, places: Float[np.ndarray, "n 2"] | None) -> Nodes:
    """Return the nodes, with the predictions and probabilities of ``predictions.csv``.

    Test nodes are scored by the fit itself, labelled nodes by the folds that hid their label.
    """
    data, split = results.data, results.split
    shown, _ = merge_held_out(results)
    probabilities = np.zeros((data.n_nodes, data.n_classes))
    probabilities[:, results.classes] = shown
    seen = np.zeros(data.n_nodes, dtype=bool)
    seen[np.concatenate([split.train, split.val])] = True
    judged = np.full(data.n_nodes, -1, dtype=np.int64)
    judged[split.test] = results.predictions[split.test]
    if results.estimate is not None:
        nodes = results.estimate.held_out.hidden_nodes
        judged[nodes] = results.classes[results.estimate.own.predictions.predicted]
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


def _run_evaluation(results: FitResults) -> PageEvaluation | None:
    """Return the evaluation by folds, else the one on test nodes, else ``None``."""
    if results.estimate is not None:
        found = evaluation_from_folds(results.estimate, results.data.class_names)
    elif results.holdout is not None:
        names, notes = results.data.class_names, rival_notes(results)
        found = evaluation_from_test(results.holdout, names, notes)
    else:
        return None
    return dataclasses.replace(found, warnings=tuple(map(_capitalize, found.warnings)))


def _run_recipe(results: FitResults) -> RunRecipe:
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
        *package_versions().items(),
    )
    own = {name: part for name, part in results.settings.items() if name != "chosen"}
    settings = flatten_settings(own)
    preset = resolve_settings(str(own.get("preset", "default")))
    usual = dict(flatten_settings(describe_settings(preset, data)))
    changed = tuple(
        (name, value, usual.get(name, "-")) for name, value in settings if usual.get(name) != value
    )
    return RunRecipe(results.command, facts, changed, tuple(settings))


def flatten_settings(settings: Mapping[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    """Return nested settings as pairs of a dotted name and a value.

    Examples
    --------
    >>> flatten_settings({"head": {"n_epochs": 5}, "tracks": ["learned", "far"]})
    [('head.n_epochs', '5'), ('tracks', 'learned, far')]
    """
    pairs: list[tuple[str, str]] = []
    for name, value in settings.items():
        if isinstance(value, Mapping):
            pairs += flatten_settings(value, f"{prefix}{name}.")
        elif isinstance(value, list):
            pairs.append((f"{prefix}{name}", ", ".join(map(str, value))))
        else:
            pairs.append((f"{prefix}{name}", "the preset's rule" if value is None else str(value)))
    return pairs


# The page of a fitted classifier, which has no run folder


def write_report(model: GLNNClassifier, path: Path, fitted_to: tuple[Any, ...] | None) -> Path:
    """Write the page of a fitted classifier and return its path.

    ``fitted_to`` are the arguments of its fit: features, labels, graph and validation nodes. It is
    ``None`` for a loaded model; its prior graph is then shown as the given one.
    """
    html = render(build_model_page(model, fitted_to))
    with atomic_write(path) as file:
        file.write(html)
    return path


def build_model_page(model: GLNNClassifier, fitted_to: tuple[Any, ...] | None) -> PageData:
    """Return the data of a classifier's page; arguments as in :func:`write_report`."""
    graph = None if fitted_to is None else fitted_to[2]
    known = model.fitted_nodes()
    n_nodes = known.n_nodes
    given = model.prior_graph_ if graph is None else as_adjacency(graph, n_nodes)
    nodes = _model_nodes(model, known.labels)
    n_labels = int(nodes.seen.sum())
    return PageData(
        title="GLNNClassifier",
        subtitle=f"{n_nodes:,} nodes, {n_labels:,} of them with a label",
        class_names=tuple(str(label) for label in model.classes_),
        nodes=nodes,
        graphs=Graphs(model.graph_, given, link_terms(known), model.edge_trust_),
        evaluation=_model_evaluation(model),
        learning=build_learning(
            model.history_, model.certificate_, model.choices_, metric=metric_columns(known)
        ),
        reproduce=_model_recipe(model),
        advice="Fit with calibrate='auto', or run glnn.evaluate on the same data.",
        warnings=tuple(
            line[:1].upper() + line[1:] for line in uncalibrated_lines(model.calibration_)
        ),
    )


def _model_nodes(model: GLNNClassifier, truth: Int[np.ndarray, "n"]) -> Nodes:
    n_nodes, held_out = len(truth), model.held_out_
    judged = np.full(n_nodes, -1, dtype=np.int64)
    if held_out is not None:
        judged[held_out.hidden_nodes] = held_out.calibrated()[held_out.hidden_nodes].argmax(1)
    names = np.arange(n_nodes) if model.row_names_ is None else model.row_names_
    return Nodes(
        [str(name) for name in names],
        model.label_distributions_.argmax(1),
        np.asarray(model.label_distributions_),
        truth,
        truth >= 0,
        judged,
        np.zeros(n_nodes, dtype=bool),
    )


def _model_evaluation(model: GLNNClassifier) -> PageEvaluation | None:
    """Return the evaluation on hidden labels, if there were any."""
    held_out = model.held_out_
    if held_out is None or not held_out.hidden_nodes.size:
        return None
    nodes = held_out.hidden_nodes
    judged = ScoredPredictions(held_out.classes[nodes], held_out.calibrated()[nodes])
    return evaluation_from_hidden(judged, [str(label) for label in model.classes_])


def _model_recipe(model: GLNNClassifier) -> RunRecipe:
    changed = tuple(
        (name, repr(value), "the default")
        for name, value in model.get_params(deep=False).items()
        if value != type(model)().get_params(deep=False)[name]
    )
    return RunRecipe(f"{model!r}.fit(X, y)", tuple(package_versions().items()), changed)
