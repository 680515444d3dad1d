"""Data sets by name.

Five published sets are fetched from their origin, checked by digest and by their counts, and
cached as npz. Five more are built in and need no file.
"""

import hashlib
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from glnn._utils import check_choice
from glnn.data.files import check_file, one_line, quote_path
from glnn.data.linqs import read_terror_attack, read_terrorists_rel
from glnn.data.node_data import NodeData
from glnn.data.npz import DEFAULT_GRAPH, read_node_npz, write_node_npz
from glnn.data.planetoid import PUBLISHED, read_planetoid
from glnn.data.synthetic import blobs, block_model
from glnn.exceptions import DataFormatError, DownloadError, InputError

# Built-in data sets


def _from_sklearn(name: str) -> NodeData:
    import sklearn.datasets

    bunch = getattr(sklearn.datasets, f"load_{name}")()
    return NodeData(
        features=sp.csr_matrix(np.asarray(bunch.data, dtype=np.float32)),
        labels=np.asarray(bunch.target, dtype=np.int64),
        class_names=tuple(str(label) for label in bunch.target_names),
        name=name,
        provenance={"source": f"scikit-learn load_{name}", "graph": "none published"},
        feature_names=tuple(str(feature) for feature in bunch.feature_names),
    )


BUILT_IN: dict[str, Callable[[], NodeData]] = {
    "digits": partial(_from_sklearn, "digits"),
    "wine": partial(_from_sklearn, "wine"),
    "breast_cancer": partial(_from_sklearn, "breast_cancer"),
    "blobs": blobs,
    "block_model": block_model,
}


# Facts about the data sets, and the digests of the published files


@dataclass(frozen=True)
class DatasetInfo:
    """Facts about a data set that are known without reading it."""

    name: str
    n_nodes: int
    n_edges: int  # 0 without a graph
    n_features: int
    n_classes: int
    about: str
    origin: str
    licence: str
    graphs: Sequence[str] = ()  # names of further graphs
    folder: str = ""  # name of the folder of the published files in the cache
    base_url: str = ""  # the name of a file is appended
    sha256: Mapping[str, str] = field(default_factory=dict)  # digest of each file
    class_names: Sequence[str] = ()  # of a set whose files have class numbers only


DATASETS = {name: DatasetInfo(name, **facts) for name, facts in PUBLISHED.items()}


# Downloading


def _root_cause(error: BaseException) -> BaseException:
    """Return the innermost error of a chain, the one that names the real problem."""
    return error if error.__context__ is None else _root_cause(error.__context__)


def download(
    url: str, target: Path, sha256: str, *, show_progress: bool = False, timeout: float | int = 30.0
) -> Path:
    """Download a file over HTTP to ``target``, unless it is there, and check its digest.

    A file with a wrong digest is asked for a second time; ``timeout`` is in seconds.
    """
    import pooch
    import requests

    pooch.get_logger().setLevel(logging.ERROR)  # errors are raised, not logged
    fetcher = pooch.create(
        target.parent,
        url,
        registry={target.name: f"sha256:{sha256}"},
        urls={target.name: url},
        retry_if_failed=1,
    )
    loader = pooch.HTTPDownloader(progressbar=show_progress, timeout=timeout)
    try:
        fetcher.fetch(target.name, downloader=loader)
    except ValueError:
        raise DownloadError(
            f"{url} must have sha256 {sha256[:16]}..., got another file. It was deleted; "
            "the origin may have changed, or something on the way altered or cut it."
        ) from None
    except requests.RequestException as error:
        raise DownloadError(f"{url} cannot be fetched: {one_line(_root_cause(error))}.") from None
    except OSError as error:
        raise DownloadError(
            f"{quote_path(target)} must be writable, got: {one_line(error.strerror or error)}. "
            "Free some space or choose another folder with GLNN_DATA."
        ) from error
    return target


# Data sets by name

ENVIRONMENT = "GLNN_DATA"


def cache_folder() -> Path:
    """Return the folder of fetched data sets in the user's cache."""
    from platformdirs import user_cache_dir  # here: built-in data sets need no folder

    return Path(user_cache_dir("glnn"))


def data_folders(folder: str | Path | None = None) -> tuple[Path, ...]:
    """Return the folders to search: the given one, else GLNN_DATA and the cache."""
    if folder is not None:
        return (Path(folder),)
    named = os.environ.get(ENVIRONMENT)
    return (*([Path(named).expanduser()] if named else []), cache_folder())


