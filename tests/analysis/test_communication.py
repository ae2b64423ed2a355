"""Kernels of collectives, by their names."""

from __future__ import annotations

import pytest

from nvtrace.analysis.communication import is_collective


@pytest.mark.parametrize(
    "kernel",
    [
        "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
        "ncclKernel_AllReduce_RING_LL_Sum_float(ncclDevComm*, unsigned long, ncclWork*)",
        "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<(unsigned long)4096>)",
        "ncclSymDevKernel_AllGather_LL",
        "void vllm::cross_device_reduce_1stage<__half, 2>(vllm::RankData*)",
        "void flashinfer::trtllm_allreduce_fusion::allreduce_fusion_kernel_oneshot_lamport<...>",
        "nvshmemi_transfer_rma",
        "multimem_all_reduce_kernel",
        "void two_shot_all_reduce_kernel<float>",
    ],
)
def test_collectives(kernel):
    assert is_collective(kernel)


@pytest.mark.parametrize(
    "kernel",
    [
        "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float>>(...)",
        "void cub::DeviceReduceKernel<...>",
        "void at::native::elementwise_kernel<128, 2, broadcast_add>",
        "triton_red_fused_mean_0",
        "gather_kernel",
        "void scatter_add<float>",
        "ampere_sgemm_128x64_tn",
        "reduce_scatter_ops_helper",
        "nccl",
        "",
    ],
)
def test_computation(kernel):
    assert not is_collective(kernel)
