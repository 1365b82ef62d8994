"""The same prompt with and without drafting, side by side."""
