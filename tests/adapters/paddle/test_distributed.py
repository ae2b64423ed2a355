"""Two processes over gloo: collectives are marked, and gradients are what they were."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("paddle", reason="needs paddlepaddle")

PROGRAM = """
import json, sys, warnings
warnings.simplefilter("ignore")
import paddle
import paddle.distributed as dist
from paddle.distributed import all_reduce
import nvtrace

dist.init_parallel_env()
rank = dist.get_rank()
paddle.seed(rank)
net = paddle.nn.Linear(3, 2)
parallel = paddle.DataParallel(net)
optimizer = paddle.optimizer.SGD(learning_rate=0.1, parameters=net.parameters())
x = paddle.full([2, 3], rank + 1.0)

def step():
    parallel(x).sum().backward()
    optimizer.step()
    optimizer.clear_grad()
    value = paddle.full([2], rank + 1.0)
    all_reduce(value)
    gathered = []
    dist.all_gather(gathered, paddle.full([1], float(rank)))
    sent = paddle.full([1], rank + 10.0)
    dist.broadcast(sent, src=1)
    task = dist.all_reduce(paddle.ones([1]), sync_op=False)
    task.wait()
    return value.tolist(), [one.item() for one in gathered], sent.tolist()

results = [step()]
before = {name: vars(paddle.base.core.ProcessGroup)[name] for name in ("all_reduce", "broadcast")}
with nvtrace.Profiler(adapters="paddle", targets=[nvtrace.ProfilerTarget.CPU]) as profiler:
    for _ in range(3):
        results.append(step())
        profiler.step()
results.append(step())
after = {name: vars(paddle.base.core.ProcessGroup)[name] for name in before}
trace = profiler.trace
kinds = [row for row in trace.ranges_report()["ranges"].rows() if row["kind"] == "communication"]
print("RESULT", json.dumps({
    "rank": rank,
    "process_rank": trace.processes[0].rank,
    "results": results,
    "names": [row["name"] for row in kinds],
    "phases": {r["name"]: r["calls"] for r in trace.summary(["model"])["model"].rows()},
    "overview": {r["event_type"]: r["calls"] for r in trace.summary("overview")["overview"].rows()},
    "restored": all(before[name] is after[name] for name in before),
    "weight": net.weight.tolist(),
}))
"""


def ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    found = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return found


def output(process: subprocess.Popen[str]) -> str:
    """What a process printed; one that waits for a partner that failed is killed."""
    try:
        return process.communicate(timeout=300)[0]
    except subprocess.TimeoutExpired:
        process.kill()
        return process.communicate()[0]


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    folder: Path = tmp_path_factory.mktemp("ranks")
    (folder / "train.py").write_text(PROGRAM, encoding="utf-8")
    endpoints = [f"127.0.0.1:{port}" for port in ports(2)]
    processes = []
    for rank, endpoint in enumerate(endpoints):
        environment = {
            "PATH": "/usr/bin:/bin",
            "HOME": str(folder),
            "PADDLE_TRAINER_ID": str(rank),
            "PADDLE_TRAINERS_NUM": "2",
            "PADDLE_CURRENT_ENDPOINT": endpoint,
            "PADDLE_TRAINER_ENDPOINTS": ",".join(endpoints),
            "PADDLE_MASTER": endpoints[0],
            "PADDLE_DISTRI_BACKEND": "gloo",
        }
        command = [sys.executable, "train.py"]
        processes.append(
            subprocess.Popen(
                command,
                cwd=folder,
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
        )
    outputs = [output(process) for process in processes]
    found = []
    for process, printed in zip(processes, outputs, strict=True):
        assert process.returncode == 0, printed
        lines = [line for line in printed.splitlines() if line.startswith("RESULT")]
        found.append(json.loads(lines[0].partition(" ")[2]))
    return sorted(found, key=lambda one: one["rank"])


def test_collectives_are_marked(ranks: list[dict[str, Any]]) -> None:
    for rank, one in enumerate(ranks):
        assert one["process_rank"] == rank
        assert one["names"] == ["all_reduce", "all_gather", "broadcast", "all_reduce"] * 3
        assert one["overview"]["Communication"] == 12
        assert one["restored"]


def test_phases_of_data_parallel(ranks: list[dict[str, Any]]) -> None:
    for one in ranks:
        phases = {name: one["phases"][name] for name in ("Forward", "Backward", "Optimization")}
        assert phases == {"Forward": 3, "Backward": 3, "Optimization": 3}


def test_results_are_what_they_were(ranks: list[dict[str, Any]]) -> None:
    for one in ranks:
        assert one["results"] == [[[3.0, 3.0], [0.0, 1.0], [11.0]]] * 5
    assert ranks[0]["weight"] == ranks[1]["weight"], "gradients were averaged"
