"""Which kernels are sound and fast on this machine, remembered from one load to the next."""