def load_dataset(
    name: str, *, folder: str | Path | None = None, graph: str = DEFAULT_GRAPH
) -> NodeData:
    """Return a data set by name; its counts are checked against the published ones.

    The names are ``cora``, ``citeseer``, ``pubmed``, ``terrorattack`` and ``terroristsrel``, and of
    sets that need no file ``digits``, ``wine``, ``breast_cancer``, ``blobs`` and ``block_model``.
    ``folder`` has the npz or raw files; by default it is the one named by the environment variable
    ``GLNN_DATA``, then the user's cache. Nothing is downloaded. ``graph="loc_org"`` selects the
    second graph of Terror Attack.

    Examples
    --------
    >>> load_dataset("wine").n_nodes
    178
    """
    check_choice("name", name, DATASETS)
    info = DATASETS[name]
    check_choice("graph", graph, (DEFAULT_GRAPH, *info.graphs))
    if name in BUILT_IN:
        return BUILT_IN[name]()
    folders, raw = data_folders(folder), info.folder
    for place in folders:
        if (place / f"{name}.npz").is_file():
            data = read_node_npz(place / f"{name}.npz", graph=graph)
            break
        found = [path for path in (place / "raw" / raw, place / raw) if path.is_dir()]
        if found and (found[0] / next(iter(info.sha256))).is_file():
            data = read_raw(name, found[0], graph)
            break
    else:
        raise InputError(
            f"{name}.npz must lie in {' and '.join(map(quote_path, folders))}, got none. Run "
            f"`glnn data fetch {name}`, or name the folder that holds it in the environment "
            f"variable {ENVIRONMENT}."
        )
    known = {"origin": info.origin, "licence": info.licence}
    _check_counts(data, info, graph)
    return data.replace(name=name, provenance={**data.provenance, **known})


def read_raw(name: str, folder: Path, graph: str = DEFAULT_GRAPH) -> NodeData:
    """Parse the published files of a data set, after a check of their digests."""
    for file, sha256 in DATASETS[name].sha256.items():
        with check_file(folder / file).open("rb") as content:
            if hashlib.file_digest(content, "sha256").hexdigest() != sha256:
                raise DataFormatError(
                    f"{quote_path(folder / file)} must be the published file, got another. "
                    f"Remove it and run `glnn data fetch {name}`."
                )
    return read_folder(folder, graph, name)


def read_folder(folder: Path, graph: str = DEFAULT_GRAPH, name: str | None = None) -> NodeData:
    """Read a folder with the terror files, or with those of the Planetoid set ``name``."""
    if (folder / "terrorist_attack.nodes").is_file():
        return read_terror_attack(folder, graph)
    is_relations = (folder / "TerroristRel.labels").is_file()
    return read_terrorists_rel(folder) if is_relations else read_planetoid(folder, name)


def _check_counts(data: NodeData, info: DatasetInfo, graph: str) -> None:
    """Check the counts against the published ones, to refuse another file of the same name."""
    found = (data.n_nodes, data.n_features, data.n_classes, data.n_edges)
    published = (info.n_nodes, info.n_features, info.n_classes, info.n_edges)
    compared = 4 if graph == DEFAULT_GRAPH else 3
    if found[:compared] != published[:compared]:
        raise DataFormatError(
            f"{info.name} must have {info.n_nodes} nodes, {info.n_features} features, "
            f"{info.n_classes} classes and {info.n_edges} edges, got {found}. Fetch it again."
        )


def fetch_dataset(
    name: str, *, folder: str | Path | None = None, show_progress: bool = False
) -> Path:
    """Download a published data set, check it, store it as npz and return the path of that file.

    ``folder`` is where to store it, by default the user's cache. The published files stay in
    ``raw/`` below the folder, and are not downloaded again. A progress bar can be shown.
    """
    check_choice("name", name, DATASETS)
    if name in BUILT_IN:
        raise InputError(f"{name} must not be fetched, it comes with glnn. Use it by its name.")
    root = cache_folder() if folder is None else Path(folder)
    files = DATASETS[name]
    raw = root / "raw" / files.folder
    failure = ""
    try:
        for file, sha256 in files.sha256.items():
            download(files.base_url + file, raw / file, sha256, show_progress=show_progress)
    except DownloadError as error:
        failure = one_line(error, limit=300)
    if failure:  # raised here, so that it does not keep the connection open
        raise DownloadError(
            f"{failure} To do it by hand, download {', '.join(files.sha256)} from "
            f"{files.base_url} into {quote_path(raw)} and run `glnn data fetch {name}` again."
        )
    data = read_raw(name, raw)
    others = {graph: read_raw(name, raw, graph).graph for graph in files.graphs}
    npz = root / f"{name}.npz"
    write_node_npz(data.replace(name=name, ids=None), npz, other_graphs=others)
    return npz
