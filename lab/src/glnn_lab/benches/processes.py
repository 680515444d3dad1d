"""What a fit takes over several processes, each with one thread."""

from collections.abc import Callable, Sequence
from typing import Any

from glnn._utils import check_integer
from glnn.data import NodeData, Split
from glnn.distributed import Partition, Peers, joined_peers
from glnn.estimator import GLNNClassifier
from glnn.exceptions import InputError
from glnn_lab.benches.child import in_fresh_process, timed
from glnn_lab.benches.compare import TINY, open_bench
from glnn_lab.benches.growth import exponents, grown_data
from glnn_lab.experiments.machine import machine_facts, versions
from glnn_lab.experiments.methods import masked_labels

PROCESSES = (1, 2, 4)


def measure_processes(data: str | int, n_epochs: int | None) -> dict[str, Any]:
    """Return what one fit takes over the processes that were started together.

    ``seconds`` are those of the slowest process; processor seconds those of all together, and of
    the one that took most, which other work on the machine disturbs less.

    Parameters
    ----------
    data
        The name of a data set, or a number of nodes to make up.
    n_epochs
        Epochs of each classifier step; ``None``: the preset's.
    """
    with joined_peers() as peers:
        _fitted(*_opened(TINY), 2, peers)  # what is loaded at first use is not timed
        nodes, split = _opened(data)
        peers.all_reduce(0.0)  # all begin together
        model, measured = timed(lambda: _fitted(nodes, split, n_epochs, peers))
        found = {
            "n_nodes": nodes.n_nodes,
            "n_epochs": model.n_iter_,
            "seconds": round(peers.all_reduce(measured.seconds, "max"), 3),
            "cpu_seconds": round(peers.all_reduce(measured.cpu_seconds), 3),
            "cpu_of_one": round(peers.all_reduce(measured.cpu_seconds, "max"), 3),
        }
        if peers.rank == 0:  # which alone has all rows
            right = (model.transduction_ == nodes.labels)[split.test]
            found["accuracy"] = round(float(right.mean()), 4)
        return found


def _opened(data: str | int) -> tuple[NodeData, Split]:
    if isinstance(data, str):
        return open_bench(data)
    nodes = grown_data(data)
    return nodes, Split(**nodes.splits, name="generated", seed=0, dataset=nodes.name)


def _fitted(data: NodeData, split: Split, n_epochs: int | None, peers: Peers) -> GLNNClassifier:
    rows = Partition(data.n_nodes, peers).rows
    graph = None if data.graph is None else data.graph[rows]
    model = GLNNClassifier(random_state=0, n_epochs=n_epochs, calibrate=None)
    return model.fit(data.features[rows], masked_labels(data, split), graph, split.val, peers=peers)


def run_processes(
    data: Sequence[str | int],
    *,
    processes: Sequence[int] = PROCESSES,
    n_epochs: int | None = None,
    watch: Callable[[str], None] | None = None,
    keep: Callable[[dict[str, Any]], None] | None = None,
) -> dict[str, Any]:
    """Fit each data set with each number of processes, and fit the exponents of made-up ones.

    Parameters
    ----------
    data
        Names of data sets, and numbers of nodes to make up, each at least 200.
    processes
        Numbers of processes; each process has one thread.
    n_epochs
        Epochs of each classifier step; ``None``: the preset's.
    """
    if not data or not processes:
        raise InputError("a bench of processes must have data and numbers of processes, got none.")
    counts = [check_integer("processes", count, low=1) for count in processes]
    rows: list[dict[str, Any]] = []
    result: dict[str, Any] = {
        "threads": 1,
        "n_epochs": n_epochs,
        "machine": machine_facts(),
        "versions": versions(),
        "rows": rows,
    }
    for one in data:
        for count in counts:
            if watch is not None:
                watch(f"{one}: {count} process(es)")
            job = {"data": one, "n_epochs": n_epochs}
            found = in_fresh_process("processes", 1, processes=count, **job)
            rows.append({"task": str(count), "data": one, **found})
            grown = [row for row in rows if isinstance(row["data"], int) and "n_nodes" in row]
            result["exponents"] = exponents(grown)
            if keep is not None:
                keep(result)
    return result
