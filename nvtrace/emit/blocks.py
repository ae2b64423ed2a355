"""What a ``with`` statement looks up in a range.

`nvtrace.native.recorder` has the same in C, and is used where it was built.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

B = TypeVar("B", bound="PythonBlock")


class PythonBlock:
    """Opens and closes by the calls of a label; once it was entered twice, without a look-up."""

    # there from the first use until the emitter changes; none of an emitter's calls raises
    __slots__ = ("_pop", "_push")

    _pop: Callable[[], object]
    _push: Callable[[], object]

    def __enter__(self: B) -> B:
        try:
            self._push()
        except AttributeError:
            self._push_unbound()
        return self

    # three arguments by name: packing them into a tuple would cost a tenth of the range
    def __exit__(self, kind: object = None, error: object = None, trace: object = None) -> None:
        self._pop()

    def _call(
        self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Call a function inside; what is open is closed where it was opened."""
        self.__enter__()
        pop = self._pop
        try:
            return function(*args, **kwargs)
        finally:
            pop()

    def _push_unbound(self) -> None:
        raise NotImplementedError

    def _pass_in(self: B) -> B:
        """What stands for ``__enter__`` while nothing is emitted."""
        return self

    def _pass_out(self, kind: object = None, error: object = None, trace: object = None) -> None:
        """What stands for ``__exit__`` then."""
