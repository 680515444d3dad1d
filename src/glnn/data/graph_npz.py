"""A graph on its own as npz: CSR arrays that SciPy reads too, with the nodes' ids."""

from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from glnn.data.arrays import checked_csr
from glnn.data.files import parsing
from glnn.data.npz import NpzFile, write_npz
from glnn.exceptions import DataFormatError


def write_graph_npz(
    path: Path, graph: Any, ids: np.ndarray | None = None, **more: np.ndarray
) -> None:
    """Write a graph so that ``scipy.sparse.load_npz`` and :func:`read_graph_npz` read it.

    ``more`` are further arrays to keep beside it.
    """
    matrix = sp.csr_matrix(graph)
    arrays = {
        "indices": matrix.indices,
        "indptr": matrix.indptr,
        "format": np.array(b"csr"),
        "shape": np.array(matrix.shape, dtype=np.int64),
        "data": matrix.data,
    }
    if ids is not None:
        arrays["ids"] = np.asarray(ids)
    write_npz(path, arrays | more)


def read_graph_npz(path: str | Path) -> tuple[sp.csr_matrix, np.ndarray | None]:
    """Read a graph and, where they are kept, the ids of its nodes.

    Returns
    -------
    tuple
        The square CSR matrix as it was written, and the ids or ``None``.
    """
    path = Path(path)
    with NpzFile(path) as file, parsing(path, "npz"):
        form = str(file.read("format", kinds="SU", ndim=0).astype(np.str_))
        shape = file.read("shape", kinds="iu", ndim=1)
        if form != "csr" or shape.size != 2 or shape[0] != shape[1] or shape[0] < 1:
            raise DataFormatError(
                f"{path.name} must hold a square CSR matrix, got {form!r} of {shape.tolist()[:3]}."
            )
        if file.headers.get("indptr") is None or file.headers["indptr"].shape != (shape[0] + 1,):
            raise DataFormatError(f"indptr in {path.name} must have {shape[0] + 1} entries.")
        matrix = checked_csr(
            file.read("data", kinds="fiu", ndim=1),
            file.read("indices", kinds="iu", ndim=1),
            file.read("indptr", kinds="iu", ndim=1),
            (int(shape[0]), int(shape[1])),
        )
        return matrix, file.read("ids", kinds="iuU", ndim=1) if "ids" in file else None
