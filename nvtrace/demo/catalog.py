"""What the invented program is made of: kernels, streams, threads, labels of ranges."""

from __future__ import annotations

from typing import NamedTuple

PHASES = ("dataloader", "forward", "backward", "optimization")
CATEGORIES = ("step", *PHASES, "communication", "operator", "operator_inner", "module", "user")
NAMED_DOMAINS = ("nvtrace", "NCCL")

COMPUTE, COPY, NCCL = 7, 14, 20  # stream ids, the same in every process
STREAMS = (COMPUTE, COPY, NCCL)

# Thread of a rank -> (offset of its id from the process id, name).
MAIN, LOADER, AUTOGRAD, WATCHDOG = range(4)
THREADS = ((0, "python3"), (3, "pt_data_pin"), (5, "pt_autograd_0"), (9, "pt_nccl_watchdg"))

PUSH_POP, START_END, MARK, CATEGORY_ROW, DOMAIN_ROW = 59, 60, 34, 33, 75


class Label(NamedTuple):
    """What the instances of a range have in common. A label without a domain has inline text."""

    name: str
    domain: str = ""
    category: str = ""
    event_type: int = PUSH_POP
    color: int | None = None


class Kernel(NamedTuple):
    """A kernel of the program, with its usual duration."""

    short_name: str
    full_name: str
    duration_ns: int
    grid: int
    block: int
    registers: int
    shared_bytes: int
    communication: bool = False


def _elementwise(functor: str, duration_ns: int) -> Kernel:
    full = (
        f"void at::native::vectorized_elementwise_kernel<(int)4, at::native::{functor}, "
        "at::detail::Array<char *, (int)3>>(int, T2, T3)"
    )
    return Kernel("vectorized_elementwise_kernel", full, duration_ns, 1536, 128, 24, 0)


def _gemm(tile: str, layout: str, duration_ns: int) -> Kernel:
    name = f"sm80_xmma_gemm_bf16bf16_bf16f32_f32_{layout}_n_tilesize{tile}_stage3_warpsize2x2x1"
    return Kernel(name, name, duration_ns, 216, 128, 230, 98_304)


def _nccl(name: str, duration_ns: int) -> Kernel:
    short = f"ncclDevKernel_{name}"
    full = f"{short}(ncclDevComm *, unsigned long, ncclWork *)"
    return Kernel(short, full, duration_ns, 24, 544, 96, 0, communication=True)


