"""A labelling session: it proposes rows, takes labels, and learns from them in the background."""

import csv
import hashlib
import io
import json
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from glnn._utils import check_choice, check_integer
from glnn.data.files import (
    check_replaceable,
    lock_folder,
    one_line,
    quote,
    quote_path,
    remove_leftovers,
    replace_folder,
    write_file,
)
from glnn.data.node_data import check_text
from glnn.data.table_files import escape_formula
from glnn.exceptions import GlnnError, InputError, StoppedError
from glnn.report.columns import columns_of_features
from glnn.report.run_folder import RUN_FILES
from glnn.report.text import verdict_line
from glnn.studio.journal import NAME, Journal, LabelState
from glnn.studio.learning import CHECKED, FULL, KINDS, QUICK, Answer, Learner
from glnn.studio.opening import (
    choose_folder,
    describe_place,
    initial_labels,
    open_source,
    run_labels,
)
from glnn.studio.proposals import Proposals

ACTS = ("label", "skip", "unsure", "undo", "next", "state", "fit", "card")
_POINT = ("kind", "n_labels", "value", "low", "high")  # of the learning curve
_WRITTEN = ".run"  # folder of a run that is not in place yet
_MAX_NAME = 200  # characters of a class name
_PAUSE = 10.0  # seconds without a new label after which the full fit starts
_GROWTH, _FEWEST = 1.25, 10  # a checked fit is due when labels, at least so many, grew so much


