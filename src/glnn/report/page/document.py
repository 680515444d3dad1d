"""From the page's data to one HTML file that needs nothing else."""

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
from glnn.quality.metrics import Judged
from glnn.report.explained import link_terms, metric_columns
from glnn.report.page.charts import (
    Frame,
    bokeh_script,
    chart_text,
    error_frames,
    has_bokeh,
    learning_frames,
    search_frames,
)
from glnn.report.page.page_data import Evaluation, Graphs, Nodes, PageData, Reproduce
from glnn.report.page.sections import (
    MatrixPictures,
    error_section,
    estimated,
    lead,
    learning_of,
    map_section,
    matrix_pictures,
    measure,
    on_hidden_labels,
    on_test_nodes,
    plain_measure,
    verdict_section,
)
from glnn.report.page.subset import packed, page_arrays, shown_part
from glnn.report.results import FitResults, shown_probabilities
from glnn.report.text import (
    equal_label_words,
    label_sentence,
    percent,
    raw_lines,
    suspect_lines,
    unjudged_advice,
    verdict_line,
    versions,
    warning_lines,
)

# --- scripts: The page's scripts and style, and the policy that admits these scripts and no other

PARTS = (
    "bytes", "model", "state", "colours", "grid", "view", "edges", "nodes", "scene", "pane",
    "pointer", "map", "panel", "search", "controls", "confusion", "table", "csv", "matrix",
    "charts", "main",
)  # fmt: skip


def own_script() -> str:
    """Return the page's own parts as one script whose names stay its own."""
    folder = files("glnn.report.page") / "templates" / "js"
    parts = [(folder / f"{name}.js").read_text(encoding="utf-8") for name in PARTS]
    return '"use strict";\n(() => {\n' + "\n".join(parts) + "})();\n"


def own_style() -> str:
    """Return the page's style sheet."""
    path = files("glnn.report.page") / "templates" / "page.css"
    return path.read_text(encoding="utf-8")


def policy(scripts: Sequence[str]) -> str:
    """Return the content policy: no request to anywhere, and only these scripts.

    Styles may be inline because Bokeh sets the places of its parts that way.

    Examples
    --------
    >>> policy(["let a"])[:66]
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
    """Return a script that may stand between its tags as it is.

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
    r"""Return JSON that no HTML parser reads as a tag.

    Examples
    --------
    >>> print(inline_json({"name": "</script>"}))
    {"name":"\u003c/script\u003e"}
    """
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text


# --- document: From the page's data to one HTML file that needs nothing else

SECTIONS = (
    ("verdict", "Verdict"),
    ("errors", "Where it is wrong"),
    ("map", "Map"),
    ("nodes", "Nodes"),
    ("learning", "How the graph was learned"),
    ("reproduce", "Reproduce"),
)


def render(page: PageData) -> str:
    """Return the page as HTML: offline, with a policy that admits its own scripts only.

    Parameters
    ----------
    page
        What to show.
    """
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
        style=Markup(own_style()),
        chart_frames=frames,
        **_scripts([frame for part in frames.values() for frame in part]),
        **_data(page),
        **verdict_section(page),
        **error_section(page),
    )


def _scripts(frames: list[Frame]) -> dict[str, Any]:
    """Return the charts' data, the scripts and the policy that admits them."""
    drawn = frames if has_bokeh() else []
    scripts = [inline_script(bokeh_script())] if drawn else []
    scripts.append(inline_script(own_script()))
    return {
        "has_charts": bool(drawn),
        "charts": Markup(inline_json([chart_text(f.draw(), f.target) for f in drawn])),
        "scripts": [Markup(script) for script in scripts],
        "policy": policy(scripts),
    }


def _data(page: PageData) -> dict[str, Any]:
    """Return the block of data that the script unpacks, and what the templates say of it."""
    shown = shown_part(page)
    words, arrays = page_arrays(page, shown)
    pictures, order = _pictures(page)
    n_cells = pictures.values.shape[1]
    words |= {"matrixNames": list(pictures.names), "matrixSide": n_cells}
    return {
        "data": packed(words, arrays | {"matrices": pictures.values}),
        "matrix_names": pictures.names,
        "matrix_side": n_cells,
        "matrix_starts": pictures.starts.tolist()[1:],
        "matrix_order": order,
        **map_section(page, shown),
    }


