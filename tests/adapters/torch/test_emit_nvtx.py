"""Reports that hold what torch's emit_nvtx writes beside what the adapter marks.

Made by hand in the form that torch writes, as emit_nvtx needs a build with CUDA.
"""

from __future__ import annotations

import numpy as np
from builders import Capture
from training import counts

import nvtrace
from nvtrace.analysis.module_backward import with_backward_modules

NODE = "autograd::engine::evaluate_function: "


def test_phases_of_torch_do_not_count_again() -> None:
    capture = Capture()
    loader = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
    capture.step(0, 0, 100)
    capture.phase("dataloader", 0, 10)
    capture.range(loader, 1, 9)
    capture.range(loader, 90, 91)  # finds no more data
    capture.range("Optimizer.zero_grad#SGD.zero_grad", 20, 30)
    capture.phase("optimization", 40, 50)
    capture.range("Optimizer.step#SGD.step", 41, 49)
    trace = capture.trace()
    assert counts(trace) == {"ProfileStep": 1, "Dataloader": 1, "Optimization": 1}
    rows = trace.summary("operator")["operator"].rows()
    assert {row["name"]: row["calls"] for row in rows} == {
        loader: 2,
        "Optimizer.zero_grad#SGD.zero_grad": 1,
        "Optimizer.step#SGD.step": 1,
    }


def test_phases_of_torch_count_where_there_are_no_others() -> None:
    capture = Capture()
    capture.range("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 1, 9)
    capture.range("Optimizer.step#SGD.step", 41, 49)
    capture.phase("forward", 10, 20)
    assert counts(capture.trace()) == {"Dataloader": 1, "Forward": 1, "Optimization": 1}


def test_modules_of_the_backward_pass_by_the_numbers_in_names() -> None:
    """Autograd's thread has the nodes; the forward thread has the modules and the numbers."""
    capture = Capture()
    module = {"category": "module", "domain": "nvtrace"}
    capture.range("Net", 0, 100, tid=1, **module)
    capture.range("first", 10, 30, tid=1, **module)
    capture.range("aten::linear, seq = 4, op_id = 1", 11, 29, tid=1)
    capture.range("aten::addmm, seq = 4, op_id = 2", 12, 28, tid=1)
    capture.range("second", 40, 60, tid=1, **module)
    capture.range("aten::relu, seq = 5, op_id = 3", 41, 59, tid=1)
    capture.range("aten::mean, seq = 6, op_id = 4", 120, 130, tid=1)
    for name, start, end in [
        ("MeanBackward0, seq = 6", 200, 210),
        ("ReluBackward0, seq = 5", 220, 230),
        ("AddmmBackward0, seq = 4", 240, 250),
        ("torch::autograd::AccumulateGrad", 255, 260),
    ]:
        capture.range(NODE + name, start, end, tid=2)
    trace = nvtrace.Trace.of(with_backward_modules(capture.trace()))
    found = {
        row["name"]: (row["start_ns"], row["end_ns"], row["kind"])
        for row in trace.ranges_report()["ranges"].rows()
        if row["name"].endswith("(backward)")
    }
    assert found == {
        "Net (backward)": (220, 260, "module"),
        "second (backward)": (220, 230, "module"),
        "first (backward)": (240, 260, "module"),
    }
    again = with_backward_modules(trace)
    assert np.array_equal(again.ranges["start"], trace.ranges["start"])
