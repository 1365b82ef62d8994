"""Strings to tokens and back: tokenizer, chat template, streamed text."""
