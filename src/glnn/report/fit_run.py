"""One run from data to results: fit, compare on the same labels, count."""

import dataclasses
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from glnn._validation import check_integer
from glnn.data import NodeData, Split
from glnn.data.files import plain_name
from glnn.data.lock import WriterLock
from glnn.engine.callbacks import Progress, ProgressLog
from glnn.engine.presets import resolve_settings
from glnn.engine.settings import FitSettings
from glnn.estimator import GLNNClassifier
from glnn.exceptions import InputError
from glnn.peers import ALONE, Peers
from glnn.peers.group import agreed
from glnn.quality.plain import PLAIN_METHODS, NodeProblem, comparable_features, get_plain
from glnn.report.facts import GraphFacts
from glnn.report.graph_log import GraphLog, logged_rounds
from glnn.report.link_terms import link_terms, metric_columns
from glnn.report.page.data import Search
from glnn.report.results import FitResults, accuracy
from glnn.report.run_folder import prepare_folder
from glnn.report.run_labels import class_numbers, hidden_labels, visible_labels
from glnn.report.sources import OpenedSource, Reading, TakenRows
from glnn.report.tested import Score
from glnn.report.threads import threads_for

COMPARED = tuple(PLAIN_METHODS)

Watch = Callable[[Progress], None]


@dataclass(frozen=True)
class FitOptions:
    """How to fit; ``None`` leaves a setting to the preset.

    ``threads`` of ``None`` means one thread below 10,000 nodes, where more of them wait for each
    other longer than they work, and PyTorch's own choice above. ``command`` is what was typed, for
    the report; ``more`` are further parameters of the estimator, which give way to the options, and
    ``search`` how they were found.
    """

    preset: str = "default"
    head: str | None = None
    seed: int = 0
    n_neighbors: int | None = None
    n_epochs: int | None = None
    device: str = "cpu"
    threads: int | None = None
    class_weight: str | None = None
    command: str = ""
    more: Mapping[str, Any] = field(default_factory=dict)
    search: Search | None = None

    def check(self) -> None:
        """Refuse a wrong option before any work is done."""
        self.settings()
        check_integer("--seed", self.seed, low=0)
        if self.class_weight not in (None, "balanced"):
            raise InputError(
                f"--class-weight must be balanced, got {self.class_weight!r}. Leave it out, and "
                "every label counts the same."
            )
        if self.threads is not None:
            check_integer("--threads", self.threads, low=1)
        check_device(self.device)

    def on_own_device(self) -> "FitOptions":
        """Return the options with this process's GPU, where several share one machine."""
        if self.device != "cuda" or "LOCAL_RANK" not in os.environ:
            return self
        return dataclasses.replace(self, device=f"cuda:{os.environ['LOCAL_RANK']}")

    def settings(self) -> FitSettings:
        """Return all settings of the fit."""
        return resolve_settings(self.preset, self.head, self._changes())

    def expected_epochs(self, *, has_graph: bool) -> int:
        """Return the epochs of all rounds; choices made on validation nodes come on top."""
        settings = self.settings()
        n_rounds = settings.graph_settings(has_graph).n_rounds
        return settings.head.n_epochs * (1 if settings.is_literal else n_rounds)

    def estimator(self, watch: Watch | None = None, calibrate: str | None = None) -> GLNNClassifier:
        """Return the unfitted estimator; the estimate's folds calibrate it later."""
        callbacks = [GraphLog(), *([] if watch is None else [ProgressLog(watch)])]
        model = GLNNClassifier(random_state=self.seed, device=self.device, callbacks=callbacks)
        changes = self._changes() | {"calibrate": calibrate, "class_weight": self.class_weight}
        return model.set_params(preset=self.preset, head=self.head, **changes)

    def _changes(self) -> dict[str, Any]:
        wanted = {"n_neighbors": self.n_neighbors, "n_epochs": self.n_epochs}
        return {**self.more, **{name: v for name, v in wanted.items() if v is not None}}


def check_device(device: str) -> None:
    """Refuse a device that PyTorch cannot compute on here."""
    try:
        torch.empty(1, device=device).sum().item()
    except (RuntimeError, AssertionError, NotImplementedError):
        n_cuda = torch.cuda.device_count()
        here = ["cpu", *(f"cuda:{k}" for k in range(n_cuda))]
        raise InputError(
            f"device must be one that works here ({', '.join(here)}), got {device!r}."
        ) from None


@dataclass(frozen=True, eq=False)
class Start:
    """What is known before a fit: the data of this process, and where its run will lie.

    With several processes ``opened`` has no feature values; ``rows`` has those of this process.
    The first of them holds the ``lock`` of the folder.
    """

    folder: Path
    opened: OpenedSource
    split: Split
    rows: TakenRows
    lock: WriterLock | None = None

    @classmethod
    def of(cls, folder: Path, opened: OpenedSource, split: Split) -> "Start":
        """Take all rows: there is no other process."""
        return cls(folder, opened, split, TakenRows(opened.data.features, opened.data.graph))

    def release(self) -> None:
        """Let others write to the run folder."""
        if self.lock is not None:
            self.lock.release()


