"""The invented program: distributed training of a small transformer, as the scripts of one rank."""

from __future__ import annotations

from nvtrace.demo.catalog import (
    AUTOGRAD,
    CATEGORIES,
    CATEGORY_ROW,
    COMPUTE,
    COPY,
    D2D,
    D2H,
    DOMAIN_ROW,
    H2D,
    LOADER,
    MARK,
    NAMED_DOMAINS,
    NCCL,
    START_END,
    WATCHDOG,
    Label,
)
from nvtrace.demo.tape import GRAPH, Tape

TRAIN = Label("train", "nvtrace", "user")
EPOCH = Label("epoch", "nvtrace", "user", START_END)
UNFINISHED = Label("never closed", "nvtrace", "user")

_BATCH_BYTES = 4 * 1024 * 1024
_LAYER_BYTES = 14 * 1024 * 1024
_OPTIMIZER_KERNELS = ("grad_norm", "adamw", "adamw", "adamw")
_GRAPH_RUN_NS = 48_000


def setup(layers: int, *, graph: bool) -> Tape:
    """Name domains and categories, load the model, warm up, open the ranges around the training."""
    tape = Tape()
    for domain in NAMED_DOMAINS:
        tape.mark(Label(domain, domain, "", DOMAIN_ROW))
    for category in CATEGORIES:
        tape.mark(Label(category, "nvtrace", category, CATEGORY_ROW))
    with tape.range("load model", "user"):
        for layer in range(layers):
            tape.allocate(_address(layer), _LAYER_BYTES)
            tape.copy(H2D, _LAYER_BYTES)
        tape.memset(_LAYER_BYTES)
        with tape.range("ncclBroadcast", domain="NCCL"):
            tape.launch("broadcast", stream=NCCL)
    # The warm-up runs outside every range and phase: its GPU time is nobody's.
    tape.copy(H2D, _BATCH_BYTES)
    tape.launch("embedding")
    tape.launch("copy")
    if graph:
        _capture(tape, layers)
    tape.synchronize()
    tape.open(TRAIN)
    tape.open(EPOCH)
    return tape


def step(layers: int, *, graph: bool, graph_trace: bool) -> Tape:
    """One training step."""
    tape = Tape()
    with tape.range("step", "step", has_step=True):
        _dataloader(tape)
        _forward(tape, layers)
        _backward(tape, layers)
        _optimization(tape, layers, graph=graph, graph_trace=graph_trace)
        with tape.range("read loss", "user"):
            tape.copy(D2H, 4)
            tape.synchronize()
        tape.mark(Label("loss read", "nvtrace", "user", MARK, 0xFFFFFF00), has_step=True)
    return tape


def teardown(layers: int) -> Tape:
    """Save a checkpoint and free the memory, after the training."""
    tape = Tape()
    with tape.range("checkpoint", "user"):
        for layer in range(layers):
            tape.copy(D2H, _LAYER_BYTES)
            tape.allocate(_address(layer), -_LAYER_BYTES)
    tape.synchronize()
    return tape


def unfinished() -> Tape:
    """A range that is never closed, with work inside and a whole range after it."""
    tape = Tape()
    tape.open(UNFINISHED)
    tape.launch("copy")
    with tape.range("shut down", "user"):
        tape.launch("add")
        tape.synchronize()
    return tape


def _capture(tape: Tape, layers: int) -> None:
    with tape.range("capture optimizer", "user"):
        for node in range(layers * len(_OPTIMIZER_KERNELS)):
            tape.nodes.append((tape.call("cudaLaunchKernel_v7000"), _node(1, node), 0))
    with tape.range("instantiate optimizer", "user"):
        call = tape.call("cudaGraphInstantiate_v10000", length_ns=80_000)
        for node in range(layers * len(_OPTIMIZER_KERNELS)):
            tape.nodes.append((call, _node(2, node), _node(1, node)))


