"""From the page's data to one HTML file that needs nothing else."""

from typing import Any

import jinja2
import numpy as np
from markupsafe import Markup

from glnn.report.page.charts import bokeh_script, chart_text, has_bokeh
from glnn.report.page.data import PageData
from glnn.report.page.frames import Frame, error_frames, learning_frames, search_frames
from glnn.report.page.numbers import lead, measure, plain_measure
from glnn.report.page.pack import packed
from glnn.report.page.rounds import MatrixPictures, matrix_pictures
from glnn.report.page.scripts import inline_json, inline_script, own_script, own_style, policy
from glnn.report.page.sections import error_section, map_section, verdict_section
from glnn.report.page.shown import page_arrays, shown_part
from glnn.report.words import percent

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
