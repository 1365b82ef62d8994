"""A model of what a pass and a round cost on each chip, for MLX's kernels and for ours."""
