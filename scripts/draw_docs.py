"""Draw the diagrams of ``docs``: boxes, arrows and short labels, one SVG each.

python scripts/draw_docs.py            # into docs/pictures
"""

import argparse
import contextlib
import io
import json
import math
import tempfile
import textwrap
from collections.abc import Callable, Sequence
from html import escape
from pathlib import Path

INK, SOFT, LINE, PAPER = "#1c2230", "#5a6376", "#8a909c", "#ffffff"
BLUE, ORANGE, GREEN, GREY = "#dbe7f5", "#fbe3d3", "#d8efe8", "#eceef2"
RESULTS = Path(__file__).resolve().parents[1] / "docs" / "results"
FOLDER = RESULTS.with_name("pictures")


class Sketch:
    """A drawing; coordinates are pixels from the upper left corner, the title is for readers."""

    def __init__(self, width: int, height: int, title: str) -> None:
        self._size, self._title = (width, height), title
        self._parts: list[str] = []

    def box(
        self, x: float, y: float, w: float, h: float, *lines: str, fill: str = BLUE, soft: int = 1
    ) -> None:
        """Draw a box with centred lines; lines after the first ``soft`` are paler."""
        self._parts.append(
            f'<rect x="{x}" y="{y}" width="{w}" height="{h}" rx="8" fill="{fill}" stroke="{LINE}"/>'
        )
        first = y + h / 2 - 10 * (len(lines) - 1) + 5
        for k, line in enumerate(lines):
            self.text(x + w / 2, first + 20 * k, line, is_soft=k >= soft)

    def text(
        self, x: float, y: float, words: str, *, is_soft: bool = False, anchor: str = "middle"
    ) -> None:
        """Write a line."""
        size, colour = (13, SOFT) if is_soft else (15, INK)
        self._parts.append(
            f'<text x="{x}" y="{y}" font-size="{size}" fill="{colour}" '
            f'text-anchor="{anchor}">{escape(words)}</text>'
        )

    def arrow(self, *points: tuple[float, float], words: str = "", dashed: bool = False) -> None:
        """Draw a line through points with a head at its end, and words above its middle."""
        path = " ".join(f"{'L' if k else 'M'}{x} {y}" for k, (x, y) in enumerate(points))
        dash = ' stroke-dasharray="5 4"' if dashed else ""
        self._parts.append(
            f'<path d="{path}" fill="none" stroke="{SOFT}" stroke-width="1.6"{dash} '
            'marker-end="url(#head)"/>'
        )
        if words:
            middle = len(points) // 2
            (x1, y1), (x2, y2) = points[middle - 1], points[middle]
            self.text((x1 + x2) / 2, (y1 + y2) / 2 - 7, words, is_soft=True)

    def chain(self, w: int, h: int, steps: Sequence[tuple[str, tuple[str, ...]]]) -> None:
        """Draw boxes (fill, lines) from left to right, each with an arrow to the next."""
        for k, (fill, lines) in enumerate(steps):
            self.box(15 + 170 * k, 40, w, h, *lines, fill=fill)
            if k:
                middle = 40 + h // 2
                self.arrow((15 + w + 170 * (k - 1), middle), (10 + 170 * k, middle))

    def svg(self) -> str:
        """Return the whole picture."""
        width, height = self._size
        head = (
            '<marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" '
            f'markerHeight="8" orient="auto"><path d="M0 0L8 4L0 8z" fill="{SOFT}"/></marker>'
        )
        lines = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
            f'width="{width}" height="{height}" role="img" '
            'font-family="system-ui, sans-serif">',
            f"<title>{escape(self._title)}</title><defs>{head}</defs>",
            f'<rect width="{width}" height="{height}" rx="10" fill="{PAPER}"/>',
            *self._parts,
            "</svg>",
        ]
        return "\n".join(lines) + "\n"


