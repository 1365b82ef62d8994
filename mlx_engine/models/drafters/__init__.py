"""Draft models published apart from their target, whose inner states or KV cache they read."""
