"""A property that is computed once and may talk to other processes meanwhile."""

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

T = TypeVar("T")


class computed_once(Generic[T]):  # noqa: N801 # used like a function
    """Like ``functools.cached_property``, without its lock.

    That of Python 3.11 is one for all instances of a class: ranks that run as threads of one
    process would wait for each other inside it.

    Examples
    --------
    >>> class Circle:
    ...     @computed_once
    ...     def area(self):
    ...         return 3.0
    >>> circle = Circle()
    >>> circle.area is circle.area
    True
    """

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self._compute, self.__doc__ = compute, compute.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> "computed_once[T]": ...

    @overload
    def __get__(self, instance: object, owner: type) -> T: ...

    def __get__(self, instance: object | None, owner: type) -> "computed_once[T] | T":
        if instance is None:
            return self
        value = self._compute(instance)
        instance.__dict__[self._name] = value  # found before this the next time
        return value