def rounds() -> Sketch:
    """Show the two alternating steps of a track and the mixture of tracks."""
    s = Sketch(860, 400, "Graph step and classifier step take turns")
    for k, words in enumerate((("features",), ("given graph", "if there is one"), ("few labels",))):
        s.box(20, 30 + 80 * k, 130, 58, *words, fill=GREY)
    s.box(220, 60, 190, 90, "graph step", "convex, solved exactly", "with a certificate")
    s.box(
        520, 60, 190, 90, "classifier step", "a small network", "on the learned graph", fill=GREEN
    )
    s.arrow((150, 59), (215, 90))
    s.arrow((150, 139), (215, 115))
    s.arrow((150, 219), (615, 219), (615, 155))
    s.arrow((410, 105), (515, 105), words="graph")
    s.arrow((615, 60), (615, 25), (315, 25), (315, 55), words="predictions join the signals")
    s.box(220, 270, 190, 90, "other tracks", "features alone, far,", "linear, hops", fill=ORANGE)
    s.box(520, 270, 190, 90, "mixture", "the weighted mean", "of all tracks", fill=ORANGE)
    s.arrow((85, 248), (85, 315), (215, 315))
    s.arrow((410, 315), (515, 315), words="weighed")
    s.arrow((680, 155), (680, 265))
    s.text(465, 375, "on validation nodes, or on labels hidden in turn", is_soft=True)
    s.box(745, 285, 100, 60, "calibrated", "probabilities", fill=GREY, soft=2)
    s.arrow((710, 315), (740, 315))
    return s


def layers() -> Sketch:
    """Show that imports point downwards only."""
    rows = (
        (GREY, "cli", "the command"),
        (GREY, "studio", "labelling on a page"),
        (GREY, "report", "run folders and the report page"),
        (GREY, "tuning", "choice of parameters"),
        (ORANGE, "evaluation pyg", "evaluation; PyTorch Geometric"),
        (ORANGE, "estimator", "scikit-learn's interface"),
        (ORANGE, "quality", "how good the predictions are"),
        (GREEN, "engine", "graph step and classifier step in turn"),
        (BLUE, "nn solver data", "networks; the exact graph step; files"),
        (BLUE, "objective", "one class for each term"),
        (BLUE, "graph", "how a graph is stored"),
        (BLUE, "distributed", "the processes of a fit"),
        (BLUE, "_utils", "checks of arguments, threads"),
        (BLUE, "exceptions", "errors and warnings"),
    )
    s = Sketch(860, 38 * len(rows) + 30, "The layers of the library; imports point downwards")
    for k, (fill, layer, words) in enumerate(rows):
        names = layer.split()
        y, width = 16 + 38 * k, (480 - 10 * (len(names) - 1)) / len(names)
        for j, name in enumerate(names):
            s.box(40 + j * (width + 10), y, width, 31, name, fill=fill)
        s.text(540, y + 20, words, is_soft=True, anchor="start")
    s.arrow((20, 20), (20, 38 * len(rows) + 8))
    return s


def sources() -> Sketch:
    """Show how files and objects become one record."""
    s = Sketch(860, 300, "Files and objects become one record, which everything works on")
    files = (
        ("CSV, TSV, Excel, Parquet", "tables"),
        ("npz, Planetoid's files", "published sets"),
        ("GraphML, GEXF, edge lists", "graphs"),
        ("DataFrame, networkx, PyG", "objects in Python"),
    )
    for k, words in enumerate(files):
        s.box(20, 20 + 68 * k, 210, 54, *words, fill=GREY)
        s.arrow((230, 47 + 68 * k), (295, 110 + 27 * k))
    s.box(
        300,
        80,
        215,
        140,
        "readers",
        "names matched, text encoded,",
        "gaps filled, sizes checked,",
        "errors of one line",
        fill=ORANGE,
    )
    s.box(560, 80, 140, 140, "NodeData", "features, labels,", "graph, ids", "checked, read-only")
    s.arrow((515, 150), (555, 150))
    for k, name in enumerate(("fit", "evaluate", "tune", "convert")):
        s.box(755, 30 + 64 * k, 90, 44, name, fill=GREEN)
        s.arrow((700, 120 + 20 * k), (750, 52 + 64 * k))
    return s


