"""Text to tokens and back: tokenizer, chat template, streamed answer text."""
