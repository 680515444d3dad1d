"""Dropout whose randomness comes from a generator that the caller holds."""

import torch
from jaxtyping import Float
from torch import Tensor


def dropped(x: Float[Tensor, "..."], rate: float, generator: torch.Generator) -> Tensor:
    """Return ``x`` with each entry zero with probability ``rate``, the rest rescaled.

    Examples
    --------
    >>> dropped(torch.ones(2), 0.0, torch.Generator())
    tensor([1., 1.])
    """
    if rate == 0:
        return x
    return x * keep_mask(x, rate, generator)


def keep_mask(x: Float[Tensor, "..."], rate: float, generator: torch.Generator) -> Tensor:
    """Return a mask of ``x``'s shape: 0 where dropped, else the rescaling that keeps the mean.

    One random byte decides an entry, which is several times faster than a random float; the rate
    is therefore rounded to a multiple of 1/256, and the rescaling uses the rounded one. On a GPU
    numbers are cheap and kernels are not: there one draw makes the mask.
    """
    if isinstance(generator, PartGenerator):
        return mask_of(generator.bytes_of_rows(x.shape), x, rate)
    if x.is_cuda:
        mask = torch.empty_like(x).bernoulli_(1 / rescaling(rate), generator=generator)
        return mask.mul_(rescaling(rate))
    return mask_of(random_bytes(x.numel(), generator), x, rate)


def mask_of(drawn: Tensor, x: Float[Tensor, "..."], rate: float) -> Tensor:
    """Return the mask that random bytes, one for each entry of ``x``, stand for.

    A byte is kept from :func:`n_dropped_bytes` on. Cutting off below and above says so in
    numbers, five times faster than a comparison, whose truth values would be turned into numbers
    one by one.
    """
    kept = drawn.to(x.dtype).sub_(n_dropped_bytes(rate) - 1).clamp_(0, 1)
    return kept.mul_(rescaling(rate)).reshape(x.shape)


def n_dropped_bytes(rate: float) -> int:
    """Return how many of the 256 values of a byte drop an entry: the rate rounded to 1/256."""
    return round(256 * rate)


def rescaling(rate: float) -> float:
    """Return what kept entries are multiplied with, for the rounded rate."""
    return 256 / (256 - n_dropped_bytes(rate))


def random_bytes(n_bytes: int, generator: torch.Generator) -> Tensor:
    """Return random bytes, eight from each random word: the one place where noise is drawn."""
    words = torch.empty(-(-n_bytes // 8), dtype=torch.int64, device=generator.device)
    words.random_(-(2**63), None, generator=generator)
    return words.view(torch.uint8)[:n_bytes]


class PartGenerator(torch.Generator):
    """The noise of some rows: the bytes that a single process would draw for them.

    All bytes are drawn, ``chunk`` of them at a time, and those of the rows are kept.

    Parameters
    ----------
    like
        The generator of the single process.
    rows, n_rows
        The first row that is here and one past the last, and the number of all rows. Tensors
        have their rows in the last dimension but one.
    stored
        The same three numbers for the stored values of sparse features.
    """

    def __new__(cls, like: torch.Generator, **_: object) -> "PartGenerator":  # noqa: D102
        return super().__new__(cls, device=like.device)  # type: ignore[call-arg]

    def __init__(
        self,
        like: torch.Generator,
        *,
        rows: tuple[int, int],
        n_rows: int,
        stored: tuple[int, int, int],
    ) -> None:
        self.set_state(like.get_state())
        self._rows, self._n_rows, self.stored = rows, n_rows, stored
        self.chunk = 2**16 if like.device.type == "cpu" else 2**40  # a GPU's stream has no parts

    @property
    def first_row(self) -> int:
        """The first row that is here."""
        return self._rows[0]

    def next_bytes(self, n_bytes: int) -> Tensor:
        """Return the next bytes of the stream; all but the last of a tensor in whole words."""
        return random_bytes(n_bytes, self)

    def bytes_of_rows(self, shape: torch.Size) -> Tensor:
        """Return the bytes for a tensor of this shape, flat."""
        width, n_blocks = shape[-1], shape[:-2].numel()
        size = self._n_rows * width
        first, last = self._rows[0] * width, self._rows[1] * width
        kept = torch.empty(n_blocks, last - first, dtype=torch.uint8, device=self.device)
        for start in range(0, n_blocks * size, self.chunk):
            drawn = self.next_bytes(min(self.chunk, n_blocks * size - start))
            for block in range(n_blocks):
                low = max(start, block * size + first)
                high = min(start + len(drawn), block * size + last)
                if low < high:
                    shift = block * size + first
                    kept[block, low - shift : high - shift] = drawn[low - start : high - start]
        return kept.view(-1)
