"""One self-contained HTML page about a run: nothing is loaded from elsewhere."""

import base64
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

from jinja2 import Environment, FunctionLoader, StrictUndefined

from glnn.report.results import FitResults
from glnn.report.versions import versions
from glnn.report.words import certificate_sentences, fact_rows, label_sentence, percent


def html_report(results: FitResults, pictures: Mapping[str, bytes]) -> str:
    """Return the page of a run.

    Parameters
    ----------
    results
        The run.
    pictures
        PNG files by caption, in the order to show them; may be empty.
    """
    coded = {name: base64.b64encode(image).decode("ascii") for name, image in pictures.items()}
    return (
        environment()
        .get_template("report.html")
        .render(
            results=results,
            labels=label_sentence(results),
            tiles=_tiles(results),
            facts=fact_rows(results.facts, None)[:-1],  # the certificate has its own section
            certificate=certificate_sentences(results.certificate),
            pictures=coded,
            settings=flat_settings(results.settings),
            origin=_origin(results),
        )
    )


def environment() -> Environment:
    """Return jinja2 with our templates; what a user or a file may have put in is escaped."""

    def load(name: str) -> str:
        return (files("glnn.report") / "templates" / name).read_text(encoding="utf-8")

    pages = Environment(
        loader=FunctionLoader(load),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    pages.filters["percent"] = percent
    return pages


def flat_settings(settings: Mapping[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    """Return nested settings as pairs of a dotted name and a value.

    Examples
    --------
    >>> flat_settings({"head": {"n_epochs": 5}, "n_rounds": 2})
    [('head.n_epochs', '5'), ('n_rounds', '2')]
    """
    rows: list[tuple[str, str]] = []
    for name, value in settings.items():
        if isinstance(value, Mapping):
            rows += flat_settings(value, f"{prefix}{name}.")
        else:
            rows.append((f"{prefix}{name}", "the preset's rule" if value is None else str(value)))
    return rows


def _tiles(results: FitResults) -> list[tuple[str, str]]:
    tested = results.accuracy("test")
    first = (
        (percent(tested), "test accuracy")
        if tested is not None
        else (f"{results.data.n_classes:,}", "classes")
    )
    return [
        first,
        (f"{results.facts.n_edges:,}", "edges"),
        (percent(results.facts.equal_labels), "edges between equal labels"),
        (f"{results.seconds.get('fit', 0.0):.1f} s", "to fit"),
    ]


def _origin(results: FitResults) -> list[tuple[str, str]]:
    data = results.data
    return [
        ("nodes", f"{data.n_nodes:,}"),
        ("features", f"{data.n_features:,}"),
        ("classes", ", ".join(data.class_names)),
        ("given graph", "none" if data.graph is None else f"{data.n_edges:,} edges"),
        *data.provenance.items(),
        *((f"note {number}", note) for number, note in enumerate(results.notes, start=1)),
        ("seed", str(results.seed)),
        ("device", results.device),
        *versions().items(),
    ]
