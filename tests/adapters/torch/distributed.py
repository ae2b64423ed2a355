"""One rank of a training by DDP or FSDP2 over gloo; writes what was counted, or marks for nsys.

python distributed.py ddp|fsdp MEETING OUT             records in the process; OUT.RANK.json
python distributed.py ddp|fsdp MEETING OUT instrument  marks for a tool

MEETING is a file, not there yet, by which the ranks find one another.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import torch
from torch import distributed
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

import nvtrace

STEPS = 4


def model_of(kind: str) -> Any:
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 8))
    if kind == "ddp":
        return torch.nn.parallel.DistributedDataParallel(net)
    from torch.distributed.fsdp import fully_shard

    for layer in (net[0], net[2]):
        fully_shard(layer)
    return fully_shard(net)


def train(kind: str) -> list[Any]:
    model = model_of(kind)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    data = TensorDataset(torch.arange(256.0).reshape(32, 8) / 256)
    for (x,) in DataLoader(data, batch_size=4, sampler=DistributedSampler(data, shuffle=False)):
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
    return [getattr(p, "_local_tensor", p).detach().clone() for p in model.parameters()]


def record(kind: str, out: str) -> None:
    plain = train(kind)
    with nvtrace.Profiler(adapters=["torch"], modules=True) as profiler:
        trained = train(kind)
    assert profiler.trace is not None
    rows = profiler.trace.ranges_report()["ranges"].rows()
    model = profiler.trace.summary("model")["model"].rows()
    found = {
        "counts": {row["name"]: row["calls"] for row in model if row["name"] != "Others"},
        "modules": sorted({row["name"] for row in rows if row["kind"] == "module"}),
        "communication": sorted({row["name"] for row in rows if row["kind"] == "communication"}),
        "same": all(torch.equal(one, other) for one, other in zip(plain, trained, strict=True)),
        "ranks": [process.rank for process in profiler.trace.processes],
    }
    with open(f"{out}.{os.environ['RANK']}.json", "w", encoding="utf-8") as file:
        json.dump(found, file)


def main() -> None:
    kind, meeting, out, *how = sys.argv[1:]
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    distributed.init_process_group("gloo", f"file://{meeting}", rank=rank, world_size=size)
    if how:
        with nvtrace.instrument("torch", modules=True):
            train(kind)
    else:
        record(kind, out)
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()
