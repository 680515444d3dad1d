"""From the public origin to the cache: download, check, parse, keep as npz."""

import hashlib
import tarfile
from pathlib import Path
from typing import Any

from glnn.data.download import Progress, download, file_sha256
from glnn.data.files import atomic_write, one_line, shown_path
from glnn.data.linqs import AttackGraph, read_terror_attack, read_terrorists_rel
from glnn.data.node_data import NodeData
from glnn.data.node_npz import write_node_npz
from glnn.data.origins import MAX_DOWNLOAD, RAW_FILES, Origin, RawFiles
from glnn.data.planetoid import read_planetoid
from glnn.exceptions import DownloadError, GlnnError


def fetch_raw(
    name: str,
    folder: Path,
    *,
    origins: tuple[Origin, ...] | None = None,
    progress: Progress | None = None,
    timeout: float | int = 30.0,
) -> Path:
    """Bring the published files of a data set into a folder, each with the right digest.

    Parameters
    ----------
    name
        The data set.
    folder
        Root of the cache; the files go to ``raw/`` below it. Files that are there already, put
        by hand or by an earlier call, are kept if their digest is right.
    origins
        Other places to ask; by default those of :mod:`glnn.data.origins`, in turn.
    progress, timeout
        See :func:`glnn.data.download.download`.

    Returns
    -------
    Path
        Where the files are.
    """
    raw = RAW_FILES[name]
    target = folder / "raw" / raw.folder
    failures: list[str] = []
    for origin in raw.origins if origins is None else origins:
        missing = [file for file in raw.sha256 if not _is_there(target / file, raw.sha256[file])]
        if not missing:
            return target
        try:
            if origin.archive is None:
                for file in missing:
                    url = origin.base_url + file
                    digest = raw.sha256[file]
                    download(url, target / file, sha256=digest, progress=progress, timeout=timeout)
            else:
                _fetch_archive(raw, origin, target, progress, timeout)
            return target
        except DownloadError as error:
            failures.append(one_line(error, limit=300))
    raise DownloadError(f"{' '.join(failures)} {by_hand(name, folder)}")


def by_hand(name: str, folder: Path) -> str:
    """Return what to do without a network: what to get from where, and where to put it."""
    raw = RAW_FILES[name]
    last = raw.origins[-1].base_url
    return (
        f"To do it by hand, download {', '.join(raw.sha256)} from {last} into "
        f"{shown_path(folder / 'raw' / raw.folder)} and run `glnn data fetch {name}` again."
    )


def _is_there(path: Path, sha256: str) -> bool:
    return path.is_file() and file_sha256(path) == sha256


def _fetch_archive(
    raw: RawFiles, origin: Origin, target: Path, progress: Progress | None, timeout: float | int
) -> None:
    """Take the wanted members out of an archive, by name and digest; nothing is unpacked."""
    url = f"{origin.base_url}{origin.archive}"
    archive = download(
        url, target / str(origin.archive), sha256=None, progress=progress, timeout=timeout
    )
    try:
        with tarfile.open(archive) as tar:
            unpacked = 0
            for member in tar:
                unpacked += member.size
                if unpacked > 8 * MAX_DOWNLOAD:
                    raise DownloadError(f"{url} must unpack to a sensible size, got more.")
                name = Path(member.name).name
                if name in raw.sha256 and member.isfile() and member.size <= MAX_DOWNLOAD:
                    file = tar.extractfile(member)
                    _keep_if_right(file, target / name, raw.sha256[name])
    except GlnnError:
        raise
    except (tarfile.TarError, OSError, EOFError, ValueError) as error:
        raise DownloadError(f"{url} must be a tar archive, got: {one_line(error)}.") from error
    finally:
        archive.unlink(missing_ok=True)
    wrong = [name for name in raw.sha256 if not _is_there(target / name, raw.sha256[name])]
    if wrong:
        raise DownloadError(f"{url} must hold the published {wrong[0]}, got another or none.")


def _keep_if_right(file: Any, path: Path, sha256: str) -> None:
    """Write the bytes if they, or they with Unix line ends, are the published ones."""
    content = b"" if file is None else file.read()
    for candidate in (content, content.replace(b"\r\n", b"\n")):
        if hashlib.sha256(candidate).hexdigest() == sha256:
            with atomic_write(path, "wb") as target:
                target.write(candidate)
            return


def read_raw(name: str, raw_folder: Path, *, graph: AttackGraph = "loc") -> NodeData:
    """Parse the published files of a data set."""
    if name == "terrorattack":
        return read_terror_attack(raw_folder, graph=graph)
    if name == "terroristsrel":
        return read_terrorists_rel(raw_folder)
    return read_planetoid(raw_folder, name)


def raw_to_npz(name: str, raw_folder: Path, npz_path: Path) -> NodeData:
    """Parse the published files and keep the record as npz, with every graph there is."""
    data = read_raw(name, raw_folder).replace(name=name, ids=None)
    others = {}
    if name == "terrorattack":
        others["loc_org"] = read_raw(name, raw_folder, graph="loc_org").graph
    write_node_npz(data, npz_path, other_graphs=others)
    return data
