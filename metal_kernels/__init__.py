"""Kernels tuned for the verify path, each with a plain-ops reference."""
