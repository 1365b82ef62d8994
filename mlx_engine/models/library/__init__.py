"""Any other class of mlx-lm, as it is: plain decoding, prompt lookup, a draft model."""
