"""One self-contained HTML page about a run: nothing is loaded from elsewhere."""

import base64
import html
from collections.abc import Iterable, Mapping
from importlib.resources import files
from string import Template
from typing import Any

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
    folder = files("glnn.report") / "templates"
    page = Template((folder / "report.html").read_text(encoding="utf-8"))
    certificate = "".join(f"<p>{_text(s)}</p>" for s in certificate_sentences(results.certificate))
    facts = fact_rows(results.facts, None)[:-1]  # the certificate has its own section
    return page.substitute(
        style=(folder / "report.css").read_text(encoding="utf-8"),
        title=_text(f"glnn: {results.data.name}"),
        name=_text(results.data.name),
        labels=_text(label_sentence(results)),
        tiles=_tiles(results),
        scores=_scores(results),
        facts=_rows(facts),
        certificate=certificate,
        pictures=_pictures(pictures),
        settings=_rows(flat_settings(results.settings)),
        origin=_rows(_origin(results)),
    )


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


def _tiles(results: FitResults) -> str:
    tested = results.accuracy("test")
    tiles = [
        (percent(tested) if tested is not None else f"{results.data.n_classes}", "test accuracy"),
        (f"{results.facts.n_edges:,}", "edges"),
        (percent(results.facts.equal_labels), "edges between equal labels"),
        (f"{results.seconds.get('fit', 0.0):.1f} s", "to fit"),
    ]
    if tested is None:
        tiles[0] = (f"{results.data.n_classes:,}", "classes")
    return "".join(
        f'<div class="tile"><b>{_text(value)}</b><span>{_text(name)}</span></div>'
        for value, name in tiles
    )


def _scores(results: FitResults) -> str:
    """Return one row a method, with a bar as long as its accuracy."""
    if results.accuracy("test") is None:
        return "<p>Every known label trained, so there is none to measure accuracy on.</p>"
    rows = []
    for place, score in enumerate(results.scores):
        width = 0.0 if score.accuracy is None else 100 * score.accuracy
        kind = "own" if place == 0 else "other"
        rows.append(
            f"<tr><th>{_text(score.method)}</th>"
            f'<td class="number">{_text(score.note or percent(score.accuracy))}</td>'
            f'<td class="bar"><i class="{kind}" style="width:{width:.2f}%"></i></td>'
            f'<td class="number">{score.seconds:.1f} s</td></tr>'
        )
    return f"<table>{''.join(rows)}</table>"


def _pictures(pictures: Mapping[str, bytes]) -> str:
    if not pictures:
        return "<p>No pictures: they need matplotlib (pip install 'glnn[report]').</p>"
    return "".join(
        f'<figure><img alt="{_text(caption)}" src="data:image/png;base64,'
        f'{base64.b64encode(image).decode("ascii")}"><figcaption>{_text(caption)}</figcaption>'
        "</figure>"
        for caption, image in pictures.items()
    )


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


def _rows(pairs: Iterable[tuple[str, str]]) -> str:
    lines = (f"<tr><th>{_text(name)}</th><td>{_text(value)}</td></tr>" for name, value in pairs)
    return f"<table>{''.join(lines)}</table>"


def _text(value: object) -> str:
    """Escape what a user or a file may have put in."""
    return html.escape(str(value), quote=True)
