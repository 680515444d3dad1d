"""Measure a fit on a device: whole fits after a warm-up, their stages, and one epoch, as JSON.

    python lab/scripts/gpu_bench.py cora paper default --device cuda
    python lab/scripts/gpu_bench.py arxiv-size default --device cuda --repeats 1

A data set has a name of ``glnn data list`` or is one of the generated
sizes ``arxiv-size`` and ``products-size``.
"""

import argparse
import json
import statistics
import time

import numpy as np
import torch

from glnn import GLNNClassifier
from glnn.data import NodeData, load_dataset
from glnn.engine.callbacks import Callback
from glnn.engine.inputs import Scaling, make_generator
from glnn.engine.settings import resolve_settings
from glnn.engine.tasks import ClassifierTask, Labels
from glnn.engine.trainer import Trainer
from glnn.graph import prior_graph
from glnn.nn import Features
from glnn_lab.experiments.scale import SIZES, attributed_graph


class StageTimes(Callback):
    """Seconds of each stage; ``may_lag`` keeps the callback from slowing the fit."""

    may_lag = True

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    def on_stage_begin(self, stage: str, n_epochs: int) -> None:
        """Start the clock."""
        self._began = time.perf_counter()

    def on_stage_end(self, stage: str) -> None:
        """Add the time of the stage; some stages run more than once."""
        spent = time.perf_counter() - self._began
        self.seconds[stage] = round(self.seconds.get(stage, 0.0) + spent, 4)


def load(name: str, folder: str | None) -> NodeData:
    """Return a published data set, or a generated one of a published size."""
    if name in SIZES:
        return attributed_graph(SIZES[name], 0, name=name)
    return load_dataset(name, folder=folder)


def whole_fit(data: NodeData, preset: str, device: str, repeats: int) -> dict[str, object]:
    """Return the seconds of the first and of the later fits, and results of the last one."""
    train, val, test = (data.splits[part] for part in ("train", "val", "test"))
    y = np.full(data.n_nodes, -1)
    y[train], y[val] = data.labels[train], data.labels[val]
    seconds = []
    for _ in range(repeats + 1):
        stages = StageTimes()
        model = GLNNClassifier(preset, random_state=0, device=device, callbacks=[stages])
        began = time.perf_counter()
        model.fit(data.features, y, graph=data.graph, validation=val)
        seconds.append(time.perf_counter() - began)
    held = torch.cuda.max_memory_allocated() if torch.device(device).type == "cuda" else 0
    return {
        "preset": preset,
        "device_gib": round(held / 2**30, 2),
        "first_fit_s": round(seconds[0], 3),
        "fit_s": round(statistics.median(seconds[1:] or seconds), 4),
        "least_fit_s": round(min(seconds[1:] or seconds), 4),
        "n_epochs": model.n_iter_,
        "stages_s": stages.seconds,
        "test_accuracy": round(float((model.transduction_ == data.labels)[test].mean()), 4),
    }


def epoch_milliseconds(data: NodeData, preset: str, device: str) -> float:
    """Return the time of one epoch on the given graph, from runs of 1,100 and 100 epochs."""
    train, val = data.splits["train"], data.splits["val"]
    head = resolve_settings(preset).head
    features = Features.of(Scaling.fit(data.features).apply(data.features), device=device)
    labels = Labels(train.copy(), data.labels[train], data.n_nodes, data.n_classes)
    chosen = Labels(val.copy(), data.labels[val], data.n_nodes, data.n_classes)
    chosen = chosen.to(features.device)
    spent = {}
    for n_epochs in (100, 100, 1100):
        task = ClassifierTask(
            prior_graph(data.graph, "renormalized"),
            features,
            labels,
            head,
            init=make_generator(0, 1),
            noise=make_generator(0, 2, device=device),
        )
        trainer = Trainer(n_epochs=n_epochs, learning_rate=head.learning_rate)
        began = time.perf_counter()
        trainer.fit(task, chosen)
        spent[n_epochs] = time.perf_counter() - began
    return round(spent[1100] - spent[100], 4)  # 1,000 epochs, in seconds: one in milliseconds


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("dataset")
    parser.add_argument("presets", nargs="+")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--data", help="folder of the data sets; else GLNN_DATA")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--no-epoch", action="store_true", help="leave out the time of an epoch")
    options = parser.parse_args()
    began = time.perf_counter()
    data = load(options.dataset, options.data)
    is_cuda = torch.device(options.device).type == "cuda"
    page: dict[str, object] = {
        "dataset": options.dataset,
        "n_nodes": data.n_nodes,
        "n_edges": data.n_edges,
        "device": torch.cuda.get_device_name() if is_cuda else "cpu",
        "torch": torch.__version__,
        "data_s": round(time.perf_counter() - began, 2),
    }
    for preset in options.presets:
        found = whole_fit(data, preset, options.device, options.repeats)
        if not options.no_epoch:
            found["epoch_ms"] = epoch_milliseconds(data, preset, options.device)
        print(json.dumps(page | found), flush=True)


if __name__ == "__main__":
    main()