def prepared(
    reading: Reading,
    options: FitOptions,
    out: Path | None = None,
    *,
    overwrite: bool = False,
    resume: bool = False,
    peers: Peers = ALONE,
) -> Start:
    """Check options and data in every process, the run folder in process 0."""
    starts: list[Start] = []

    def check() -> None:
        options.check()
        opened, split, rows = reading.open(peers)
        name = f"{plain_name(opened.data.name)}-{options.preset}-{options.seed}"
        folder, lock = out or Path("runs") / name, None
        if peers.rank == 0:
            lock = prepare_folder(folder, overwrite=overwrite, resume=resume)
        starts.append(Start(folder, opened, split, rows, lock))

    agreed(peers, check)
    return starts[0]


def run_fit(
    start: Start,
    options: FitOptions,
    *,
    compared: tuple[str, ...] = (),
    watch: Watch | None = None,
    peers: Peers = ALONE,
    checkpoint: Path | None = None,
    calibrates: bool = False,
) -> tuple[FitResults | None, GLNNClassifier]:
    """Fit on the labels of a split, run the methods to compare, and count in process 0.

    Parameters
    ----------
    start
        The data, and which labels train, choose the epoch and test.
    options
        How to fit. Unless it says otherwise, each of several processes has one thread: they
        share the processors.
    compared
        Names of plain methods that get the same labels; process 0 reads all the data for them.
    watch
        Told how far the work is; a plain method is a stage of no epochs.
    peers
        The processes of the fit.
    checkpoint
        Folder of the state after each round, or ``None``.
    calibrates
        Whether some labels may be hidden in a second fit to calibrate probabilities, where no
        validation nodes do it and no estimate will: there are labels left to test.
    """
    opened, split, rows = start.opened, start.split, start.rows
    hides_labels = calibrates and split.test.size > 0 and peers.size == 1
    y, n_nodes = visible_labels(opened.data, split), opened.data.n_nodes
    model = options.estimator(watch, "auto" if split.val.size or hides_labels else None)
    with threads_for(n_nodes if peers.size == 1 else 0, options.threads):
        started = time.perf_counter()
        model.fit(rows.features, y, rows.graph, split.val, peers=peers, checkpoint=checkpoint)
        seconds = time.perf_counter() - started
        if peers.rank:
            return None, model
        whole = opened.data
        if compared and peers.size > 1:
            whole = whole.replace(features=opened.source.open().data.features)
        others = [compared_score(name, whole, split, options.seed, watch) for name in compared]
    return results_of(opened, split, options, model, seconds, others), model


def results_of(
    opened: OpenedSource,
    split: Split,
    options: FitOptions,
    model: GLNNClassifier,
    fit_seconds: float,
    others: Sequence[Score] = (),
) -> FitResults:
    """Count what a fitted model found; ``others`` are scores to show beside it."""
    data, seconds = opened.data, {"fit": fit_seconds}
    classes = class_numbers(data, model.classes_)
    predictions = classes[model.label_distributions_.argmax(1)]
    nodes = model.fitted_nodes(data.column_names)
    own = Score("GLNN", accuracy(predictions, data.labels, split.test), fit_seconds)
    return FitResults(
        data=data,
        split=split,
        classes=classes,
        probabilities=model.label_distributions_,
        adjacency=model.graph_,
        certificate=model.certificate_,
        facts=GraphFacts.of(model.graph_, hidden_labels(data, split), data.graph),
        scores=(own, *others),
        history=model.history_,
        settings=used_settings(options.settings(), data.graph is not None, model.choices_),
        seed=options.seed,
        device=options.device,
        seconds=seconds | {score.method: score.seconds for score in others},
        notes=opened.notes,
        command=options.command,
        rounds=logged_rounds(model.callbacks),
        terms=link_terms(nodes),
        metric=metric_columns(nodes),
        digest=opened.digest,
        trust=model.edge_trust_,
        search=options.search,
        calibration=model.calibration_,
    )


def used_settings(
    settings: FitSettings, has_graph: bool, choices: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the settings that were in force, as plain values, and what the fit chose itself."""
    page = dataclasses.asdict(settings)
    page["graph"] = dataclasses.asdict(settings.graph_settings(has_graph))
    del page["no_graph"]
    return {**page, "chosen": dict(choices)}


def compared_score(
    name: str, data: NodeData, split: Split, seed: int, watch: Watch | None
) -> Score:
    """Run one plain method on the same labels."""
    method = get_plain(name)
    if watch is not None:
        watch(Progress(method.title, 0, 0))
    features = comparable_features(data.features)
    problem = NodeProblem(features, data.graph, data.labels, split.train, split.val, data.n_classes)
    predicted = method.fit_predict(problem, seed)
    right = accuracy(predicted.classes, data.labels, split.test)
    kept = predicted.probabilities[split.test]
    return Score(method.title, right, predicted.seconds, probabilities=kept, name=name)
