"""MTP heads published as layers behind the last one (NextN), for trunks of mlx-lm's classes."""