class LabelSession:
    """Label the rows of a table with proposals from a model that learns as you label.

    Every act is on the disk before the call returns, so nothing is lost if the process is killed;
    the same folder opens again with all labels. Fits run in one thread in the background: a quick
    one after each label, one with held-out labels whenever labels have grown by a quarter, and the
    full one, with all tracks, when no label has come for ten seconds. The last good answer stays
    until the next one is there.

    Parameters
    ----------
    data
        A table or data set as in ``glnn fit`` (a path or a name), a DataFrame, the run folder of
        ``glnn fit``, or the folder of a session.
    folder
        Where journal and answers are kept; by default ``runs/NAME-studio``. After a fit with
        all tracks it is also a run folder for ``glnn predict``, ``report`` and ``export``.
    graph
        Edges between the rows: a path, or for a DataFrame any graph that ``fit`` takes.
    label
        The column of labels so far; by default ``label`` if there is one. Empty cells and words
        such as ``unknown`` are rows without a label. For a DataFrame also a label for each row.
    options
        Fields of :class:`glnn.data.TableOptions` by name, such as ``{"id_column": "name"}``.
    params
        Parameters of :class:`glnn.GLNNClassifier` for the fits, such as ``{"n_epochs": 50}``.
    seed
        Of the fits.
    background
        Whether fits start by themselves; otherwise only :meth:`fit` starts one.

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
        check_integer("seed", seed, low=0)
        self._mutex = threading.Condition()  # also notified where a fit may be due or has ended
        self._fitting, self._drawing = threading.Lock(), threading.Lock()
        self._listeners: list[Callable[[], None]] = []
        self.folder = choose_folder(data, folder)
        check_replaceable(self.folder)
        self._lock = lock_folder(self.folder.resolve())
        try:
            remove_leftovers(self.folder.resolve())
            self.source = open_source(data, self.folder, graph, label, dict(options or {}))
            _ = self.source.data  # read before a journal begins
            self.folder.mkdir(parents=True, exist_ok=True)
            self._journal = Journal(self.folder / NAME)
            self._open_journal()
            self._learner = Learner(self.source, params or {}, seed)
            names, report = self.source.data.column_names, self.source.report
            encoder = None if report is None else report.encoder
            columns = columns_of_features(self.source.table, names, encoder, ())
            first = self._learner.prepare()
            self._proposals = Proposals(self.ids, self._row, columns, first)
        except BaseException:
            self._lock.release()
            raise
        self._fit_version, self._map = 1, (0, "")
        self._running = self._error = self._wanted = ""
        self._is_asked = self._is_closed = False
        self._last_label, self._thread = time.monotonic() - _PAUSE, None
        if self._state.n_entries == 1:
            own = self._state.labels
            self.import_labels({k: v for k, v in run_labels(data).items() if own.get(k) != v})
        if background:
            self._thread = threading.Thread(target=self._work, name="glnn-studio", daemon=True)
            self._thread.start()

    def _open_journal(self) -> None:
        """Check that the journal belongs to the data, and replay it; begin an empty one."""
        data, entries = self.source.data, self._journal.entries
        self.ids = [str(name) for name in data.node_ids.tolist()]
        self._row = {name: row for row, name in enumerate(self.ids)}
        about = {"source": describe_place(self.source, self.folder), "digest": self.source.digest}
        if not entries:
            self._journal.append({"act": "open", "time": time.time(), **about})
        elif entries[0].get("digest") != about["digest"]:
            raise InputError(
                f"{quote_path(self._journal.path)} must go with the data that it began with, got "
                "other data: the table or its labels have changed. Name another folder, or restore "
                "the table."
            )
        self._state = LabelState(*initial_labels(self.source), entries)
        points = [entry for entry in entries if entry["act"] == "estimate"]
        self._tried = dict.fromkeys(KINDS, "") | {one["kind"]: one["labels"] for one in points}
        self._verdict = points[-1]["verdict"] if points else "no estimate yet"
        self._curve = [
            {name: one[name] for name in _POINT} for one in points if one["value"] is not None
        ]

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
            if self._is_closed:
                raise InputError("the session must be open, got a closed one. Open it again.")
            entry = {"act": name, **fields, "time": time.time()}
            row = fields.get("id") or (name == "undo" and self._state.acts[-1].get("id")) or None
            self._journal.append(entry)
            self._state.apply(entry)
            self._proposals.note_act(name, row)
            if name != "skip":
                self._last_label = time.monotonic()
                # a full fit that nobody has asked for is given up, as it takes long
                self._learner.is_stopped |= self._running == FULL and not self._is_asked
            self._mutex.notify_all()
        self._notify()

    def _check_id(self, id: Any) -> str:
        if str(id) not in self._row:
            raise InputError(f"id must be that of a row of the table, got {quote(id)}.")
        return str(id)

    # One interface for page and widget

    def act(self, message: Any) -> dict[str, Any]:
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
        fit      ``kind`` (default     a fit is asked for: ``quick``, ``checked`` (with held-out
                 ``full``)             labels) or ``full`` (also with all tracks and rivals)
        ======== ===================== ======================================================

        Any message may have ``k``, the number of proposals (0 to 20), and ``since``, a version:
        the state then has ``changes``, what became of the rows that were changed after it.

        The state is a dictionary of JSON values:

        - ``version``: number of entries of the journal. A page that sees a higher one than it
          knows asks with ``since``. ``fit_version``: number of answers so far; the map
          (:meth:`map_data`) changes with it. The first one, number 1, has no predictions.
        - ``name``, ``id_name``, ``n_rows``; ``counts``: ``labelled``, ``skipped``, ``unsure`` and
          ``open`` rows, which sum to ``n_rows``.
        - ``classes``: list of ``{"name", "count"}`` in the order in which they came up, so that
          number keys keep their meaning.
        - ``undo``: the act that undo would take back (``{"act", "id", "value"}``), or ``None``.
        - ``proposals``: list of cards, the best first.
        - ``fit``: ``{"running", "seconds", "kind", "n_labels", "error"}``: the kind of fit that
          runs now (``quick``, ``checked``, ``full`` or empty); seconds, kind and labels of that
          of the last answer; one line if the last fit failed, and the earlier answer stays.
        - ``verdict``: a sentence on held-out labels, or why there is none yet.
        - ``curve``: list of ``{"kind", "n_labels", "value", "low", "high"}``: accuracy on labels
          that fits of this kind had not seen, with its interval.
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
            self.request_fit(message.get("kind", FULL))
        state = self.state(k, since)
        if name == "card":
            state["card"] = self.card(message.get("id"))
        return state

    def state(self, k: int = 3, since: int | None = None) -> dict[str, Any]:
        """Return the state as :meth:`act` describes it, with ``k`` proposals."""
        with self._mutex:
            now, answer = self._state, self._proposals.answer
            counts = {name: len(getattr(now, name)) for name in ("skipped", "unsure")}
            counts["labelled"] = len(now.labels)
            sizes = dict.fromkeys(now.classes, 0)
            for value in now.labels.values():
                sizes[value] += 1
            last = now.acts[-1] if now.acts else None
            state: dict[str, Any] = {
                "version": now.n_entries,
                "fit_version": self._fit_version,
                "name": self.source.data.name,
                "id_name": self.source.id_name,
                "n_rows": len(self.ids),
                "counts": counts | {"open": len(self.ids) - sum(counts.values())},
                "classes": [{"name": name, "count": size} for name, size in sizes.items()],
                "undo": last and {key: last.get(key) for key in ("act", "id", "value")},
                "proposals": self.next(k),
                "fit": {
                    "running": self._running,
                    "seconds": answer.seconds,
                    "kind": answer.kind,
                    "n_labels": answer.n_labels,
                    "error": self._error,
                },
                "verdict": self._verdict,
                "curve": list(self._curve),
            }
            if since is not None:
                rows = [row for row, number in now.changed.items() if number > since]
                state["changes"] = [
                    {"id": row, "status": now.status(row), "label": now.labels.get(row)}
                    for row in rows
                ]
        return state

    def next(self, k: int = 1) -> list[dict[str, Any]]:
        """Return the cards of the ``k`` rows to act on next, the best first; see :meth:`act`."""
        with self._mutex:
            return self._proposals.choose(self._state, check_integer("k", k, low=0))

    def card(self, id: Any) -> dict[str, Any]:
        """Return what there is to show of a row; see :meth:`act`."""
        with self._mutex:
            return self._proposals.card(self._state, self._check_id(id), "chosen", "")

    def map_data(self) -> str:
        """Return the block of data of the map, as ``unpackData`` of the page's script reads it."""
        with self._drawing:
            with self._mutex:
                version, results = self._fit_version, self._proposals.answer.results
            if self._map[0] != version:
                self._map = version, self._learner.draw_map(results)
            return self._map[1]

    # Fits

    def fit(self, kind: str = FULL) -> None:
        """Fit to the labels so far, and wait for the answer; an error of the fit is raised.

        ``kind`` is ``quick``, ``checked`` or ``full``, as in :meth:`act`.
        """
        self.request_fit(kind)
        if self._thread is None:
            self._run(kind)
        else:
            self.wait()
        if self._error:
            raise InputError(self._error)

    def request_fit(self, kind: str = FULL) -> None:
        """Ask for a fit in the background."""
        check_choice("kind", kind, KINDS)
        with self._mutex:
            if len(set(self._state.labels.values())) < 2:
                raise InputError("a fit needs labels of two classes at least, got fewer.")
            self._wanted = kind
            self._mutex.notify_all()

    def wait(self, timeout: float | int | None = None, *, full: bool = False) -> bool:
        """Wait until no fit runs or is wanted; return whether that is so.

        With ``full`` also until the full fit that follows a pause.
        """

        def is_idle() -> bool:
            kind, delay = self._due()
            return not (self._running or kind or (full and delay is not None))

        with self._mutex:
            return self._mutex.wait_for(is_idle, timeout)

    def _due(self) -> tuple[str, float | None]:
        """Return the kind of the fit to start now, or how long to wait for one."""
        labels = self._state.labels
        if len(set(labels.values())) < 2:
            return "", None
        if self._wanted:
            return self._wanted, None
        now, tried = fingerprint(labels), self._tried
        if now == tried[FULL] and self._proposals.answer.has_predictions:
            return "", None
        n_judged = self._curve[-1]["n_labels"] if self._curve else 0
        if now != tried[CHECKED] and len(labels) >= max(_FEWEST, _GROWTH * n_judged):
            return CHECKED, None
        if not self._proposals.answer.has_predictions or now not in tried.values():
            return QUICK, None
        delay = self._last_label + _PAUSE - time.monotonic()
        return (FULL, None) if delay <= 0 else ("", delay)

    def _work(self) -> None:
        """Run fits, one after the other, until the session is closed."""
        while True:
            with self._mutex:
                kind, delay = self._due()
                while not kind and not self._is_closed:
                    self._mutex.wait(delay)
                    kind, delay = self._due()
                if self._is_closed:
                    return
            self._run(kind)

    def _run(self, kind: str) -> None:
        """Fit once; a fit that fails leaves the last good answer and one line that says why."""
        with self._fitting:
            with self._mutex:
                labels, classes = dict(self._state.labels), list(self._state.classes)
                self._tried[kind], self._running = fingerprint(labels), kind
                self._is_asked, self._wanted = bool(self._wanted), ""
                self._learner.is_stopped = self._is_closed
            self._notify()
            error = ""
            try:
                self._learn(kind, labels, classes)
            except StoppedError:
                pass
            except GlnnError as found:
                error = one_line(found, 300)
            except Exception as found:
                error = one_line(f"the fit failed: {type(found).__name__}: {found}", 300)
            with self._mutex:
                self._running, self._error = "", error
                self._mutex.notify_all()
        self._notify()

    def _learn(self, kind: str, labels: dict[str, str], classes: list[str]) -> None:
        answer = self._learner.fit(kind, labels, classes)
        with self._mutex:
            self._proposals.set_answer(answer)
            self._fit_version += 1
            if kind != QUICK:
                self._note_estimate(answer, fingerprint(labels))
        if kind == FULL:
            self._write_run(answer)

    def _write_run(self, answer: Answer) -> None:
        """Make the folder a run folder; acts wait only while the files are moved into place."""
        written = self.folder / _WRITTEN
        self._learner.write(written, answer)
        with self._mutex, replace_folder(self.folder, {*RUN_FILES, NAME, _WRITTEN}) as new:
            for file in written.iterdir():
                file.rename(new / file.name)
            write_file(new / NAME, self._journal.path.read_bytes())

    def _note_estimate(self, answer: Answer, labels: str) -> None:
        """Add the estimate of a full fit to the journal and to the curve."""
        results = answer.results
        point: dict[str, Any] = {"kind": answer.kind, "value": None}
        self._verdict = verdict_line(results)
        if results.evaluation is not None:
            found = results.evaluation.metrics["accuracy"]
            shares = found.value, found.low, found.high
            point = dict(zip(_POINT, (answer.kind, answer.n_labels, *shares)))
            self._curve.append(point)
        entry = {"act": "estimate", **point, "labels": labels, "verdict": self._verdict}
        self._journal.append(entry | {"time": time.time()})
        self._state.apply(entry)

    # In and out

    @property
    def labels(self) -> dict[str, str]:
        """The labels so far, by row id."""
        with self._mutex:
            return dict(self._state.labels)

    def predictions(self) -> dict[str, str]:
        """Return the predicted class of each row by its id; nothing before the first fit."""
        with self._mutex:
            answer = self._proposals.answer
        names = answer.results.class_names
        found = [names[k] for k in answer.results.predictions.tolist()]
        return dict(zip(self.ids, found)) if answer.has_predictions else {}

    def labels_csv(self) -> str:
        """Return ids and labels as the text of a CSV file, without formulas for spreadsheets."""
        labels, file = self.labels, io.StringIO()
        rows = [(self.source.id_name, "label")] + [(k, labels[k]) for k in self.ids if k in labels]
        csv.writer(file, lineterminator="\n").writerows(map(escape_formula, row) for row in rows)
        return file.getvalue()

    def export_labels(self, path: str | Path | None = None) -> Path:
        """Write ids and labels to a CSV file, by default ``labels.csv`` in the folder."""
        place = self.folder / "labels.csv" if path is None else Path(path)
        write_file(place, self.labels_csv())
        return place

    def import_labels(self, labels: Mapping[str, Any]) -> None:
        """Set several labels by row id in one act, which one undo takes back."""
        checked = {self._check_id(row): check_class(value) for row, value in labels.items()}
        if checked:
            self._act("labels", labels=checked)

    def listen(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call a function after each act and each fit, in any thread; return what ends that."""
        self._listeners.append(callback)
        return lambda: self._listeners.remove(callback)

    def _notify(self) -> None:
        for callback in list(self._listeners):
            callback()

    def widget(self) -> Any:
        """Return the session as a widget for notebooks; needs ``pip install 'glnn[notebook]'``."""
        from glnn.studio.page import make_widget

        return make_widget(self)

    def close(self) -> None:
        """End the session and unlock its folder; a second call does nothing.

        A fit that is running is given up.
        """
        with self._mutex:
            self._is_closed = self._learner.is_stopped = True
            self._mutex.notify_all()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()
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


def fingerprint(labels: Mapping[str, str]) -> str:
    """Return a digest of labels by row id."""
    text = json.dumps(sorted(labels.items()))
    return hashlib.sha256(text.encode()).hexdigest()[:16]
