"""Models that run in their mlx-lm class: plain decoding, prompt lookup, a draft model; no MTP."""
