"""Whether a tool can be listening to NVTX: it is asked where NVTX itself looks for one.

NVTX looks once, at its first call. Without a tool its calls do nothing, so then they are not made.
"""

from __future__ import annotations

import os
from functools import lru_cache

_VARIABLES = (
    "NVTX_INJECTION64_PATH",
    "CUDA_INJECTION64_PATH",  # what CUDA loads may set the one above, unseen by os.environ
    "LD_PRELOAD",
)
_LINKED = "InitializeInjectionNvtx2_fnptr", "InitializeInjectionNvtx2Preinject"
_DRIVER, _OF_DRIVER = "libcuda.so.1", "cuNvtxGetInjectionInitializer"


def tool_possible() -> bool:
    """Whether something in this process may listen to NVTX, now or once CUDA is set up."""
    return any(os.environ.get(name) for name in _VARIABLES) or _within()


@lru_cache(maxsize=1)
def _within() -> bool:
    """Whether a tool is linked in, or the CUDA driver can bring one."""
    try:
        from ctypes import CDLL, c_void_p
    except ImportError:  # a Python without: suppose the dearer
        return True
    program = CDLL(None)
    for name in _LINKED:
        try:
            if c_void_p.in_dll(program, name):
                return True
        except ValueError:
            continue
    try:
        return hasattr(CDLL(_DRIVER), _OF_DRIVER)
    except OSError:
        return False
