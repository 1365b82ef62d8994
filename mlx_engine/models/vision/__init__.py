"""Vision towers: pictures -> rows that stand for tokens in a prompt of the language model."""
