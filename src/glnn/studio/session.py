"""A labelling session: it proposes rows, takes labels, and learns from them in the background."""

import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from glnn._utils import check_choice, check_integer
from glnn.data.files import WriterLock, check_replaceable, quote
from glnn.data.node_data import check_text
from glnn.exceptions import InputError
from glnn.studio.journal import NAME, Journal
from glnn.studio.labels import LabelState
from glnn.studio.opening import describe_source, initial_labels, open_source

ACTS = ("label", "skip", "unsure", "undo", "next", "state", "fit", "card")
_MAX_NAME = 200  # characters of a class name


class LabelSession:
    """Label the rows of a table with proposals from a model that learns as you label.

    Every act is on the disk before the call returns, so nothing is lost if the process is killed;
    the same folder opens again with all labels. Fits run in one thread in the background: a quick
    one after each label, and one with all tracks and held-out labels when labels have stopped
    coming. The last good answer stays until the next one is there.

    Parameters
    ----------
    data
        A table or data set as in ``glnn fit`` (a path or a name), a DataFrame, an array of
        features, a ``NodeData``, the run folder of ``glnn fit``, or the folder of a session.
    folder
        Where journal and answers are kept; by default ``runs/NAME-studio``. After a fit with
        held-out labels it is also a run folder for ``glnn predict``, ``report`` and ``export``.
    graph
        Edges between the rows: a path, or for data in memory any graph that ``fit`` takes.
    label
        The column of labels so far; by default ``label`` if there is one. Empty cells and words
        such as ``unknown`` are rows without a label. For arrays: a label for each row.
    options
        Fields of :class:`glnn.data.TableOptions` by name, such as ``{"id_column": "name"}``.
    params
        Parameters of :class:`glnn.GLNNClassifier` for the fits, such as ``{"n_epochs": 50}``.
    seed
        Of the fits.
    background
        Whether fits start by themselves; without, only :meth:`fit` starts one.

    Examples
    --------
    >>> session = LabelSession("digits.csv", "digits-session")  # doctest: +SKIP
    >>> row = session.next()[0]["id"]  # doctest: +SKIP
    >>> session.label(row, "3")  # doctest: +SKIP
    """

    def __init__(
        self,
        data: Any,
        folder: str | Path | None = None,
        *,
        graph: Any = None,
        label: Any = None,
        options: Mapping[str, Any] | None = None,
        params: Mapping[str, Any] | None = None,
        seed: int = 0,
        background: bool = True,
    ) -> None:
        self.params, self.seed = dict(params or {}), check_integer("seed", seed, low=0)
        self._mutex = threading.RLock()
        self._listeners: list[Callable[[], None]] = []
        self.source, self.folder = open_source(data, folder, graph, label, dict(options or {}))
        _ = self.source.data  # read before anything is written
        check_replaceable(self.folder)
        self._lock = WriterLock.acquire(self.folder.resolve())
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._journal = Journal(self.folder / NAME)
            self._open_journal()
        except BaseException:
            self._lock.release()
            raise

    def _open_journal(self) -> None:
        """Check that the journal belongs to the data, and replay it; begin an empty one."""
        data, entries = self.source.data, self._journal.entries
        self.ids = [str(name) for name in data.node_ids.tolist()]
        self._row = {name: row for row, name in enumerate(self.ids)}
        about = {"source": describe_source(self.source), "digest": self.source.digest}
        if not entries:
            self._journal.append({"act": "open", "time": time.time(), **about})
        elif entries[0].get("digest") != about["digest"]:
            raise InputError(
                f"{self._journal.path} must go with the data that it began with, got other data: "
                "the table or its labels have changed. Name another folder, or restore the table."
            )
        self._state = LabelState(*initial_labels(self.source), self._journal.entries)

    # Acts

    def label(self, id: Any, value: Any) -> None:
        """Label a row, or change its label; a value that is no class yet becomes one."""
        self._act("label", id=self._check_id(id), value=check_class(value))

    def skip(self, id: Any) -> None:
        """Put a row off: it is proposed again when no other row is left.

        A label that was brought back for a second look is kept.
        """
        self._act("skip", id=self._check_id(id))

    def unsure(self, id: Any) -> None:
        """Say that a row cannot be labelled: it loses its label and is not proposed again."""
        self._act("unsure", id=self._check_id(id))

    def undo(self) -> dict[str, Any]:
        """Take the last act back, and return it; as often as there are acts, also earlier ones."""
        with self._mutex:
            if not self._state.acts:
                raise InputError("undo must come after an act, got none that is left to undo.")
            last = dict(self._state.acts[-1])
            self._act("undo")
        return last

    def _act(self, name: str, **fields: Any) -> None:
        """Write an act to the journal, then take it into account."""
        with self._mutex:
            entry = {"act": name, **fields, "time": time.time()}
            self._journal.append(entry)
            self._state.apply(entry)
        self._notify()

    def _check_id(self, id: Any) -> str:
        if str(id) not in self._row:
            raise InputError(f"id must be that of a row of the table, got {quote(id)}.")
        return str(id)

    # One interface for page and widget

    def act(self, message: Mapping[str, Any]) -> dict[str, Any]:
        """Take one message of a page or a widget, and return the state after it.

        A message is a dictionary with ``act`` and what the act needs; anything else raises an
        :class:`~glnn.exceptions.InputError` of one line, and changes nothing. All ids are text.

        ======== ===================== ======================================================
        act      also in the message   what happens
        ======== ===================== ======================================================
        label    ``id``, ``value``     the row gets this label, a new class if need be
        skip     ``id``                put off, or the label of a second look is kept
        unsure   ``id``                no label, not proposed again
        undo                           the last act is taken back
        next     ``k`` (default 3)     nothing; the state has this many proposals
        state                          nothing
        card     ``id``                nothing; the state has ``card``, the card of this row
        fit      ``full`` (default     a fit is asked for; with ``full`` that with all tracks
                 ``true``)             and held-out labels
        ======== ===================== ======================================================

        Any message may have ``k``, the number of proposals (0 to 20), and ``since``, a version:
        the state then has ``changes``, what became of the rows that were changed after it.

        The state is a dictionary of JSON values:

        - ``version``: number of entries of the journal. A page that sees a higher one than it
          knows asks with ``since``. ``fit_version``: number of answers so far; the map
          (:meth:`map_data`) changes with it. It is 0 before the first map is there, and the first
          map (without predictions) has number 1.
        - ``name``, ``id_name``, ``n_rows``; ``counts``: ``labelled``, ``skipped``, ``unsure`` and
          ``open`` rows, which sum to ``n_rows``.
        - ``classes``: list of ``{"name", "count"}`` in the order in which they came up, so that
          number keys keep their meaning.
        - ``undo``: the act that undo would take back (``{"act", "id", "value"}``), or ``None``.
        - ``proposals``: list of cards, the best first.
        - ``fit``: ``{"running": "" | "quick" | "full", "seconds": of the last fit, "kind": of the
          last answer ("" | "quick" | "full"), "n_labels": that it learned from, "error": ""}``;
          ``error`` is one line if the last fit failed, and the earlier answer stays.
        - ``verdict``: a sentence on held-out labels, or why there is none yet.
        - ``curve``: list of ``{"n_labels", "value", "low", "high"}``, accuracy on held-out labels.
        - ``changes`` (with ``since``): list of ``{"id", "status", "label"}``, ``status`` one of
          ``labelled``, ``skipped``, ``unsure``, ``open``, and ``label`` text or ``None``.

        A card is ``{"id", "row", "kind", "reason", "values", "status", "label", "predicted",
        "probabilities", "neighbours"}``: ``kind`` is ``suggested``, ``diverse`` (before the first
        fit), ``second look`` (a label in doubt), ``skipped`` (put off before) or ``chosen``;
        ``reason`` is a sentence; ``values`` are pairs of a column and its text; ``label`` the
        label now or ``None``; ``predicted`` a class or ``None``; ``probabilities`` pairs of a
        class and its probability, the largest first; ``neighbours`` a list of ``{"id", "weight",
        "label", "predicted"}`` in the learned graph, the heaviest first.
        """
        if not isinstance(message, Mapping):
            raise InputError(f"a message must be an object, got {type(message).__name__}.")
        name = check_choice("act", message.get("act"), ACTS)
        k = check_integer("k", message.get("k", 3), low=0, high=20)
        since = message.get("since")
        if since is not None:
            since = check_integer("since", since, low=0)
        if name == "label":
            self.label(message.get("id"), message.get("value"))
        elif name in ("skip", "unsure"):
            getattr(self, name)(message.get("id"))
        elif name == "undo":
            self.undo()
        elif name == "fit":
            self.request_fit(full=bool(message.get("full", True)))
        state = self.state(k, since)
        if name == "card":
            state["card"] = self.card(message.get("id"))
        return state

    def state(self, k: int = 3, since: int | None = None) -> dict[str, Any]:
        """Return the state as :meth:`act` describes it, with ``k`` proposals."""
        with self._mutex:
            now = self._state
            counts = {name: len(getattr(now, name)) for name in ("skipped", "unsure")}
            counts["labelled"] = len(now.labels)
            sizes = dict.fromkeys(now.classes, 0)
            for value in now.labels.values():
                sizes[value] += 1
            last = now.acts[-1] if now.acts else None
            state: dict[str, Any] = {
                "version": now.n_entries,
                "fit_version": 0,
                "name": self.source.data.name,
                "id_name": self.source.id_name,
                "n_rows": len(self.ids),
                "counts": counts | {"open": len(self.ids) - sum(counts.values())},
                "classes": [{"name": name, "count": size} for name, size in sizes.items()],
                "undo": last and {key: last.get(key) for key in ("act", "id", "value")},
                "proposals": self.next(k),
                "fit": {"running": "", "seconds": 0.0, "kind": "", "n_labels": 0, "error": ""},
                "verdict": "no fit yet",
                "curve": [],
            }
            if since is not None:
                rows = [row for row, number in now.changed.items() if number > since]
                state["changes"] = [
                    {"id": row, "status": now.status(row), "label": now.labels.get(row)}
                    for row in rows
                ]
        return state

    def next(self, k: int = 1) -> list[dict[str, Any]]:
        """Return the cards of the ``k`` rows to label next, the best first."""
        with self._mutex:
            rows = [name for name in self.ids if self._state.status(name) == "open"][:k]
            return [self.card(name, "diverse", "not ranked yet") for name in rows]

    def card(self, id: Any, kind: str = "chosen", reason: str = "") -> dict[str, Any]:
        """Return what there is to show of a row; see :meth:`act`."""
        name = self._check_id(id)
        return {
            "id": name,
            "row": self._row[name],
            "kind": kind,
            "reason": reason,
            "values": [],
            "status": self._state.status(name),
            "label": self._state.labels.get(name),
            "predicted": None,
            "probabilities": [],
            "neighbours": [],
        }

    def map_data(self) -> str:
        """Return the block of data of the map, as ``unpackData`` of the page's script reads it."""
        return ""

    def request_fit(self, *, full: bool = True) -> None:
        """Ask for a fit in the background."""

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until no fit is running or due; return whether that is so."""
        return True

    def listen(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call a function after each act and each fit, in any thread; return what ends that."""
        self._listeners.append(callback)
        return lambda: self._listeners.remove(callback)

    def _notify(self) -> None:
        for callback in list(self._listeners):
            callback()

    def widget(self) -> Any:
        """Return the session as a widget for notebooks; needs ``pip install 'glnn[notebook]'``."""
        from glnn.studio.widget import make_widget  # type: ignore[import-not-found]

        return make_widget(self)

    def close(self) -> None:
        """End the session and unlock its folder; a second call does nothing."""
        self._journal.close()
        self._lock.release()

    def __enter__(self) -> "LabelSession":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def check_class(value: Any) -> str:
    """Return the name of a class as text; blank, very long and reserved names are refused."""
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise InputError(f"a label must be text, got {quote(value)}.")
    name = check_text("a label", str(value)).strip()
    if not name or len(name) > _MAX_NAME or name == "-1" or not name.isprintable():
        raise InputError(
            f"a label must be text of 1 to {_MAX_NAME} printable characters and not '-1', which "
            f"marks rows without a label; got {quote(value)}."
        )
    return name
