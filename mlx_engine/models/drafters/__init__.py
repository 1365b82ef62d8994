"""Draft models published apart from their target, which read what the target computes."""
