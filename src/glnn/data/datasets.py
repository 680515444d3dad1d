"""Data sets by name.

Five published sets are fetched from their origin, checked by digest and by their counts, and
cached as npz. Five more are built in and need no file.
"""

import hashlib
import logging
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from glnn._utils import check_choice
from glnn.data.files import check_file, one_line, quote_path
from glnn.data.linqs import read_terror_attack, read_terrorists_rel
from glnn.data.node_data import NodeData
from glnn.data.npz import DEFAULT_GRAPH, read_node_npz, write_node_npz
from glnn.data.planetoid import read_planetoid
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


# Origins of the published files, with their digests

_GITHUB = "https://raw.githubusercontent.com"
_PLANETOID_COMMIT = "af6abf468a772cc055bec88c52e4d6f51b7c37e3"
_TERROR_COMMIT = "bd80b51d278d5b5b39635da7fde83b9693f57ac4"
MAX_DOWNLOAD = 2**26  # 64 MiB; no published file is larger


@dataclass(frozen=True)
class RawFiles:
    """The published files of a data set."""

    folder: str  # name of their folder in the cache
    base_url: str  # the name of a file is appended
    sha256: dict[str, str]  # digest of each file


def _planetoid_files(name: str, digests: str) -> RawFiles:
    parts = ("allx", "ally", "graph", "test.index", "tx", "ty", "x", "y")
    sha256 = {f"ind.{name}.{part}": digest for part, digest in zip(parts, digests.split())}
    return RawFiles("planetoid", f"{_GITHUB}/kimiyoung/planetoid/{_PLANETOID_COMMIT}/data/", sha256)


def _terror_files(folder: str, digests: str) -> RawFiles:
    words = digests.split()
    base_url = f"{_GITHUB}/natbolon/terrorist_network_weaknesses/{_TERROR_COMMIT}/data/{folder}/"
    return RawFiles(folder, base_url, dict(zip(words[::2], words[1::2])))


