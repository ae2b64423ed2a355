"""What ranges stand for: names that tools and people write, and names that only look like them."""

from __future__ import annotations

import pytest
from builders import Capture

from nvtrace.analysis.classification import parse_rule
from nvtrace.errors import UsageError
from nvtrace.model.schema import RangeKind


def classified(name: str, domain: str = "", *, category: str = "", rules=(), step_range=()):
    """The kind of a range, whether it was guessed, its name and its attributes."""
    capture = Capture()
    capture.range(name, 0, 10, domain=domain, category=category)
    if step_range:
        capture.step(1, 20, 30)
    explained = capture.trace().explain(rules=rules, step_range=step_range)
    names = explained.trace.strings
    attributes = explained.range_attributes[0]
    return (
        RangeKind(explained.range_kind[0]).name.lower(),
        bool(explained.range_guessed[0]),
        names[explained.range_name[0]],
        names[attributes] if attributes >= 0 else None,
    )


def kind(name: str, domain: str = "", **options) -> str:
    found, guessed, *_ = classified(name, domain, **options)
    return f"{found}?" if guessed else found


@pytest.mark.parametrize(
    ("written", "name", "attributes"),
    [
        ("aten::mm, seq = 5", "aten::mm", "seq = 5"),
        ("aten::mm, op_id = 17", "aten::mm", "op_id = 17"),
        ("aten::mm, seq = 5, op_id = 7", "aten::mm", "seq = 5, op_id = 7"),
        (
            "aten::add, op_id = 3, sizes = [[2, 3], [2, 3], []]",
            "aten::add",
            "op_id = 3, sizes = [[2, 3], [2, 3], []]",
        ),
        (
            "aten::cat, sizes = [[2], [3]], input_op_ids = [(1,0), (2,0)]",
            "aten::cat",
            "sizes = [[2], [3]], input_op_ids = [(1,0), (2,0)]",
        ),
        ("MmBackward0, seq = 12", "MmBackward0", "seq = 12"),
        ("load a, b and c", "load a, b and c", None),
        ("part 1, sequence = 4", "part 1, sequence = 4", None),
        (", seq = 5", "", "seq = 5"),
    ],
)
def test_names_lose_what_differs_from_call_to_call(written, name, attributes):
    assert classified(written)[2:] == (name, attributes)


OPERATORS = [
    "aten::mm, seq = 5, op_id = 9",
    "aten::_scaled_dot_product_flash_attention",
    "prims::convert_element_type",
    "torchvision::nms",
    "quantized::linear",
    "flash_attn::_flash_attn_forward",
    "MmBackward0, seq = 12",
    "AddBackward0",
    "ConvolutionBackward0",
    "torch::autograd::AccumulateGrad",
    "torch::autograd::CopyBackwards",
    "triton_poi_fused_add_relu_0",
    "relu dygraph",
    "matmul dygraph",
    "pd_op.matmul",
    "Global_MatmulGradNode",
    "MatmulGradNode",
    "Conv2dGradNodeFinal",
    "Global_Conv2dGradNodeFinal",
    "Global_Dy2StGradNode",
]
INNER = [
    "autograd::engine::evaluate_function: MmBackward0",
    "relu infer_meta",
    "relu compute",
    "relu kernel launch",
    "relu_grad kernel launch",
    "relu node_creation",
    "Local_MatmulGradNode",
    "relu pybind_imperative_func",
]
COMMUNICATION = [
    "nccl:all_reduce",
    "nccl:_all_gather_base",
    "gloo:all_reduce",
    "c10d::allreduce_",
    "record_param_comms",
    "_c10d_functional::all_reduce",
    "ncclAllReduce",
]
PHASES = {
    "dataloader": ["enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"],
    "optimization": ["Optimizer.step#AdamW.step", "Optimizer.zero_grad#AdamW.zero_grad"],
    "step": ["ProfilerStep#3", "ProfileStep#12"],
}


@pytest.mark.parametrize("name", OPERATORS)
def test_operators(name):
    assert kind(name) == "operator"


