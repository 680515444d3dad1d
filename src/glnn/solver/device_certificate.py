"""The certificate of a graph on a device, from the graph alone."""

import torch
from torch import Tensor

from glnn.solver.certificate import Certificate, judged
from glnn.solver.device_newton import DeviceDual, DeviceProblem, largest
from glnn.solver.device_pairs import DeviceGraph, device_keys
from glnn.solver.penalties import Loops, RowSums
from glnn.solver.problem import Problem


def certify_on_device(problem: Problem, resident: DeviceProblem, graph: DeviceGraph) -> Certificate:
    """Check a graph against every pair of the support, as :func:`glnn.solver.certificate.certify`.

    Parameters
    ----------
    problem
        The problem the graph should solve, with its support.
    resident
        The same problem on the device.
    graph
        The graph as it is handed on, both triangles.
    """
    pairs, curvature = resident.pairs, float(resident.curvature)
    values, malformed = _on_support(resident, graph)
    misfits = _misfits(resident, graph)
    dual = {p.name: 2 * p.weight * misfits[p.name] for p in resident.penalties}
    point = DeviceDual(resident)
    implied = point.numerator(point.start(dual)).clamp(min=0) / (2 * curvature)
    primal = (pairs.counts * values).dot(curvature * values - resident.offsets)
    for penalty in resident.penalties:
        primal = primal + penalty.weight * misfits[penalty.name].square().sum()
    squares = float((pairs.counts * implied).dot(implied))
    return judged(
        problem,
        violation=max(malformed, largest((values - implied).abs())),
        primal=float(primal),
        bound=problem.dual_value({k: v.cpu().numpy() for k, v in dual.items()}, squares),
        n_checked=len(pairs),
        largest=max(1.0, largest(graph.values.abs())),
    )


def _on_support(resident: DeviceProblem, graph: DeviceGraph) -> tuple[Tensor, float]:
    """Return the upper triangle on the support, and the largest fault.

    Faults are negative entries, differences of the two triangles, and entries elsewhere.
    """
    pairs, rows = resident.pairs, graph.rows()
    columns = graph.columns.long()
    place, known = pairs.places(device_keys(pairs.n_nodes, rows, columns))
    n_pairs = len(pairs)
    triangles = graph.values.new_zeros(2, n_pairs + 1)  # the last place is for entries elsewhere
    is_lower = (rows > columns).long()
    triangles[is_lower, torch.where(known, place, n_pairs)] = graph.values
    upper, lower = triangles[0, :n_pairs], triangles[1, :n_pairs]
    uneven = torch.where(pairs.i == pairs.j, 0.0, upper - lower).abs()
    elsewhere = torch.where(known, 0.0, graph.values).abs()
    return upper, max(largest(-graph.values), largest(uneven), largest(elsewhere))


def _misfits(resident: DeviceProblem, graph: DeviceGraph) -> dict[str, Tensor]:
    r"""Return :math:`T_m(A) - \tau_m` by the names of the penalties."""
    found: dict[str, Tensor] = {}
    for penalty in resident.penalties:
        if isinstance(penalty, RowSums):
            found[penalty.name] = graph.row_sums() - 1.0
        if isinstance(penalty, Loops):
            found[penalty.name] = graph.trace()[None]
    return found
