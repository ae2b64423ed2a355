"""Dataloader: waits for the iterators of torch.utils.data.DataLoader."""

from __future__ import annotations

from collections.abc import Callable
from threading import get_native_id
from time import perf_counter_ns, time_ns
from typing import Any

from nvtrace.phases import DATALOADER, phase

from ..patching import Patch
from .marking import Marking, close_abandoned, here


def patch_loader(marking: Marking, on_wait: Callable[[int], None]) -> Patch:
    """Measure each wait for a batch, and mark it as Dataloader.

    The call that finds no more data is no wait. Where the length is known it is not marked; where
    not, it is, and noted as an end of data.

    Args:
        marking: whether waits are marked.
        on_wait: called with the ns of each wait.
    """
    from torch.utils.data.dataloader import _BaseDataLoaderIter

    waiting = phase(DATALOADER)

    def make(original: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def __next__(iterator: Any) -> Any:
            if here.depth or _exhausted(iterator):
                return original(iterator)
            start = perf_counter_ns()
            batch = wait(iterator) if marking.on else unmarked(iterator)
            on_wait(perf_counter_ns() - start)
            return batch

        def wait(iterator: Any) -> Any:
            close_abandoned()
            from_ns = time_ns()
            try:
                with waiting:
                    return unmarked(iterator)
            except StopIteration:
                marking.ends_of_data.append((get_native_id(), from_ns, time_ns()))
                raise

        def unmarked(iterator: Any) -> Any:
            here.depth += 1  # modules that prepare data are no Forward
            try:
                return original(iterator)
            finally:
                here.depth -= 1

        return __next__

    return Patch(_BaseDataLoaderIter, "__next__", make)


def _exhausted(iterator: Any) -> bool:
    """Whether all that the sampler says there is has been yielded."""
    try:
        return bool(iterator._num_yielded >= len(iterator._index_sampler))
    except Exception:  # a sampler is anybody's code, and need not know its length
        return False