def _dataloader(tape: Tape) -> None:
    with tape.range("dataloader", "dataloader"):
        with tape.range("collate", "user"):
            tape.tick(180_000)
        prefetch = tape.open(Label("prefetch", "nvtrace", "user", START_END))
        tape.copy(H2D, _BATCH_BYTES, thread=LOADER, stream=COPY)
        tape.copy(H2D, _BATCH_BYTES // 64, thread=LOADER, stream=COPY)
        tape.close(prefetch, thread=LOADER)


def _operator(tape: Tape, name: str, *kernels: str) -> None:
    with tape.range(name, "operator"):
        with tape.range(f"{name} infer_meta", "operator_inner"):
            pass
        with tape.range(f"{name} compute", "operator_inner"):
            for key in kernels:
                tape.launch(key)
        with tape.range(f"{name} node_creation", "operator_inner"):
            pass


def _forward(tape: Tape, layers: int) -> None:
    with tape.range("forward", "forward"):
        _operator(tape, "embedding", "embedding")
        tape.call("cudaEventQuery_v3020", thread=WATCHDOG)
        for layer in range(layers):
            with tape.range(f"block.{layer}", "module"):
                _attention(tape)
                _mlp(tape)
        _operator(tape, "linear", "logits", "bias")
        _operator(tape, "cross_entropy", "softmax", "loss")


def _attention(tape: Tape) -> None:
    _operator(tape, "layer_norm", "layer_norm")
    with tape.range("attention", domain=""):
        _operator(tape, "linear", "qkv", "bias")
        _operator(tape, "attention", "scores", "scale", "softmax", "dropout", "context")
        _operator(tape, "linear", "proj", "bias")
    _operator(tape, "add", "add")


def _mlp(tape: Tape) -> None:
    _operator(tape, "layer_norm", "layer_norm")
    with tape.range("mlp", domain=""):
        _operator(tape, "linear", "mlp_up", "bias")
        _operator(tape, "gelu", "gelu")
        _operator(tape, "linear", "mlp_down", "bias")
        _operator(tape, "dropout", "dropout")
    _operator(tape, "add", "add")


_BACKWARD_KERNELS = (
    *("dropout", "grad_input", "grad_weight", "reduce", "gelu_grad"),
    *("grad_input", "grad_weight", "reduce", "layer_norm_grad", "add"),
    *("grad_input", "grad_weight", "reduce", "softmax_grad", "scores", "context"),
    *("grad_input", "grad_weight", "reduce", "layer_norm_grad", "add"),
)


def _backward(tape: Tape, layers: int) -> None:
    """The autograd thread launches everything, with ranges for the collectives only."""
    with tape.range("backward", "backward"):
        tape.copy(D2D, 2 * _BATCH_BYTES)
        for _ in range(layers):
            for key in _BACKWARD_KERNELS:
                tape.launch(key, thread=AUTOGRAD)
            tape.call("cudaEventRecord_v3020", thread=AUTOGRAD)
            tape.call("cudaStreamWaitEvent_v3020", thread=AUTOGRAD)
            collective = tape.open(Label("ncclAllReduce", "NCCL"), thread=AUTOGRAD)
            tape.launch("all_reduce", thread=AUTOGRAD, stream=NCCL)
            tape.close(collective)
        tape.tick(3_000)


def _optimization(tape: Tape, layers: int, *, graph: bool, graph_trace: bool) -> None:
    with tape.range("optimization", "optimization"):
        with tape.range("clip gradients", "user"):
            if graph_trace:
                call = tape.call("cudaGraphLaunch_v10000", length_ns=9_000)
                tape.work(GRAPH, 3, call, COMPUTE, _GRAPH_RUN_NS)
            else:
                _operator(tape, "norm", "grad_norm", "reduce")
        with tape.range("adamw", "operator"):
            if graph:
                call = tape.call("cudaGraphLaunch_v10000", length_ns=11_000)
                for node in range(layers * len(_OPTIMIZER_KERNELS)):
                    key = _OPTIMIZER_KERNELS[node % len(_OPTIMIZER_KERNELS)]
                    tape.kernel(key, call, node=_node(2, node))
            else:
                for _ in range(layers):
                    for key in _OPTIMIZER_KERNELS:
                        tape.launch(key)
        with tape.range("zero gradients", "user"):
            tape.memset(_LAYER_BYTES)


def _address(layer: int) -> int:
    return 0x7F00_0000_0000 + layer * _LAYER_BYTES


def _node(graph: int, node: int) -> int:
    return graph << 32 | node
