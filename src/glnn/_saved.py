"""A fitted classifier as a folder and back; a part of ``GLNNClassifier``."""

from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from glnn.data.arrays import ids_from_text
from glnn.engine.history import History
from glnn.engine.labels import decode_classes, encode_classes
from glnn.engine.model import Model
from glnn.engine.record import RECORD, FitRecord
from glnn.engine.sealed import unpacking
from glnn.solver.certificate import Certificate

_Estimator = TypeVar("_Estimator", bound="SavedMixin")


class SavedMixin:
    """Saving and loading: safetensors for numbers, JSON for everything else.

    A class that mixes it in has the attributes of a fit, ``_keep`` and ``_restore_trust``.
    """

    def save(self, folder: str | Path) -> None:
        """Write the fitted model into a folder as safetensors and JSON; nothing is pickled.

        The seed that was used is saved, whatever ``random_state`` was. After a fit over several
        processes all call it, and the first one writes.
        """
        fit: Any = self
        fit._check_fitted()
        record, shares = fit._record.packed()
        page = {
            "params": fit._plain_params(fit.seed_),
            "classes": encode_classes(fit.classes_),
            "certificate": None if fit.certificate_ is None else fit.certificate_.to_dict(),
            "choices": fit.choices_,
            "calibration": fit.calibration_.to_dict(),
            "n_features_in": fit.n_features_in_,
            "feature_names_in": [str(name) for name in getattr(fit, "feature_names_in_", [])],
            "row_names": None if fit.row_names_ is None else fit.row_names_.astype(str).tolist(),
            "history": [dict(epoch) for epoch in fit.history_],
            "shares": shares,
        }
        fit._model.save(Path(folder), page, fit._held_out_arrays() | record)

    @classmethod
    def load(cls: type[_Estimator], folder: str | Path) -> _Estimator:
        """Read a model that :meth:`save` wrote."""
        model, page = Model.load(Path(folder))
        with unpacking(Path(folder)):
            return cls._restored(model, page)

    @classmethod
    def _restored(cls: type[_Estimator], model: Model, page: dict[str, Any]) -> _Estimator:
        made: Any = cls
        fit = made(**made._params_of(page["params"]))
        fit.classes_ = decode_classes(page["classes"])
        fit.n_features_in_ = int(page["n_features_in"])
        if page["feature_names_in"]:
            fit.feature_names_in_ = np.array(page["feature_names_in"], dtype=object)
        names = page["row_names"]
        fit.row_names_ = None if names is None else ids_from_text(names)
        certificate = page["certificate"]
        fit.certificate_ = None if certificate is None else Certificate.from_dict(certificate)
        fit.choices_, fit.seed_ = page["choices"], page["params"]["random_state"]
        history = History()
        for record in page["history"]:
            history.append(record)
        fit._keep(model, history)
        fit._record = FitRecord.unpacked(page["more"], page["shares"])
        others = {n: array for n, array in page["more"].items() if not n.startswith(RECORD)}
        fit._restore_trust(page.get("calibration"), others)
        return fit  # type: ignore[no-any-return]