RAW_FILES = {
    "cora": _planetoid_files(
        "cora",
        """
        9419ba2f26f5c35243db64aba110e0f35a04851609e0dc5433450676ca6b8543
        2b998f5cc7fedc86e7f97ca2498f47a1ffc1462c29e2d578b23bf3f62b6e7d71
        58f13302f39dde8852dad6fe6d15b89b077b6d7f837626bce671ef80344b383d
        297ce89af2b51a6a194181c7dbe1796c6a1cf9cd9349a88383b1b1e227867875
        b9afbaa4a400df991f6f02ef677e1e44da55ffc04801fd02f9e673987829226a
        41f5ac76596a1699cc33f53084a2419e92961c42bb75f36fc38e616d348532ad
        23cfa55d91c6f624233f5eb7b6e3f141f1bd2b2ae39608a63cf5d084bb27baab
        94465c14eb53e04ca262198dcbb2521ee8af60fb3f3d546cd6ca24a511b0e7d1
        """,
    ),
    "citeseer": _planetoid_files(
        "citeseer",
        """
        2ac30345d95c9ec933a817ee0bdd6a5f077f8c184a20e696910192d534414668
        f704b2d986dde6c2669934de1f3ae5696a6cf9455c0f6b2646a2d135ea0a1c95
        d79a4ef9d3e7169aee8946145f6b7306e35bc79bffad26346cfb94e10e9912a7
        2af990671580b6b2df5d158d1038f8292e30c9cd821b5453f399659b25b723d4
        539a8906a2da97628d212f2fdd668c109a8b3f0d36574b59e5d3fd5b5303da21
        55e5bd1ba1e733a04598753ad1a8d57957f4b8f89e74519f41f4f4938767e4ce
        d20de19150741e555de0ed037195630fc194114ebc7fd72ced62810148aa22f6
        8ba87e515d8e3ee3cf52f6d2c5b86aa73f11ecad825a808455209ec26cd54924
        """,
    ),
    "pubmed": _planetoid_files(
        "pubmed",
        """
        508e538e2abdccdd54c4d3e9f49d638b4af7107d85845f66ddea5a5152658b7e
        0c37bbe3b5014ec365e9d393cf4791925e5ed94fb194305d74f064a8d7b50f0e
        5b89f0036ca22909471f1e6558eb42fa06e0c730a577bde5b058b40638f81dc9
        b101d421688bbaecbd82e8a18f1e282378d6830f3a37666f28ebc47f844341b5
        4eb5f5d0f30f26497eb0ac6ac9719d09c67e284f1ed0385c93f3ef27a671da3d
        ee2e0d4819d9fbcc403689c3bf2e49face401b605932f093bc58ab6461130fdd
        fbe9cb5c47200d1b7769a26e579be3b7130b556831f9d850e77c4c74f2599b33
        e6c807633307a07ed659249006536a147c7999c797f11a2560752990181b41b3
        """,
    ),
    "terrorattack": _terror_files(
        "TerrorAttack",
        """
        terrorist_attack.labels 8ff2aec5f6906790fed13ae61b23169649958e0b81b60f9d04b444e9abc5e7b0
        terrorist_attack.nodes 1a51d835ff0d4339cc4b3a3bac3ca3f5c75f2d0870f222734143a40f3230ded2
        terrorist_attack_loc.edges ae8004a29765a20081c145e0ea458cd0a41ceedc6df4a8ade9e00b13bcbb5d35
        terrorist_attack_loc_org.edges
        01d798a3da8e0e2ca1b04784db21700dfbe234ee3719206d49b225bb9a7669a4
        """,
    ),
    "terroristsrel": _terror_files(
        "TerroristRel",
        """
        TerroristRel.edges 502a5b583ca19d38d14cae2039f38eb0e8149042f44a7e15cf25b64608ad6fd0
        TerroristRel.labels 0166a95178ef37727175f1bb52edb9b883b2359a2f1ebd95de73d4c442405123
        TerroristRel_Colleague.nodes
        1174cc58af45302e947b91951bfa7eb2e5417ad6bf321e0f74dfe15095f947d6
        TerroristRel_Congregate.nodes
        985ff64c2c0a7b288a6c2dabbbc9e9f5e39c520719b1847527997935d3b714e7
        TerroristRel_Contact.nodes 83809e455207b8137e802c4cf32b59f33b1e6e00ca518e2a7056e898cf431b33
        TerroristRel_Family.nodes 8f9ecf7549c4c29c7cd32d6680e32074cf4f9fee867812043a92f9c726b79de3
        """,
    ),
}


# Downloading

# Called with the number of bytes received, and the total if it is known.
Progress = Callable[[int, int | None], None]


class _ProgressBar:
    """Progress bar for pooch: calls ``progress`` and aborts a download that is too large."""

    def __init__(self, url: str, progress: Progress | None) -> None:
        self._url, self._progress = url, progress
        self._done, self.total = 0, 0

    def update(self, count: int) -> None:
        self._done = min(self._done + count, self.total) if self.total else self._done + count
        if max(self._done, self.total) > MAX_DOWNLOAD:
            raise DownloadError(f"{self._url} must be at most {MAX_DOWNLOAD:,} bytes, got more.")
        if self._progress is not None:
            self._progress(self._done, self.total or None)

    def reset(self) -> None:
        self._done = 0

    def close(self) -> None:
        """Do nothing; pooch calls it at the end."""


def _root_cause(error: BaseException) -> BaseException:
    """Return the innermost error of a chain, the one that names the real problem."""
    return error if error.__context__ is None else _root_cause(error.__context__)


