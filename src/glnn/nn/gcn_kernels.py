r"""Kernels of a two-layer graph convolution with its cross-entropy, forth and back.

.. math:: T_0 = X W_0, \quad H = \mathrm{ReLU}(\hat A T_0 + b_0), \quad T_1 = H W_1,
          \quad Z = \hat A T_1 + b_1

A program takes a node: its row of a sparse product, and what follows from that row alone. All
parameters lie in one vector, ``[W_0 | b_0 | W_1 | b_1]``. Dropout is drawn where it is used, from
a seed and the number of the epoch, so it can be drawn again for the gradient.
"""

from contextlib import suppress

from glnn.graph.row_kernel import kernel

with suppress(ImportError):  # without Triton no kernel is called
    import triton.language as tl


@kernel
def is_kept(seed, index, n_dropped):
    """Say whether dropout keeps an entry: one random byte decides."""
    return (tl.randint(seed, index.to(tl.int32)) >> 24).to(tl.int32) >= n_dropped


@kernel
def _gathered(
    offsets, columns, values, x, row, n_columns, ENTRIES: "tl.constexpr", WIDTH: "tl.constexpr"
):
    """Return a row of a sparse product."""
    place = tl.arange(0, WIDTH)
    inside = place < n_columns
    high = tl.load(offsets + row + 1)
    total = tl.zeros((ENTRIES, WIDTH), dtype=tl.float32)
    for first in range(tl.load(offsets + row), high, ENTRIES):
        entry = first + tl.arange(0, ENTRIES)
        there = entry < high
        column = tl.load(columns + entry, mask=there, other=0).to(tl.int64)
        value = tl.load(values + entry, mask=there, other=0.0)
        both = there[:, None] & inside[None, :]
        part = tl.load(x + column[:, None] * n_columns + place[None, :], mask=both, other=0.0)
        total += value[:, None] * part
    return tl.sum(total, 0)


@kernel
def first_products(
    offsets,
    columns,
    values,
    theta,
    out,
    noise,
    epoch,
    n_dropped,
    scale,
    n_hidden,
    DROPS: "tl.constexpr",
    ENTRIES: "tl.constexpr",
    HIDDEN: "tl.constexpr",
):
    r"""Compute :math:`T_0 = (m \circ X) W_0` with a new mask :math:`m`."""
    row = tl.program_id(0)
    place = tl.arange(0, HIDDEN)
    inside = place < n_hidden
    high = tl.load(offsets + row + 1)
    total = tl.zeros((ENTRIES, HIDDEN), dtype=tl.float32)
    for first in range(tl.load(offsets + row), high, ENTRIES):
        entry = first + tl.arange(0, ENTRIES)
        there = entry < high
        column = tl.load(columns + entry, mask=there, other=0).to(tl.int64)
        value = tl.load(values + entry, mask=there, other=0.0)
        if DROPS:
            seed = tl.load(noise) + tl.load(epoch)
            value = tl.where(is_kept(seed, entry, n_dropped), value * scale, 0.0)
        both = there[:, None] & inside[None, :]
        part = tl.load(theta + column[:, None] * n_hidden + place[None, :], mask=both, other=0.0)
        total += value[:, None] * part
    tl.store(out + row.to(tl.int64) * n_hidden + place, tl.sum(total, 0), mask=inside)


@kernel
def hidden_layer(
    offsets,
    columns,
    values,
    first,
    theta,
    hidden,
    out,
    noise,
    epoch,
    n_dropped,
    scale,
    n_stored,
    n_features,
    n_hidden,
    n_classes,
    TRAINS: "tl.constexpr",
    DROPS: "tl.constexpr",
    ENTRIES: "tl.constexpr",
    HIDDEN: "tl.constexpr",
    CLASSES: "tl.constexpr",
):
    r"""Compute :math:`H = m \circ \mathrm{ReLU}(\hat A T_0 + b_0)` and :math:`T_1 = H W_1`."""
    row = tl.program_id(0).to(tl.int64)
    unit, label = tl.arange(0, HIDDEN), tl.arange(0, CLASSES)
    has_unit, has_label = unit < n_hidden, label < n_classes
    bias = theta + n_features * n_hidden
    x = _gathered(offsets, columns, values, first, row, n_hidden, ENTRIES, HIDDEN)
    x = tl.maximum(x + tl.load(bias + unit, mask=has_unit, other=0.0), 0.0)
    if DROPS:
        seed = tl.load(noise) + tl.load(epoch)
        x = tl.where(is_kept(seed, n_stored + row * n_hidden + unit, n_dropped), x * scale, 0.0)
    if TRAINS:
        tl.store(hidden + row * n_hidden + unit, x, mask=has_unit)
    both = has_unit[:, None] & has_label[None, :]
    second = bias + n_hidden + unit[:, None] * n_classes + label[None, :]
    product = tl.sum(x[:, None] * tl.load(second, mask=both, other=0.0), 0)
    tl.store(out + row * n_classes + label, product, mask=has_label)


