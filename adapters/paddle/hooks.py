"""Where Paddle is hooked: its choke points, all of them functions of classes and modules."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from .marks import FirstOptimizer, Marks
from .patches import Patches

# what a process group does that is no communication
_NO_COLLECTIVE = re.compile(r"_.*|name|rank|size|eager_connect\w*")
_OLD_NAMES = {
    "allreduce": "all_reduce",
    "alltoall": "all_to_all",
    "alltoall_single": "all_to_all_single",
}


def hook_waits_and_steps(
    patches: Patches, marks: Marks, on_wait: Any, first_optimizer: FirstOptimizer
) -> None:
    """Hook what a whole run is watched by: loaders and optimizers."""
    from paddle.io.dataloader import dataloader_iter

    for kind in ("_DataLoaderIterSingleProcess", "_DataLoaderIterMultiProcess"):
        patches.put(getattr(dataloader_iter, kind), "__next__", marks.loader(on_wait))
    hook_optimizers(patches, marks, first_optimizer)


def hook_optimizers(patches: Patches, marks: Marks, first_optimizer: FirstOptimizer) -> None:
    """Hook every optimizer class that exists by now, users' own included."""
    wrap = marks.optimizer(first_optimizer)
    for kind in _optimizers():
        for name in ("step", "minimize"):
            if name in vars(kind):
                patches.put(kind, name, wrap)


def hook_phases(patches: Patches, marks: Marks) -> None:
    """Hook layers, backward passes and collectives."""
    import paddle
    from paddle.base import core

    patches.put(paddle.nn.Layer, "__call__", marks.layer)
    for name in ("run_backward", "run_partial_grad"):
        patches.put(core.eager, name, marks.backward)
    group = getattr(core, "ProcessGroup", None)
    if group is None:  # a wheel without distributed training
        return
    for name in [name for name in vars(group) if not _NO_COLLECTIVE.fullmatch(name)]:
        shown = name.removesuffix("_on_calc_stream")
        patches.put(group, name, marks.collective(_OLD_NAMES.get(shown, shown)))


def _optimizers() -> Iterator[type]:
    from paddle.optimizer import Optimizer

    found, rest = set(), [Optimizer]
    while rest:
        kind = rest.pop()
        if kind not in found:
            found.add(kind)
            rest += kind.__subclasses__()
            yield kind
