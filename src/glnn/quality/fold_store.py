"""What the fits of an estimate have said, on disk: one that was cut off goes on with the rest."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from glnn.data.files import atomic_write, cannot_write, shown_path
from glnn.engine.sealed import read_sealed, write_sealed
from glnn.exceptions import CheckpointError
from glnn.quality.held_out import Refit

FORMAT, VERSION, PAGE = "glnn-folds", 1, "folds.json"


@dataclass(frozen=True)
class StoredRefit:
    """A fit without some labels that is made once: what it said is read again from a folder.

    Parameters
    ----------
    refit
        Fits without the labels of some nodes; returns raw class probabilities of every node.
    folder
        Where answers lie, one file each; get one from :func:`stored`.
    """

    refit: Refit
    folder: Path

    def __call__(self, hidden: np.ndarray) -> np.ndarray:
        """Return the answer without these labels, from the folder if it is there."""
        key = hashlib.sha256(np.ascontiguousarray(hidden, dtype=np.int64).data).hexdigest()[:16]
        for path in self.folder.glob(f"fold-{key}-*.safetensors"):
            return _read(path)
        found = np.asarray(self.refit(hidden))
        packed = save({"probabilities": np.ascontiguousarray(found)})
        name = f"fold-{key}-{hashlib.sha256(packed).hexdigest()[:16]}.safetensors"
        with atomic_write(self.folder / name, "wb") as file:
            file.write(packed)
        return found


def stored(refit: Refit, folder: Path, digest: bytes) -> StoredRefit:
    """Keep what a fit says in a folder; refuse a folder of another estimate in one line.

    Parameters
    ----------
    refit
        Fits without the labels of some nodes.
    folder
        Where; it is made if it is not there.
    digest
        Of all that the answers depend on: data, settings, seed.
    """
    path, page = folder / PAGE, {"estimate": digest.hex()}
    if path.exists():
        if read_sealed(path, FORMAT, VERSION)["estimate"] != page["estimate"]:
            raise CheckpointError(
                f"{shown_path(folder)} must hold folds of this very estimate, got those of other "
                "data, settings or seed. Name another folder, or remove it."
            )
        return StoredRefit(refit, folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise cannot_write(folder, error) from error
    write_sealed(path, FORMAT, VERSION, page)
    return StoredRefit(refit, folder)


def _read(path: Path) -> np.ndarray:
    try:
        packed = path.read_bytes()
        if path.stem.endswith(hashlib.sha256(packed).hexdigest()[:16]):
            return np.asarray(load(packed)["probabilities"])
    except (OSError, LookupError, SafetensorError):
        pass  # said below
    raise CheckpointError(f"{shown_path(path)} was damaged. Remove it to fit this fold again.")
