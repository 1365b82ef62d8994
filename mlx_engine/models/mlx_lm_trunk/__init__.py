"""Models that mlx-lm has a class for, run behind our contract without changing that library."""
