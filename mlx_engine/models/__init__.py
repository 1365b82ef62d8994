"""Models: decoders of the engine's own layers, MTP heads, separate drafters, classes of mlx-lm."""