def run_folder() -> Sketch:
    """Show how a run folder is replaced."""
    s = Sketch(860, 250, "A run is written to a temporary folder that replaces the final one")
    steps = (
        (GREY, ("earlier run", "in the final folder")),
        (BLUE, ("new run next to it", ".NAME.glnn-new")),
        (BLUE, ("flushed to disk", "every file")),
        (GREEN, ("exchanged", "in one operation")),
        (GREEN, ("old run removed", "new run in its place")),
    )
    s.chain(150, 70, steps)
    s.arrow((15, 150), (520, 150))
    s.text(268, 175, "killed here: the earlier run is unchanged", is_soft=True)
    s.arrow((526, 150), (845, 150))
    s.text(685, 175, "killed here: the new run is complete", is_soft=True)
    s.text(
        430,
        220,
        "A lock prevents a second writer. The next run removes what a killed one left.",
        is_soft=True,
    )
    return s


def processes() -> Sketch:
    """Show the rows of each process."""
    s = Sketch(860, 280, "Each process has a block of rows of features, graph and activations")
    names = (("features", 110), ("graph", 150), ("activations", 80))
    fills = (BLUE, ORANGE, GREEN, GREY)
    x = 120.0
    for name, width in names:
        s.text(x + width / 2, 30, name)
        for k, fill in enumerate(fills):
            s.box(x, 45 + 50 * k, width, 44, fill=fill)
        x += width + 40
    for k in range(4):
        s.text(60, 72 + 50 * k, f"process {k}")
    s.box(
        600,
        45,
        230,
        94,
        "network, labels,",
        "one number per node:",
        "whole in every process",
        fill=GREY,
        soft=2,
    )
    s.box(600, 150, 230, 88, "exchanged", "rows that a product needs,", "sums of gradients")
    s.arrow((545, 117), (595, 180), dashed=True)
    s.arrow((545, 217), (595, 210), dashed=True)
    s.text(430, 265, "The graph is the same for any number of processes.", is_soft=True)
    return s


def folds() -> Sketch:
    """Show that every label is hidden once."""
    s = Sketch(
        860, 290, "Five folds hide each label once; the predictions on them give the estimate"
    )
    for row in range(5):
        s.text(60, 62 + 42 * row, f"fold {row + 1}", is_soft=True)
        for k in range(5):
            fill = ORANGE if k == row else BLUE
            s.box(
                100 + 62 * k, 40 + 42 * row, 56, 34, "hidden" if k == row else "", fill=fill, soft=0
            )
    s.text(255, 25, "labels")
    s.text(255, 275, "the whole fit runs without the hidden labels", is_soft=True)
    s.arrow((415, 145), (475, 145))
    s.box(480, 105, 140, 80, "predictions for", "hidden labels", fill=ORANGE, soft=2)
    uses = (
        "verdict with an interval",
        "calibrated probabilities",
        "prediction sets",
        "labels that look wrong",
    )
    for k, words in enumerate(uses):
        s.box(670, 20 + 66 * k, 180, 50, words, fill=GREEN, soft=0)
        s.arrow((620, 130 + 10 * k), (665, 45 + 66 * k))
    return s


def cells() -> Sketch:
    """Show the steps from settings to pages."""
    s = Sketch(860, 190, "Settings name cells, a cell runs once, pages are made of records")
    steps = (
        (GREY, ("settings", "one TOML a target")),
        (BLUE, ("cells", "method, data, split,", "damage, seed")),
        (ORANGE, ("records", "results.jsonl")),
        (GREEN, ("pages, figures", "TARGET.md, SVG")),
        (GREEN, ("front page", "headline.md")),
    )
    s.chain(145, 80, steps)
    s.text(
        430,
        155,
        "A cell's id is a hash of its settings; a cell with a record is not run again.",
        is_soft=True,
    )
    return s