@kernel
def labelled_outputs(
    nodes,
    labels,
    offsets,
    columns,
    values,
    second,
    bias,
    losses,
    found,
    epoch,
    step,
    share,
    n_classes,
    TRAINS: "tl.constexpr",
    ENTRIES: "tl.constexpr",
    CLASSES: "tl.constexpr",
):
    r"""Compute :math:`-\ln p_y` of a labelled node, with its gradient or whether it is a hit."""
    place = tl.program_id(0)
    node, wanted = tl.load(nodes + place), tl.load(labels + place)
    label = tl.arange(0, CLASSES)
    inside = label < n_classes
    z = _gathered(offsets, columns, values, second, node, n_classes, ENTRIES, CLASSES)
    z += tl.load(bias + label, mask=inside, other=0.0)
    z = tl.where(inside, z, -float("inf"))
    shifted = z - tl.max(z, 0)
    size = tl.sum(tl.exp(shifted), 0)
    is_wanted = label == wanted
    loss = tl.log(size) - tl.sum(tl.where(is_wanted, shifted, 0.0), 0)
    tl.store(losses + place, loss)
    if TRAINS:
        gradient = (tl.exp(shifted) / size - tl.where(is_wanted, 1.0, 0.0)) * share
        tl.store(found + node * n_classes + label, gradient, mask=inside)
        if place == 0:
            tl.store(step, tl.load(epoch) + 1)
    else:
        tl.store(found + place, tl.where(tl.argmax(z, 0) == wanted, 1.0, 0.0))


@kernel
def hidden_gradient(
    offsets,
    columns,
    values,
    outputs,
    theta,
    hidden,
    second,
    first,
    scale,
    n_features,
    n_hidden,
    n_classes,
    ENTRIES: "tl.constexpr",
    HIDDEN: "tl.constexpr",
    CLASSES: "tl.constexpr",
):
    r"""Take :math:`\partial Z` back to :math:`\partial T_1 = \hat A\,\partial Z` and the ReLU."""
    row = tl.program_id(0).to(tl.int64)
    unit, label = tl.arange(0, HIDDEN), tl.arange(0, CLASSES)
    has_unit, has_label = unit < n_hidden, label < n_classes
    g = _gathered(offsets, columns, values, outputs, row, n_classes, ENTRIES, CLASSES)
    tl.store(second + row * n_classes + label, g, mask=has_label)
    both = has_unit[:, None] & has_label[None, :]
    weight = theta + (n_features + 1) * n_hidden + unit[:, None] * n_classes + label[None, :]
    back = tl.sum(g[None, :] * tl.load(weight, mask=both, other=0.0), 1)
    x = tl.load(hidden + row * n_hidden + unit, mask=has_unit, other=0.0)
    back = tl.where(x > 0, back * scale, 0.0)  # where it is 0, ReLU or dropout has cut it
    tl.store(first + row * n_hidden + unit, back, mask=has_unit)


@kernel
def gradient_parts(
    hidden,
    second,
    first,
    parts,
    n_rows,
    n_hidden,
    n_classes,
    n_blocks,
    ROWS: "tl.constexpr",
    HIDDEN: "tl.constexpr",
    CLASSES: "tl.constexpr",
):
    r"""Sum :math:`\partial b_0` and :math:`\partial W_1 = H^\top \partial T_1` over some rows."""
    unit, label = tl.arange(0, HIDDEN), tl.arange(0, CLASSES)
    has_unit, has_label = unit < n_hidden, label < n_classes
    weight = tl.zeros((HIDDEN, CLASSES), dtype=tl.float32)
    bias = tl.zeros((HIDDEN,), dtype=tl.float32)
    for block in range(n_blocks):
        row = (tl.program_id(0) * n_blocks + block) * ROWS + tl.arange(0, ROWS)
        there, row = row < n_rows, row.to(tl.int64)
        units = row[:, None] * n_hidden + unit[None, :]
        has_units = there[:, None] & has_unit[None, :]
        classes = row[:, None] * n_classes + label[None, :]
        x = tl.load(hidden + units, mask=has_units, other=0.0)
        g = tl.load(second + classes, mask=there[:, None] & has_label[None, :], other=0.0)
        weight += tl.dot(tl.trans(x), g, input_precision="ieee")
        bias += tl.sum(tl.load(first + units, mask=has_units, other=0.0), 0)
    out = parts + tl.program_id(0) * n_hidden * (n_classes + 1)
    tl.store(out + unit, bias, mask=has_unit)
    both = has_unit[:, None] & has_label[None, :]
    place = n_hidden + unit[:, None] * n_classes + label[None, :]
    tl.store(out + place, weight, mask=both)
