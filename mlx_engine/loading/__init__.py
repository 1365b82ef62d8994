"""Load models: from files on disk or the hub to a model with tokenizer and template."""