@pytest.mark.parametrize("name", INNER)
def test_inner_phases_of_operators(name):
    assert kind(name) == "operator_inner"


@pytest.mark.parametrize("name", COMMUNICATION)
def test_communication(name):
    assert kind(name) == "communication"


@pytest.mark.parametrize(
    ("name", "expected"), [(name, kind) for kind, names in PHASES.items() for name in names]
)
def test_steps_and_phases_that_tools_mark(name, expected):
    assert kind(name) == expected


@pytest.mark.parametrize(
    ("name", "domain", "expected"),
    [
        ("ncclAllReduce", "NCCL", "communication"),
        ("ncclGroupStart", "NCCL", "communication"),
        ("cub::DeviceReduce::Sum", "CCCL", "operator_inner"),
        ("/blocks.0/Conv + /blocks.0/Relu", "TensorRT", "operator"),
        ("myelinGraphExecute", "myelin", "operator_inner"),
        ("XlaModule:#hlo_module=jit_train_step,program_id=3#", "TSL", "module"),
        ("TSL:XlaModule:#hlo_module=jit_f#", "", "module"),
        ("Thunk:#hlo_op=loop_fusion.2,unique_hlo_op_id=4#", "TSL", "operator"),
        ("Thunk:#name=jit(f)/psum,hlo_op=all-reduce.1#", "TSL", "communication"),
        ("Thunk:#hlo_op=all-gather-start.3#", "TSL", "communication"),
        ("XlaCompile:#module=jit_f,program_id=3#", "TSL", "user"),
    ],
)
def test_libraries_with_a_domain(name, domain, expected):
    assert kind(name, domain) == expected


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (
            [
                *("step 12", "Step 3", "step_7", "step:4", "step=4", "step-4", "train_step 9"),
                *("iteration 12", "iteration0", "iter 5", "iter_5", "batch 5", "Batch #7"),
                *("training step 3", "global_step 3"),
            ],
            "step?",
        ),
        (["forward", "Forward", "fwd", "forward pass", "forward_step", "forward()"], "forward?"),
        (["backward", "bwd", "Backward pass", "backward_step", "[backward]"], "backward?"),
        (
            [
                *("optimizer", "optimizer step", "optimizer_step", "optimizer.step", "Optimizer"),
                *("optimizer.step()", "opt.step()", "opt_step", "optimisation", "optim"),
            ],
            "optimization?",
        ),
        (["dataloader", "data_loader", "data loading", "load_data", "next_batch"], "dataloader?"),
    ],
)
def test_plain_names_are_guesses(names, expected):
    assert {name: kind(name) for name in names} == dict.fromkeys(names, expected)


@pytest.mark.parametrize(
    "name",
    [
        *("reduce_mean", "broadcast_weights", "all_reduce_loss", "gather", "allreduce"),
        *("step", "step0", "footstep 3", "step 3 of 9", "stepwise 4", "Step N to M", "epoch 3"),
        *("batch_norm", "batch norm 2 fused", "batchnorm 2", "iterate 5", "batch", "warmup 3"),
        *("Warm-up Step 3", "it0", "5"),
        *("forward_hook", "poolformer_forward", "carry forward", "fast_forward", "forwarding"),
        *("backward_compatible", "look backward", "optimizer_state_load", "optimal", "options"),
        *("loader", "upload", "data", "database load", "FSDP::pre_forward (layer.1)"),
        *("cub::DeviceReduce::Sum", "thrust::transform", "my aten::mm", "NotAGradNodes here"),
        *("ncclish", "nccl", "compute", "relu", "module.layer1", ""),
    ],
)
def test_names_that_only_look_like_it_are_the_users(name):
    assert kind(name) == "user"


@pytest.mark.parametrize("domain", ["CCCL", "myapp", "NCCL"])
def test_no_step_or_phase_is_guessed_in_a_domain_of_its_own(domain):
    assert kind("step 3", domain) not in {"step", "step?"}
    assert kind("forward", domain) not in {"forward", "forward?"}


