"""Numbers as the page writes them."""

from glnn.report.page.data import Measure, Method
from glnn.report.words import NOTHING, percent

_BOND = "\N{NO-BREAK SPACE}"


def measure(one: Measure) -> str:
    r"""Return a share with its interval in percent.

    Examples
    --------
    >>> measure(Measure("accuracy", 0.881, 0.85, 0.912)), measure(Measure("accuracy", None))
    ('88.1\xa0% [85.0,\xa091.2]', '–')
    """
    value = percent(one.value).replace(" ", _BOND)
    if one.low is None or one.high is None:
        return value
    return f"{value} [{100 * one.low:.1f},{_BOND}{100 * one.high:.1f}]"


def lead(one: Measure) -> str:
    r"""Return a difference of shares in percentage points, with its sign.

    Examples
    --------
    >>> lead(Measure("lead", 0.02, -0.01, 0.05)), lead(Measure("lead", -0.02))
    ('+2.0 [-1.0,\xa0+5.0]', '-2.0')
    """
    if one.value is None:
        return NOTHING
    if one.low is None or one.high is None:
        return f"{100 * one.value:+.1f}"
    return f"{100 * one.value:+.1f} [{100 * one.low:+.1f},{_BOND}{100 * one.high:+.1f}]"


def plain_measure(one: Measure) -> str:
    r"""Return a number that is no share, with its interval.

    Examples
    --------
    >>> plain_measure(Measure("log loss", 0.31234, 0.25, 0.4))
    '0.312 [0.250,\xa00.400]'
    """
    if one.value is None:
        return NOTHING
    if one.low is None or one.high is None:
        return f"{one.value:.3f}"
    return f"{one.value:.3f} [{one.low:.3f},{_BOND}{one.high:.3f}]"


def interval_scale(methods: tuple[Method, ...]) -> tuple[float, float]:
    """Return a common scale in steps of ten percent that holds all accuracies and intervals.

    Examples
    --------
    >>> interval_scale((Method("a", Measure("accuracy", 0.84, 0.81, 0.87)),))
    (0.8, 0.9)
    """
    shares = [
        value
        for method in methods
        for value in (method.accuracy.value, method.accuracy.low, method.accuracy.high)
        if value is not None
    ]
    if not shares:
        return 0.0, 1.0
    low, high = int(10 * min(shares)), -int(-10 * max(shares) // 1)
    return low / 10, min(1.0, max(high, low + 1) / 10)
