"""Decoders of our own layers, one family a file; MTP heads, drafters, and any class of mlx-lm."""
