"""The engine's thread: requests go in, replies come out, both frozen values."""