def download(
    url: str,
    target: Path,
    sha256: str,
    *,
    progress: Progress | None = None,
    timeout: float | int = 30.0,
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
    progress_bar: Any = _ProgressBar(url, progress)
    loader = pooch.HTTPDownloader(progressbar=progress_bar, chunk_size=2**16, timeout=timeout)
    try:
        fetcher.fetch(target.name, downloader=loader)
    except DownloadError:
        raise
    except ValueError:
        raise DownloadError(
            f"{url} must have sha256 {sha256[:16]}..., got another file. It was deleted; "
            "the origin may have changed, or something on the way altered or cut it."
        ) from None
    except requests.HTTPError as error:
        answer: Any = error.response
        raise DownloadError(f"{url} answered {answer.status_code} {answer.reason}.") from None
    except requests.Timeout:
        raise DownloadError(
            f"{url} answered too slowly: nothing in {timeout:g} seconds. Try again later."
        ) from None
    except requests.RequestException as error:
        raise DownloadError(f"{url} cannot be reached: {one_line(_root_cause(error))}.") from None
    except OSError as error:
        raise DownloadError(
            f"{quote_path(target)} must be writable, got: {one_line(error.strerror or error)}. "
            "Free some space or choose another folder with GLNN_DATA."
        ) from error
    return target


# Data sets by name

ENVIRONMENT = "GLNN_DATA"


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
    graphs: tuple[str, ...] = ()  # names of further graphs


_CITATIONS = "papers, words and citations, with the public split"
_PLANETOID = "github.com/kimiyoung/planetoid"
_LINQS = "LINQS, University of Maryland"
_SKLEARN = ("scikit-learn", "BSD-3-Clause")
_OWN = ("generated by glnn", "MIT")
_MIT = "MIT (the repository)"
_NO_LICENCE = "none stated"

DATASETS = {
    info.name: info
    for info in (
        DatasetInfo("cora", 2708, 5278, 1433, 7, _CITATIONS, _PLANETOID, _MIT),
        DatasetInfo("citeseer", 3327, 4552, 3703, 6, _CITATIONS, _PLANETOID, _MIT),
        DatasetInfo("pubmed", 19717, 44324, 500, 3, _CITATIONS, _PLANETOID, _MIT),
        DatasetInfo(
            "terrorattack",
            1293,
            3172,
            106,
            6,
            "attacks in one place",
            _LINQS,
            _NO_LICENCE,
            ("loc_org",),
        ),
        DatasetInfo(
            "terroristsrel",
            851,
            8196,
            1224,
            4,
            "relations that share a person",
            _LINQS,
            _NO_LICENCE,
        ),
        DatasetInfo("digits", 1797, 0, 64, 10, "images of digits, no graph", *_SKLEARN),
        DatasetInfo("wine", 178, 0, 13, 3, "chemistry of wines, no graph", *_SKLEARN),
        DatasetInfo("breast_cancer", 569, 0, 30, 2, "cell measurements, no graph", *_SKLEARN),
        DatasetInfo("blobs", 300, 0, 2, 3, "Gaussian clouds, no graph", *_OWN),
        DatasetInfo("block_model", 300, 1161, 16, 3, "clouds with a block model graph", *_OWN),
    )
}


def cache_folder() -> Path:
    """Return the folder of fetched data sets in the user's cache."""
    try:
        import platformdirs  # here: built-in data sets need no folder
    except ImportError:  # a source tree alone
        return Path.home() / ".cache" / "glnn"
    return Path(platformdirs.user_cache_dir("glnn"))


def data_folders(folder: str | Path | None = None) -> tuple[Path, ...]:
    """Return the folders to search: the given one, else GLNN_DATA and the cache."""
    if folder is not None:
        return (Path(folder),)
    named = os.environ.get(ENVIRONMENT)
    return (*([Path(named).expanduser()] if named else []), cache_folder())


def load_dataset(
    name: str, *, folder: str | Path | None = None, graph: str = DEFAULT_GRAPH
) -> NodeData:
    """Return a data set by name.

    Parameters
    ----------
    name
        ``cora``, ``citeseer``, ``pubmed``, ``terrorattack``, ``terroristsrel``; or one that
        needs no file: ``digits``, ``wine``, ``breast_cancer``, ``blobs``, ``block_model``.
    folder
        The folder with the npz or raw files; by default the one named by the environment
        variable ``GLNN_DATA``, then the user's cache. Nothing is downloaded.
    graph
        ``"loc_org"`` selects the second graph of Terror Attack.

    Returns
    -------
    NodeData
        The record; its counts are checked against the published ones.

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
    folders, raw = data_folders(folder), RAW_FILES[name].folder
    for place in folders:
        if (place / f"{name}.npz").is_file():
            data = read_node_npz(place / f"{name}.npz", graph=graph)
            break
        found = [path for path in (place / "raw" / raw, place / raw) if path.is_dir()]
        if found and (found[0] / next(iter(RAW_FILES[name].sha256))).is_file():
            data = read_raw(name, found[0], graph)
            break
    else:
        raise InputError(
            f"{name}.npz must lie in {' and '.join(map(quote_path, folders))}, got none. Run "
            f"`glnn data fetch {name}`, or name the folder that holds it in the environment "
            f"variable {ENVIRONMENT}."
        )
    known = {"origin": info.origin, "licence": info.licence}
    data = data.replace(name=name, provenance={**data.provenance, **known})
    return _check_counts(data, info, graph)


def read_raw(name: str, folder: Path, graph: str = DEFAULT_GRAPH) -> NodeData:
    """Parse the published files of a data set, after a check of their digests."""
    for file, sha256 in RAW_FILES[name].sha256.items():
        with check_file(folder / file).open("rb") as content:
            if hashlib.file_digest(content, "sha256").hexdigest() != sha256:
                raise DataFormatError(
                    f"{quote_path(folder / file)} must be the published file, got another. "
                    f"Remove it and run `glnn data fetch {name}`."
                )
    if name == "terrorattack":
        return read_terror_attack(folder, graph)
    return read_terrorists_rel(folder) if name == "terroristsrel" else read_planetoid(folder, name)


def _check_counts(data: NodeData, info: DatasetInfo, graph: str) -> NodeData:
    """Check the counts against the published ones, to refuse another file of the same name."""
    found = (data.n_nodes, data.n_features, data.n_classes, data.n_edges)
    published = (info.n_nodes, info.n_features, info.n_classes, info.n_edges)
    compared = 4 if graph == DEFAULT_GRAPH else 3
    if found[:compared] != published[:compared]:
        raise DataFormatError(
            f"{info.name} must have {info.n_nodes} nodes, {info.n_features} features, "
            f"{info.n_classes} classes and {info.n_edges} edges, got {found}. Fetch it again."
        )
    return data


def fetch_dataset(
    name: str,
    *,
    folder: str | Path | None = None,
    progress: Progress | None = None,
    timeout: float | int = 30.0,
) -> Path:
    """Download a published data set, check it, store it as npz and return the path of that file.

    ``folder`` is where to store it, by default the user's cache. ``progress`` is called with the
    number of bytes received, and the total if it is known; ``timeout`` is in seconds. The
    published files stay in ``raw/`` below the folder, and are not downloaded again.
    """
    check_choice("name", name, DATASETS)
    if name in BUILT_IN:
        raise InputError(f"{name} must not be fetched, it comes with glnn. Use it by its name.")
    root = cache_folder() if folder is None else Path(folder)
    files = RAW_FILES[name]
    raw = root / "raw" / files.folder
    failure = ""
    try:
        for file, sha256 in files.sha256.items():
            url = files.base_url + file
            download(url, raw / file, sha256, progress=progress, timeout=timeout)
    except DownloadError as error:
        failure = one_line(error, limit=300)
    if failure:  # raised here, so that it does not keep the connection open
        raise DownloadError(
            f"{failure} To do it by hand, download {', '.join(files.sha256)} from "
            f"{files.base_url} into {quote_path(raw)} and run `glnn data fetch {name}` again."
        )
    data = _check_counts(read_raw(name, raw), DATASETS[name], DEFAULT_GRAPH)
    others = {graph: read_raw(name, raw, graph).graph for graph in DATASETS[name].graphs}
    npz = root / f"{name}.npz"
    write_node_npz(data.replace(name=name, ids=None), npz, other_graphs=others)
    return npz
