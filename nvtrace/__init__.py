"""nvtrace: where each training step's time went, on the CPU and on the GPU."""
