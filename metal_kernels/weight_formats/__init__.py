"""Storage formats of weight matrices that kernels read directly: MSL and plain MLX operations."""
