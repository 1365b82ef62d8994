"""MTP heads with a decoder layer of the trunk's class each, for trunks of mlx-lm's classes."""
