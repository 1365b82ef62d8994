"""Decoders of our own layers, in families; MTP heads, drafters, and any class of mlx-lm."""
