"""Models that run in mlx-lm's own model classes: decoding with or without a draft, no MTP heads."""