def _pictures(page: PageData) -> tuple[MatrixPictures, str]:
    """Return the matrices of all rounds, nodes sorted by known label where all are known."""
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
        "measure": measure, "lead": lead, "plain_measure": plain_measure, "percent": percent,
    }  # fmt: skip
    environment.filters.update(filters)
    return environment


# --- run_page: The page of a run: from its results to what the page shows


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


# --- model_page: The page of a fitted classifier in Python, where there is no run folder


def write_report(model: GLNNClassifier, path: Path, fitted_to: tuple[Any, ...] | None) -> Path:
    """Write the page of a fitted classifier; return where it lies.

    Parameters
    ----------
    model
        Fitted.
    path
        The HTML file.
    fitted_to
        The arguments of its fit (features, labels, graph, validation nodes), ``None`` for a model
        that was loaded: nodes have numbers then, and the prior graph stands for the given one.
    """
    html = render(page_of_model(model, fitted_to))
    with atomic_write(path) as file:
        file.write(html)
    return path


def page_of_model(model: GLNNClassifier, fitted_to: tuple[Any, ...] | None) -> PageData:
    """Return what the page of a classifier shows; arguments as in :func:`write_report`."""
    features, _, graph, _ = fitted_to or (None, None, None, None)
    known = model.fitted_nodes()
    n_nodes = known.n_nodes
    given = model.prior_graph_ if graph is None else as_adjacency(graph, n_nodes)
    nodes = _model_page_nodes(model, features, known.labels)
    n_labels = int(nodes.seen.sum())
    return PageData(
        title="GLNNClassifier",
        subtitle=f"{n_nodes:,} nodes, {n_labels:,} of them with a label",
        class_names=tuple(str(label) for label in model.classes_),
        nodes=nodes,
        graphs=Graphs(model.graph_, given, link_terms(known), model.edge_trust_),
        evaluation=_evaluation(model),
        learning=learning_of(
            model.history_, model.certificate_, model.choices_, metric=metric_columns(known)
        ),
        reproduce=_model_page_reproduce(model),
        advice="Fit with calibrate='auto' or 'folds', or judge the same data with glnn.evaluate.",
        warnings=tuple(line[:1].upper() + line[1:] for line in raw_lines(model.calibration_)),
    )


def _model_page_nodes(model: GLNNClassifier, features: Any, truth: Int[np.ndarray, "n"]) -> Nodes:
    n_nodes, held_out = len(truth), model.held_out_
    judged = np.full(n_nodes, -1, dtype=np.int64)
    if held_out is not None:
        judged[held_out.judged] = held_out.calibrated()[held_out.judged].argmax(1)
    names = getattr(features, "index", np.arange(n_nodes))
    return Nodes(
        [str(name) for name in names],
        model.label_distributions_.argmax(1),
        np.asarray(model.label_distributions_),
        truth,
        truth >= 0,
        judged,
        np.zeros(n_nodes, dtype=bool),
    )


def _evaluation(model: GLNNClassifier) -> Evaluation | None:
    """Return what fits without them said of hidden labels, if there were any."""
    held_out = model.held_out_
    if held_out is None or not held_out.judged.size:
        return None
    nodes = held_out.judged
    judged = Judged(held_out.classes[nodes], held_out.calibrated()[nodes])
    return on_hidden_labels(judged, [str(label) for label in model.classes_])


def _model_page_reproduce(model: GLNNClassifier) -> Reproduce:
    changed = tuple(
        (name, repr(value), "the default")
        for name, value in model.get_params(deep=False).items()
        if value != type(model)().get_params(deep=False)[name]
    )
    return Reproduce(f"{model!r}.fit(X, y)", tuple(versions().items()), changed)
