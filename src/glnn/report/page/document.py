"""The report page as one HTML file that works offline, made from the results of a fit."""

import base64
import hashlib
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any

import jinja2
import numpy as np
from jaxtyping import Float
from jinja2.utils import htmlsafe_json_dumps
from markupsafe import Markup, escape

from glnn.data.files import safe_file_name, write_file
from glnn.estimator import GLNNClassifier
from glnn.quality.estimate import INTERVAL_NOTE
from glnn.report.page.charts import (
    bokeh_script,
    chart_json,
    column_frames,
    error_frames,
    has_bokeh,
    learning_frames,
    search_frames,
)
from glnn.report.page.sections import (
    card_markdown,
    error_section,
    find_slices,
    interval_scale,
    learning_section,
    model_card,
    verdict_section,
)
from glnn.report.page.subset import build_arrays, encode_block, select_subset
from glnn.report.results import Results, collect_model_results
from glnn.report.text import (
    describe_equal_labels,
    evaluation_advice,
    format_count,
    format_lead,
    format_number,
    format_percent,
    format_share,
    label_sentence,
)

# Scripts, style and content security policy

_SCRIPTS = files("glnn.report.page") / "templates" / "js"


def read_parts(without: Collection[str] = ()) -> str:
    """Return the parts of the page's script, but for some: a page of its own may replace them."""
    paths = sorted(_SCRIPTS.iterdir(), key=lambda path: path.name)
    wanted = [path for path in paths if path.name.removesuffix(".js") not in without]
    return "\n".join(path.read_text(encoding="utf-8") for path in wanted)


def read_script() -> str:
    """Return all parts of the page's script, in one function so that no name becomes global."""
    return '"use strict";\n(() => {\n' + read_parts() + "main();\n})();\n"


def read_style() -> str:
    """Return the page's style sheet."""
    path = files("glnn.report.page") / "templates" / "page.css"
    return path.read_text(encoding="utf-8")


def content_policy(scripts: Sequence[str]) -> str:
    """Return the content security policy: no requests, and only these scripts.

    Inline styles are allowed because Bokeh positions its elements with them.
    """
    return (
        "default-src 'none'; style-src 'unsafe-inline'; "
        f"script-src {hash_sources(scripts)}; base-uri 'none'; form-action 'none'"
    )


def hash_sources(texts: Sequence[str]) -> str:
    """Return the sources of a content security policy that allow these inline texts alone."""
    digests = (hashlib.sha256(text.encode()).digest() for text in texts)
    return " ".join(f"'sha256-{base64.b64encode(d).decode('ascii')}'" for d in digests)


def inline_script(text: str) -> str:
    """Return a script that can be embedded in HTML unchanged, or raise an error."""
    plain = text.replace("\r\n", "\n")
    for ending in ("</script", "<!--"):
        if ending in plain.lower():
            raise ValueError(f"a script on the page must not contain {ending!r}.")
    return plain


def allow_breaks(name: str) -> Markup:
    """Return a name as HTML that may be broken after an underscore, a dot or a slash."""
    return Markup(re.sub(r"([_./])", r"\1<wbr>", str(escape(name))))


# Rendering

SECTIONS = (
    ("verdict", "Verdict"),
    ("columns", "Columns"),
    ("map", "Map"),
    ("errors", "Where it is wrong"),
    ("nodes", "Rows"),
    ("card", "Model card"),
    ("learning", "How the graph was learned"),
    ("reproduce", "Reproduce"),
)
_FORMATS = (format_share, format_lead, format_number, format_percent, format_count)
_FILTERS = (*_FORMATS, describe_equal_labels, allow_breaks)


def render(results: Results, places: Float[np.ndarray, "n 2"] | None = None) -> str:
    """Return the page as HTML that loads nothing and runs only its own scripts.

    ``places`` are the positions of the nodes on the map; they are computed if not given.
    """
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("glnn.report.page"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update({each.__name__: each for each in _FILTERS})
    frames = {
        "columns": column_frames(results),
        "errors": error_frames(results),
        "learning": learning_frames(results),
        "search": search_frames(results),
    }
    drawn = [frame for part in frames.values() for frame in part] if has_bokeh() else []
    scripts = [inline_script(bokeh_script())] if drawn else []
    scripts.append(inline_script(read_script()))
    shown = select_subset(results, places)
    words, arrays = build_arrays(results, shown)
    learning = learning_section(results)
    matrices = learning.pop("matrices")
    slices = find_slices(results)
    card = model_card(results, slices)
    words |= {
        "card": card_markdown(results, card),
        "name": safe_file_name(results.name),
        "matrixNames": learning["matrix_names"],
        "matrixSide": matrices.shape[1],
    }
    return environment.get_template("page.html").render(
        results=results,
        subtitle=label_sentence(results),
        sections=[one for one in SECTIONS if one[0] != "columns" or slices or results.metric],
        slices=slices,
        slice_scale=interval_scale([one.accuracy for one in slices]),
        place_of={node: k for k, node in enumerate(shown.chosen.tolist())},
        card=card,
        shown=shown,
        advice=evaluation_advice(results),
        interval_note=INTERVAL_NOTE,
        style=Markup(read_style()),
        chart_frames=frames,
        has_charts=bool(drawn),
        charts=htmlsafe_json_dumps(
            [chart_json(frame.draw(), frame.target) for frame in drawn],
            separators=(",", ":"),
            allow_nan=False,
        ),
        scripts=[Markup(script) for script in scripts],
        policy=content_policy(scripts),
        data=encode_block(words, arrays | {"matrices": matrices}),
        matrix_side=matrices.shape[1],
        **learning,
        **verdict_section(results),
        **error_section(results),
        **reproduce_section(results),
    )


def reproduce_section(results: Results) -> dict[str, Any]:
    """Return facts on the run, its settings, and those that differ from the preset."""
    settings = list(flatten_settings(results.settings))
    usual = dict(flatten_settings(results.preset))
    changed = [
        (name, value, usual.get(name, "-")) for name, value in settings if usual.get(name) != value
    ]
    facts = {k: v for k, v in results.facts.items() if v not in results.notes}
    seconds = {f"seconds: {name}": f"{value:.1f}" for name, value in results.seconds.items()}
    return {"facts": {**facts, **seconds}, "settings": settings, "changed": changed}


def flatten_settings(settings: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield nested settings as pairs of a dotted name and a value."""
    for name, value in settings.items():
        if isinstance(value, Mapping):
            yield from flatten_settings(value, f"{prefix}{name}.")
        else:
            parts = value if isinstance(value, list | tuple) else [value]
            yield f"{prefix}{name}", "by default" if value is None else ", ".join(map(str, parts))


# The page of a fitted classifier, which has no run folder


@dataclass(frozen=True)
class ReportPage:
    """The page of a fit; a notebook shows it inline."""

    html: str = field(repr=False)

    def _repr_html_(self) -> str:
        rights = "allow-scripts allow-downloads"
        return (
            f'<iframe srcdoc="{escape(self.html)}" sandbox="{rights}" title="glnn report" '
            'style="width: 100%; height: 900px; border: 0"></iframe>'
        )


def make_report(model: GLNNClassifier, path: Path | None) -> ReportPage:
    """Return the page of a fitted classifier, and write it if there is a path."""
    page = ReportPage(render(collect_model_results(model)))
    if path is not None:
        write_file(path, page.html)
    return page
