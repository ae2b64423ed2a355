"""O-32: a range is never a graph break under torch.compile, and results are those of eager."""

from __future__ import annotations

import importlib.util
import subprocess
import sys

import pytest

if importlib.util.find_spec("torch") is None:
    pytest.skip("torch is not installed: pip install torch==2.13.0", allow_module_level=True)

MARKED = """
from nvtrace.phases import RecordEvent, phase, step
from nvtrace.ranges import disable, enable, mark, range

@range
def inside(x):
    with range("block", payload=3):
        y = x * 2
    with phase("forward"), step(3):
        mark("moment")
        y = y + 1
    with RecordEvent("event", "Forward"):
        y = y * 2
    event = RecordEvent("begun")
    event.begin()
    y = y - 1
    event.end()
    return y

event = RecordEvent("outer")

@event
def outside(x):
    event.begin()
    y = inside(x) + inside(x)
    event.end()
    return y

@range
def pieces(x):
    yield x + 1
    yield x + 2

def consume(x):
    total = 0
    for piece in pieces(x):
        total = total + piece
    return total

FUNCTIONS = inside, outside, consume
"""

COMPILED = """
class Calls:  # an emitter that counts
    seen = 0
    def bind(self, label):
        def count(*_):
            Calls.seen += 1
        return (count,) * 5
from nvtrace.emit import switch
switch.use(Calls())
x = torch.arange(3.0)
for function in FUNCTIONS:
    eager = function(x)
    assert Calls.seen > 0, function
    compiled = torch.compile(function, fullgraph=True, backend="eager")
    compiled(x)
    Calls.seen = 0
    with torch._dynamo.config.patch(error_on_recompile=True):
        assert torch.equal(compiled(x), eager)
    assert Calls.seen == 0, function
    assert torch._dynamo.explain(function)(x).graph_break_count == 0
"""

PACKAGE = """
import nvtrace, torch

class Net(torch.nn.Module):
    @nvtrace.range
    def forward(self, x):
        with nvtrace.step(2), nvtrace.phase("forward"), nvtrace.RecordEvent("event"):
            nvtrace.mark("moment")
            return x + 1

net, x = Net(), torch.ones(2)
assert torch.equal(torch.compile(net, fullgraph=True, backend="eager")(x), net(x))
"""


@pytest.mark.parametrize(
    "script",
    [
        pytest.param(PACKAGE, id="package"),
        pytest.param("import torch" + MARKED + COMPILED, id="torch first"),
        pytest.param(MARKED + "import torch" + COMPILED, id="torch last"),
        pytest.param(
            MARKED + "[f(2) for f in FUNCTIONS]\nimport torch" + COMPILED, id="used before"
        ),
        pytest.param(
            MARKED
            + "import torch\n"
            + "for f in FUNCTIONS:\n"
            + " assert torch.equal(torch.compile(f, fullgraph=True, backend='eager')"
            + "(torch.ones(2)), f(torch.ones(2)))",
            id="compiled before used",
        ),
        pytest.param(
            "import torch"
            + MARKED
            + "disable()\n"
            + "compiled = torch.compile(outside, fullgraph=True, backend='eager')\n"
            + "for switch in enable, disable:\n"
            + " assert torch.equal(compiled(torch.ones(2)), outside(torch.ones(2)))\n"
            + " switch()",
            id="switched",
        ),
    ],
)
def test_no_graph_break(script: str) -> None:
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
