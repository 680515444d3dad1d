"""File formats of the LINQS group: ``.content``/``.cites``, and ``.nodes`` of the terror sets."""

from pathlib import Path

import numpy as np
import scipy.sparse as sp

from glnn._utils import check_choice
from glnn.data.edges import read_edges
from glnn.data.files import quote, quote_path, read_text, wrap_parse_errors
from glnn.data.node_data import NodeData, ids_from_text, to_float32
from glnn.data.npz import DEFAULT_GRAPH
from glnn.data.table_text import TableOptions
from glnn.data.tables import encode_labels
from glnn.exceptions import DataFormatError

RELATIONS = ("Contact", "Family", "Colleague", "Congregate")


def read_linqs(
    path: str | Path, edges_path: str | Path | None = None, *, name: str | None = None
) -> NodeData:
    """Read a ``.content`` or ``.nodes`` file (id, numbers, label), edges and a list of classes.

    These are the files of the same name, if they exist: ``.cites`` (pairs of ids) for ``.content``,
    ``.edges`` and ``.labels`` (one class per line) for ``.nodes``; ``edges_path`` is another file
    of edges. Without a list the classes are sorted by name. If a label is a URL, the part after
    ``#`` is the class name. Edges of ids without a line, as in the published Citeseer, are dropped
    and counted in the provenance.
    """
    path = Path(path)
    is_content, listed = path.suffix == ".content", path.with_suffix(".labels")
    edges = None if edges_path is None else Path(edges_path)
    beside = path.with_suffix(".cites" if is_content else ".edges")
    if edges is None and beside.is_file():
        edges = beside
    ids, features, texts = _read_rows(path)
    texts, classes = list(map(_strip_url, texts)), None
    if listed.is_file() and not is_content:
        classes = list(map(_strip_url, _read_lines(listed)))
    labels, class_names = encode_labels(texts, classes)
    unknown = next((text for text, label in zip(texts, labels) if text and label < 0), None)
    if unknown is not None:
        raise DataFormatError(f"{path.name} must use the listed classes, got {quote(unknown)}.")
    ids_array, name = ids_from_text(ids), name or path.stem
    data = NodeData(features, labels, None, class_names, ids=ids_array, name=name)
    return _attach_graph(data, edges, ids)


def _strip_url(label: str) -> str:
    return label.rsplit("#", 1)[-1].strip() if "://" in label else label.strip()


def read_terror_attack(folder: str | Path, graph: str = DEFAULT_GRAPH) -> NodeData:
    """Read ``terrorist_attack.nodes``, ``.labels`` and one of the ``.edges`` files of a folder.

    Edges join attacks in the same place, or with ``graph="loc_org"`` in the same place and by the
    same organisation.
    """
    folder = Path(folder)
    check_choice("graph", graph, (DEFAULT_GRAPH, "loc_org"))
    edges = "terrorist_attack_loc" if graph == DEFAULT_GRAPH else f"terrorist_attack_{graph}"
    nodes = folder / "terrorist_attack.nodes"
    return read_linqs(nodes, folder / f"{edges}.edges", name="terrorattack")


def read_terrorists_rel(folder: str | Path) -> NodeData:
    """Read the TerroristRel files of a folder: four ``.nodes`` files, one for each class.

    Each relation is positive in exactly one of the four. Edges with one of the 33 ids without
    features are dropped. The ids are not kept, because they name people.
    """
    folder = Path(folder)
    class_names = tuple(_read_lines(folder / "TerroristRel.labels"))
    found = {name.lower(): folder / f"TerroristRel_{name}.nodes" for name in RELATIONS}
    ids, features, _ = _read_rows(found["contact"])
    labels = np.full(len(ids), -1, dtype=np.int64)
    with wrap_parse_errors(folder, "TerroristRel"):
        for number, class_name in enumerate(class_names):
            other_ids, _, texts = _read_rows(found[class_name])
            row_of = {text: row for row, text in enumerate(other_ids)}
            positive = [texts[row_of[text]] == class_name for text in ids]
            labels[positive] = number
    data = NodeData(features, labels, None, class_names, name="terroristsrel")
    return _attach_graph(data, folder / "TerroristRel.edges", ids)


def _read_rows(path: Path) -> tuple[list[str], sp.csr_matrix, list[str]]:
    """Read ids, features and labels of a file with one node per line, split at tabs or blanks."""
    lines = _read_lines(path)
    with wrap_parse_errors(path, "LINQS"):
        rows = [line.split("\t") if "\t" in line else line.split() for line in lines]
        widths = {len(row) for row in rows}
        if len(widths) != 1 or min(widths) < 3:
            raise DataFormatError(
                f"{quote_path(path)} must have an id, numbers and a label on every line, and as "
                f"many on each, got lines of {sorted(widths)[:4]} words."
            )
        features = to_float32(np.array([row[1:-1] for row in rows], dtype=np.float64))
        if not np.isfinite(features).all():
            raise DataFormatError(f"{quote_path(path)} must hold finite numbers, got others.")
    ids = [row[0] for row in rows]
    if len(set(ids)) != len(ids):
        raise DataFormatError(f"{quote_path(path)} must name each id once, got repeated ids.")
    return ids, sp.csr_matrix(features), [row[-1] for row in rows]


def _read_lines(path: Path) -> list[str]:
    lines = [line.rstrip("\r") for line in read_text(path).split("\n")]
    lines = [line for line in lines if line.strip()]
    if not lines:
        raise DataFormatError(f"{quote_path(path)} must hold at least one line, got none.")
    return lines


def _attach_graph(data: NodeData, path: Path | None, ids: list[str]) -> NodeData:
    """Add the graph of an edge file to a record; note the format and dropped edges."""
    provenance = {"format": "LINQS"}
    if path is None:
        return data.replace(provenance=provenance)
    index = {text: row for row, text in enumerate(ids)}
    graph, report = read_edges(path, index, TableOptions(on_unknown="drop"))
    if report.unknown:
        left_out = f"{report.n_dropped} of {report.n_rows} lines"
        provenance["edges left out"] = f"{left_out}, naming {len(report.unknown)} other ids"
    return data.replace(graph=graph, provenance=provenance)