def link() -> Sketch:
    """Show the weight of a link as a sum over terms."""
    s = Sketch(860, 190, "The weight of a link is the sum of the contributions of all terms")
    parts = (
        ("given graph", 170, BLUE),
        ("similar features", 200, GREEN),
        ("predictions", 130, ORANGE),
    )
    x = 30.0
    for name, width, fill in parts:
        s.box(x, 30, width, 50, name, fill=fill)
        x += width
    takes = (("sparsity", 120), ("row sums", 90))
    for name, width in takes:
        x -= width
        s.box(x, 90, width, 50, name, fill=GREY)
    s.box(30, 90, x - 30, 50, "weight of the link", fill=PAPER)
    s.text(560, 60, "positive contributions", is_soft=True, anchor="start")
    s.text(560, 120, "negative contributions, and the sum", is_soft=True, anchor="start")
    s.text(
        430,
        172,
        "Lengths are an example; clf.explain(node) returns the numbers of a link.",
        is_soft=True,
    )
    return s


def times() -> Sketch:
    """Show the seconds of whole fits on Cora, as recorded by the benchmark."""
    page = json.loads((RESULTS / "bench" / "compare.json").read_text(encoding="utf-8"))
    rows = [row for row in page["datasets"]["cora"]["rows"] if row.get("median")]
    rows.sort(key=lambda row: float(row["median"]))
    low, high = math.log10(rows[0]["median"]) - 0.3, math.log10(rows[-1]["median"])
    s = Sketch(860, 30 * len(rows) + 70, "Seconds of whole fits on Cora, on a logarithmic scale")
    for k, row in enumerate(rows):
        width = 380 * (math.log10(row["median"]) - low) / (high - low)
        fill = ORANGE if row["name"] in ("glnn-default", "glnn-paper") else BLUE
        s.text(330, 37 + 30 * k, row["title"], is_soft=fill != ORANGE, anchor="end")
        s.box(340, 20 + 30 * k, round(width, 1), 24, fill=fill)
        s.text(
            350 + round(width, 1),
            37 + 30 * k,
            f"{row['median']:.2g} s",
            is_soft=True,
            anchor="start",
        )
    s.text(
        430,
        30 * len(rows) + 50,
        "Seconds of a whole fit on Cora, medians, logarithmic scale.",
        is_soft=True,
    )
    return s


def terminal() -> Sketch:
    """Show error lines of the command."""
    from glnn.cli.main import main as glnn

    table = (
        "id,age,city,job\nann,30,Rome,cook\nbob,41,Oslo,clerk\ncy,27,Bern,cook\n"
        "dee,,Kyiv,clerk\neve,35,Lima,\n"
    )
    commands = (
        "people.csv",
        "people.csv --label jobs",
        "people.csv --label job --missing error",
    )
    lines: list[tuple[str, bool]] = []
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        Path("people.csv").write_text(table, encoding="utf-8")
        for command in commands:
            errors = io.StringIO()
            with contextlib.redirect_stderr(errors), contextlib.suppress(SystemExit):
                glnn(["fit", *command.split()])
            words = textwrap.wrap(" ".join(errors.getvalue().split()), 96)
            lines += [(f"$ glnn fit {command}", False), *((word, True) for word in words)]
    s = Sketch(
        860, 22 * len(lines) + 40, "Errors are one line: what must hold, what came, what to do"
    )
    for k, (line, is_soft) in enumerate(lines):
        s.text(25, 35 + 22 * k, line, is_soft=is_soft, anchor="start")
    return s


PICTURES: Sequence[Callable[[], Sketch]] = (
    rounds, layers, sources, run_folder, processes, folds, cells, link, times, terminal,
)  # fmt: skip


def main() -> None:
    """Draw all diagrams."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=FOLDER)
    folder = parser.parse_args().out
    folder.mkdir(parents=True, exist_ok=True)
    for draw in PICTURES:
        (folder / f"{draw.__name__}.svg").write_text(draw().svg(), encoding="utf-8")


if __name__ == "__main__":
    main()
