"""GGUF files as models: read, named as Hugging Face does, and repacked for MLX."""
