"""What nvtrace shows for the names of Paddle's core, version by version: worked out by hand."""

from __future__ import annotations

import pytest
from builders import Capture

from nvtrace.analysis.paddle_names import is_wrapper, shown_name


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        # 2.3 and 2.4
        ("conv2d dygraph", "conv2d"),
        ("conv2d_grad grad_node", "conv2d_grad"),
        ("conv2d_grad::infer_shape", "conv2d_grad infer_meta"),
        ("conv2d_grad::compute", "conv2d_grad kernel launch"),
        # 2.6
        ("Conv2dGradNodeFinal", "conv2d_grad"),
        ("ReluGradNode", "relu_grad"),
        ("GradNodeAccumulation", "grad_accumulation"),
        ("relu compute", "relu kernel launch"),
        ("relu_grad infer_meta", "relu_grad infer_meta"),
        # 3.x
        ("Global_Conv2dGradNodeFinal", "conv2d_grad"),
        ("Global_CrossEntropyWithSoftmaxGradNode", "cross_entropy_with_softmax_grad"),
        ("Global_PNormGradNode", "p_norm_grad"),
        ("Global_FftC2cGradNode", "fft_c2c_grad"),
        ("Global_MultiplyDoubleGradNode", "multiply_double_grad"),
        ("Global_GradNodeAccumulation", "grad_accumulation"),
        ("Global_GradNodePyLayer_Tanh_backward", "Tanh_grad"),
        ("Global_Dy2StGradNode", "run_program_grad"),
        ("relu_ dygraph", "relu_"),
        ("pd_op.relu_grad_", "relu_grad_"),
        ("PhiKernelInstruction::infermeta", "PhiKernelInstruction infer_meta"),
        ("relu kernel launch", "relu kernel launch"),
        ("relu node_creation", "relu node_creation"),
        # not Paddle's
        ("aten::mm", "aten::mm"),
        ("dygraph", "dygraph"),
        ("my GradNode helper", "my GradNode helper"),
    ],
)
def test_shown_name(name: str, shown: str) -> None:
    assert shown_name(name) == shown


@pytest.mark.parametrize(
    ("name", "wrapper"),
    [
        ("Local_ReluGradNode", True),
        ("relu pybind_imperative_func", True),
        ("__add__ or __radd_ pybind_patch_func", True),
        ("relu dygraph", False),
        ("Global_ReluGradNode", False),
    ],
)
def test_wrappers(name: str, wrapper: bool) -> None:
    assert is_wrapper(name) is wrapper


def test_a_report_of_a_gpu_wheel_shows_the_same_names() -> None:
    capture = Capture()
    capture.range("relu pybind_imperative_func", 0, 100, domain="", category="")
    capture.range("relu dygraph", 10, 90, domain="", category="")
    capture.range("relu kernel launch", 20, 80, domain="", category="")
    capture.range("Global_ReluGradNode", 100, 200, domain="", category="")
    capture.range("Local_ReluGradNode", 110, 190, domain="", category="")
    capture.range("relu_grad kernel launch", 120, 180, domain="", category="")
    rows = capture.trace().summary("operator", sorted_by="name", op_detail=True)["operator"].rows()
    assert [(row["depth"], row["name"], row["cpu_total_ns"]) for row in rows] == [
        (0, "relu", 80),
        (1, "relu kernel launch", 60),
        (0, "relu_grad", 100),
        (1, "Local_ReluGradNode", 80),
        (1, "relu_grad kernel launch", 60),
    ]


def test_names_of_other_domains_are_left_alone() -> None:
    capture = Capture()
    capture.range("relu dygraph", 0, 10, domain="nvtrace", category="operator")
    capture.range("MyGradNode", 20, 30, domain="other", category="")
    names = [row["name"] for row in capture.trace().ranges_report()["ranges"].rows()]
    assert names == ["relu dygraph", "MyGradNode"]