def test_a_collective_in_an_operation_name_is_no_collective():
    assert kind("Thunk:#name=jit(f)/all-reduce-stats,hlo_op=loop_fusion.2#", "TSL") == "operator"


@pytest.mark.parametrize("name", [kind.name.lower() for kind in RangeKind])
def test_nvtrace_states_kinds_as_categories(name):
    assert classified("anything at all", "nvtrace", category=name)[:2] == (name, False)


def test_in_nvtrace_s_domain_names_and_foreign_categories_say_nothing():
    assert kind("step 3", "nvtrace") == "user"
    assert kind("forward", "nvtrace", category="mine") == "user"
    assert kind("work", "other", category="forward") == "user"


def test_rules_of_the_user_come_first():
    assert kind("aten::mm", rules=["aten::mm=communication"]) == "communication"
    assert kind("my_allreduce", rules=["allreduce$=communication"]) == "communication"
    assert kind("forward", "nvtrace", category="forward", rules=["forward=user"]) == "user"
    assert kind("x", rules=["^x=step", "x=forward"]) == "step"


def test_rules_may_ask_for_a_domain():
    rule = ["^fwd@my.*=forward"]
    assert kind("fwd", "myapp", rules=rule) == "forward"
    assert kind("fwd", "other", rules=rule) == "user"
    assert kind("bwd", "myapp", rules=rule) == "user"
    assert kind("anything", "myapp", rules=["@myapp=module"]) == "module"
    assert kind("a=b", rules=["^a=b$=module"]) == "module"


@pytest.mark.parametrize(
    "text",
    [*("", "=", "forward", "=step", "name=", "name=stop", "name=Step of", "(=step", "x@[=step")],
)
def test_a_rule_that_cannot_be_read_is_one_line(text):
    with pytest.raises(UsageError) as caught:
        Capture().trace().explain(rules=[text])
    assert repr(text) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_rule_says_which_kinds_there_are():
    with pytest.raises(UsageError, match="user, step, dataloader, forward, backward, optimization"):
        parse_rule("x=y")


@pytest.mark.parametrize(
    ("pattern", "name", "expected"),
    [
        ("epoch", "epoch", "step"),
        ("epoch*", "epoch 3", "step"),
        ("it?", "it4", "step"),
        ("epoch", "epoch 3", "user"),
        ("Epoch*", "epoch 3", "user"),
        ("load [a]", "load [a]", "step"),
        ("aten::mm", "aten::mm, seq = 5", "step"),
    ],
)
def test_steps_by_name(pattern, name, expected):
    assert kind(name, step_range=[pattern, "step"]) == expected


def test_named_steps_take_the_place_of_those_recognised():
    capture = Capture()
    capture.range("step 3", 0, 10)
    capture.range("ProfilerStep#4", 20, 30)
    capture.range("epoch", 0, 90)
    explained = capture.trace().explain(step_range=["epoch"])
    assert [RangeKind(kind).name for kind in explained.range_kind] == ["STEP", "USER", "USER"]
    assert explained.step_rows.tolist() == [0]


def test_where_steps_are_marked_none_is_guessed():
    capture = Capture()
    for number in range(2):
        capture.step(number, number * 100, number * 100 + 90)
        capture.range(f"batch {number + 1}", number * 100, number * 100 + 30, tid=2)
    trace = capture.trace()
    explained = trace.explain()
    assert len(explained.step_rows) == 2
    assert not explained.range_guessed.any()
    assert trace.summary("model")["model"]["cpu_total_ns"].tolist() == [180, 180]
    names = {row["name"] for row in trace.summary("user_defined")["user_defined"]}
    assert names == {"batch 1", "batch 2"}
    # a mark is no step, so it takes the place of none
    capture = Capture()
    capture.range("step 1", 0, 10)
    capture.mark("step", 5, domain="nvtrace", category="step")
    assert capture.trace().explain().step_rows.tolist() == [0]
