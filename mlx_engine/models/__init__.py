"""Adapters: one model family a file, trunk and MTP head."""
