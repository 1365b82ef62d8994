"""Ways of storing a matrix that kernels read directly: MSL to fetch eight values, and plain ops."""