KERNELS = {
    "embedding": Kernel(
        "indexSelectLargeIndex",
        "void at::native::<unnamed>::indexSelectLargeIndex<c10::BFloat16, long, unsigned int, "
        "(int)2, (int)2, (int)-2, (bool)1>(at::cuda::detail::TensorInfo<T1, T3>)",
        9_000, 768, 128, 32, 0,
    ),
    "layer_norm": Kernel(
        "triton_per_fused_native_layer_norm_0", "triton_per_fused_native_layer_norm_0",
        5_200, 4096, 256, 28, 1_024,
    ),
    "qkv": _gemm("128x128x32", "tn", 24_000),
    "proj": _gemm("64x64x32", "tn", 14_000),
    "mlp_up": _gemm("256x128x32", "tn", 31_000),
    "mlp_down": _gemm("128x256x32", "tn", 30_000),
    "scores": _gemm("64x128x32", "nt", 11_000),
    "context": _gemm("64x128x32", "nn", 11_500),
    "grad_input": _gemm("128x128x32", "nn", 22_000),
    "grad_weight": _gemm("128x128x64", "nt", 23_500),
    "logits": _gemm("256x128x64", "tn", 74_000),
    "softmax": Kernel(
        "softmax_warp_forward",
        "void <unnamed>::softmax_warp_forward<c10::BFloat16, c10::BFloat16, float, (int)10, "
        "(bool)0, (bool)0>(T2 *, const T1 *, int, int, int, const bool *, int, bool)",
        7_800, 3072, 128, 40, 0,
    ),
    "softmax_grad": Kernel(
        "softmax_warp_backward",
        "void <unnamed>::softmax_warp_backward<float, c10::BFloat16, c10::BFloat16, (int)10, "
        "(bool)0, (bool)0>(T2 *, const T1 *, const T1 *, int, int, int, const bool *)",
        9_100, 3072, 128, 40, 0,
    ),
    "layer_norm_grad": Kernel(
        "GammaBetaBackwardCUDAKernelTemplate",
        "void at::native::<unnamed>::GammaBetaBackwardCUDAKernelTemplate<c10::BFloat16, float, "
        "(unsigned int)64, (unsigned int)8>(long, long, const T1 *, T1 *, T1 *)",
        8_400, 96, 512, 48, 4_096,
    ),
    "reduce": Kernel(
        "reduce_kernel",
        "void at::native::reduce_kernel<(int)512, (int)1, at::native::ReduceOp<c10::BFloat16, "
        "at::native::func_wrapper_t<c10::BFloat16>, unsigned int, float, (int)4>>(T3)",
        4_900, 192, 512, 32, 16,
    ),
    "loss": Kernel(
        "nll_loss_forward_reduce_cuda_kernel_2d",
        "void at::native::<unnamed>::nll_loss_forward_reduce_cuda_kernel_2d<float, float, long>"
        "(T1 *, T1 *, const T1 *, const T3 *, const T1 *, bool, long, long, long, long)",
        3_300, 1, 32, 30, 0,
    ),
    "bias": _elementwise("CUDAFunctor_add<c10::BFloat16>", 3_600),
    "add": _elementwise("AddFunctor<float>", 4_200),
    "scale": _elementwise("AUnaryFunctor<float, MulFunctor<float>>", 3_900),
    "gelu": _elementwise("GeluCUDAKernelImpl", 5_600),
    "gelu_grad": _elementwise("GeluBackwardCUDAKernelImpl", 7_000),
    "dropout": _elementwise("fused_dropout_kernel_vec", 5_100),
    "copy": _elementwise("bfloat16tofloat32_copy_kernel_cuda", 3_000),
    "adamw": Kernel(
        "multi_tensor_apply_kernel",
        "void at::native::<unnamed>::multi_tensor_apply_kernel<FusedOptimizerTensorListMetadata"
        "<(int)4>, FusedAdamMathFunctor<float, (int)4, (ADAM_MODE)1, (bool)0>>(T1, T2, T3...)",
        12_600, 320, 512, 56, 0,
    ),
    "grad_norm": Kernel(
        "multi_tensor_apply_kernel",
        "void at::native::<unnamed>::multi_tensor_apply_kernel<TensorListMetadata<(int)1>, "
        "LpNormFunctor<float, (NormType)1, float, (int)1>, float *, int>(T1, T2, T3...)",
        6_700, 320, 512, 40, 64,
    ),
    "all_reduce": _nccl("AllReduce_Sum_bf16_RING_LL", 52_000),
    "broadcast": _nccl("Broadcast_RING_LL", 21_000),
}  # fmt: skip

KERNEL_KEYS = tuple(KERNELS)
KERNEL_TABLE = tuple(KERNELS.values())

H2D, D2H, D2D = 1, 2, 8
MEM_PAGEABLE, MEM_PINNED, MEM_DEVICE = 0, 1, 2

COPY_KINDS = (
    (0, "CUDA_MEMCPY_KIND_UNKNOWN", "Unknown"),
    (H2D, "CUDA_MEMCPY_KIND_HTOD", "Host-to-Device"),
    (D2H, "CUDA_MEMCPY_KIND_DTOH", "Device-to-Host"),
    (D2D, "CUDA_MEMCPY_KIND_DTOD", "Device-to-Device"),
)
MEMORY_KINDS = (
    (MEM_PAGEABLE, "CUDA_MEMOPR_MEMORY_KIND_PAGEABLE", "Pageable"),
    (MEM_PINNED, "CUDA_MEMOPR_MEMORY_KIND_PINNED", "Pinned"),
    (MEM_DEVICE, "CUDA_MEMOPR_MEMORY_KIND_DEVICE", "Device"),
)
ALLOCATE, FREE = 0, 1
MEMORY_OPERATIONS = (
    (ALLOCATE, "CUDA_DEV_MEM_EVENT_OPR_ALLOCATION", "Allocation"),
    (FREE, "CUDA_DEV_MEM_EVENT_OPR_DEALLOCATION", "Deallocation"),
)
