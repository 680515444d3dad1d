r"""Kernels that end an epoch: Adam's step on all parameters, and the verdict on the last one.

A table has a row an epoch: the last epoch that still counts if this one is the best so far, Adam's
:math:`\alpha / (1 - \beta_1^t)` and :math:`\sqrt{1 - \beta_2^t}`.
"""

from contextlib import suppress

from glnn.graph.row_kernel import kernel
from glnn.nn.gcn_kernels import is_kept

with suppress(ImportError):  # without Triton no kernel is called
    import triton.language as tl


@kernel
def _adam(theta, moments, n_theta, place, there, g, decay, row):
    r"""Take :math:`\theta \leftarrow \theta - \alpha_t \frac{m}{\sqrt{v}/s_t + \epsilon}`."""
    old = tl.load(theta + place, mask=there, other=0.0)
    g += decay * old
    m = tl.load(moments + place, mask=there, other=0.0)
    v = tl.load(moments + n_theta + place, mask=there, other=0.0)
    m += 0.1 * (g - m)  # betas of 0.9 and 0.999
    v = 0.999 * v + 0.001 * g * g
    tl.store(moments + place, m, mask=there)
    tl.store(moments + n_theta + place, v, mask=there)
    change = tl.load(row + 1) * m / (tl.sqrt(v) / tl.load(row + 2) + 1e-8)
    tl.store(theta + place, old - change, mask=there)


@kernel
def first_weight_step(
    offsets,
    columns,
    source,
    values,
    x,
    theta,
    moments,
    noise,
    step,
    table,
    n_dropped,
    scale,
    decay,
    n_theta,
    n_hidden,
    DROPS: "tl.constexpr",
    ENTRIES: "tl.constexpr",
    HIDDEN: "tl.constexpr",
):
    r"""Take Adam's step on a row of :math:`W_0`, with :math:`\partial W_0 = (m \circ X)^\top G`."""
    row = tl.program_id(0)
    place = tl.arange(0, HIDDEN)
    inside = place < n_hidden
    epoch = tl.load(step) - 1
    high = tl.load(offsets + row + 1)
    total = tl.zeros((ENTRIES, HIDDEN), dtype=tl.float32)
    for first in range(tl.load(offsets + row), high, ENTRIES):
        entry = first + tl.arange(0, ENTRIES)
        there = entry < high
        column = tl.load(columns + entry, mask=there, other=0).to(tl.int64)
        stored = tl.load(source + entry, mask=there, other=0)
        value = tl.load(values + stored, mask=there, other=0.0)
        if DROPS:
            kept = is_kept(tl.load(noise) + epoch, stored, n_dropped)
            value = tl.where(kept, value * scale, 0.0)
        both = there[:, None] & inside[None, :]
        part = tl.load(x + column[:, None] * n_hidden + place[None, :], mask=both, other=0.0)
        total += value[:, None] * part
    where = row.to(tl.int64) * n_hidden + place
    _adam(theta, moments, n_theta, where, inside, tl.sum(total, 0), decay, table + epoch * 3)


@kernel
def other_steps(
    parts,
    outputs,
    nodes,
    label_losses,
    theta,
    moments,
    epoch,
    step,
    table,
    losses,
    decay,
    share,
    n_theta,
    n_before,
    n_labels,
    n_hidden,
    n_classes,
    N_PARTS: "tl.constexpr",
    WIDTH: "tl.constexpr",
    LABELS: "tl.constexpr",
    CLASSES: "tl.constexpr",
):
    r"""Take Adam's step on :math:`b_0`, :math:`W_1`, :math:`b_1`; write the epoch's losses."""
    now = tl.load(step) - 1
    n_summed = n_hidden * (n_classes + 1)
    if tl.program_id(0) < tl.num_programs(0) - 1:
        place = tl.program_id(0) * WIDTH + tl.arange(0, WIDTH)
        inside = place < n_summed
        part = tl.arange(0, N_PARTS)
        each = parts + part[:, None] * n_summed + place[None, :]
        g = tl.sum(tl.load(each, mask=inside[None, :], other=0.0), 0)
        decays = tl.where(place < n_hidden, decay, 0.0)
        _adam(theta, moments, n_theta, n_before + place, inside, g, decays, table + now * 3)
    else:
        label = tl.arange(0, CLASSES)
        has_label = label < n_classes
        all_g = tl.zeros((LABELS, CLASSES), dtype=tl.float32)
        total = tl.zeros((LABELS,), dtype=tl.float32)
        for first in range(0, n_labels, LABELS):
            row = first + tl.arange(0, LABELS)
            there = row < n_labels
            node = tl.load(nodes + row, mask=there, other=0)
            both = there[:, None] & has_label[None, :]
            where = outputs + node[:, None] * n_classes + label[None, :]
            all_g += tl.load(where, mask=both, other=0.0)
            total += tl.load(label_losses + row, mask=there, other=0.0)
        last = n_before + n_summed + label
        _adam(theta, moments, n_theta, last, has_label, tl.sum(all_g, 0), 0.0, table + now * 3)
        loss = tl.sum(total, 0) * share
        tl.store(losses + now * 2, loss)  # the sum of all terms, and the only one
        tl.store(losses + now * 2 + 1, loss)
        tl.store(epoch, now + 1)


@kernel
def verdict(label_losses, hits, epoch, table, measured, best, n_labels, LABELS: "tl.constexpr"):
    """Write the numbers of the epoch before, and whether it is the best in time.

    ``best`` holds the lowest loss, its deadline, and 1 if the epoch before has just set them.
    """
    loss = tl.zeros((LABELS,), dtype=tl.float32)
    hit = tl.zeros((LABELS,), dtype=tl.float32)
    for first in range(0, n_labels, LABELS):
        place = first + tl.arange(0, LABELS)
        there = place < n_labels
        loss += tl.load(label_losses + place, mask=there, other=0.0)
        hit += tl.load(hits + place, mask=there, other=0.0)
    mean = tl.sum(loss, 0) / n_labels
    before = tl.load(epoch) - 1
    tl.store(measured + before * 2, mean)
    tl.store(measured + before * 2 + 1, tl.sum(hit, 0) / n_labels)
    lowest, deadline = tl.load(best), tl.load(best + 1)
    is_best = (mean < lowest) & (before.to(tl.float32) <= deadline)
    tl.store(best, tl.where(is_best, mean, lowest))
    tl.store(best + 1, tl.where(is_best, tl.load(table + before * 3), deadline))
    tl.store(best + 2, tl.where(is_best, 1.0, 0.0))


@kernel
def keep_best(theta, kept, best, n_theta, WIDTH: "tl.constexpr"):
    """Keep a copy of the parameters if they have just been found the best."""
    if tl.load(best + 2) > 0:
        place = tl.program_id(0) * WIDTH + tl.arange(0, WIDTH)
        there = place < n_theta
        tl.store(kept + place, tl.load(theta + place, mask=there, other=0.0), mask=there)
