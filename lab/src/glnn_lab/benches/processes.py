"""Time of fits over several processes, each with one thread."""

from collections.abc import Callable, Sequence
from typing import Any

from glnn._utils import check_integer
from glnn.data import NodeData, Split
from glnn.distributed import Partition, Peers, join_processes
from glnn.estimator import GLNNClassifier
from glnn.exceptions import InputError
from glnn_lab.benches.child import run_in_process, time_call
from glnn_lab.benches.compare import TINY, load_bench
from glnn_lab.benches.growth import exponents, make_data
from glnn_lab.experiments.machine import machine_facts, software_versions
from glnn_lab.experiments.methods import visible_labels

PROCESSES = (1, 2, 4)


def measure_processes(data: str | int, n_epochs: int | None) -> dict[str, Any]:
    """Return the time of one fit over all processes of this job.

    ``data`` is the name of a data set or the number of nodes of a generated graph. ``seconds`` are
    those of the slowest process, ``cpu_seconds`` those of all processes together, ``cpu_of_one``
    those of the busiest process.
    """
    with join_processes() as peers:
        _fit(*_load(TINY), 2, peers)  # imports are not timed
        nodes, split = _load(data)
        peers.all_reduce(0.0)  # a barrier: all processes start together
        model, measured = time_call(lambda: _fit(nodes, split, n_epochs, peers))
        found = {
            "n_nodes": nodes.n_nodes,
            "n_epochs": model.n_iter_,
            "seconds": round(peers.all_reduce(measured.seconds, "max"), 3),
            "cpu_seconds": round(peers.all_reduce(measured.cpu_seconds), 3),
            "cpu_of_one": round(peers.all_reduce(measured.cpu_seconds, "max"), 3),
        }
        if peers.rank == 0:  # only rank 0 has all rows
            right = (model.transduction_ == nodes.labels)[split.test]
            found["accuracy"] = round(float(right.mean()), 4)
        return found


def _load(data: str | int) -> tuple[NodeData, Split]:
    if isinstance(data, str):
        return load_bench(data)
    nodes = make_data(data)
    return nodes, Split(**nodes.splits, name="generated", seed=0, dataset=nodes.name)


def _fit(data: NodeData, split: Split, n_epochs: int | None, peers: Peers) -> GLNNClassifier:
    rows = Partition(data.n_nodes, peers).rows
    graph = None if data.graph is None else data.graph[rows]
    model = GLNNClassifier(random_state=0, n_epochs=n_epochs, calibrate=None)
    return model.fit(
        data.features[rows], visible_labels(data, split), graph, split.val, peers=peers
    )


def run_processes(
    data: Sequence[str | int],
    *,
    processes: Sequence[int] = PROCESSES,
    n_epochs: int | None = None,
    watch: Callable[[str], None] | None = None,
    keep: Callable[[dict[str, Any]], None] | None = None,
) -> dict[str, Any]:
    """Fit each data set with each number of processes; fit the exponents of generated graphs.

    ``data`` holds names of data sets and numbers of nodes of generated graphs, each at least 200.
    """
    if not data or not processes:
        raise InputError("a bench of processes must have data and numbers of processes, got none.")
    counts = [check_integer("processes", count, low=1) for count in processes]
    rows: list[dict[str, Any]] = []
    result: dict[str, Any] = {
        "threads": 1,
        "n_epochs": n_epochs,
        "machine": machine_facts(),
        "versions": software_versions(),
        "rows": rows,
    }
    for one in data:
        for count in counts:
            if watch is not None:
                watch(f"{one}: {count} process(es)")
            job = {"data": one, "n_epochs": n_epochs}
            found = run_in_process("processes", 1, processes=count, **job)
            rows.append({"task": str(count), "data": one, **found})
            grown = [row for row in rows if isinstance(row["data"], int) and "n_nodes" in row]
            result["exponents"] = exponents(grown)
            if keep is not None:
                keep(result)
    return result
