"""Frozen values and errors that every room of the app may import."""

VERSION = "0.1.0"
"""Version of the whole program; pyproject.toml reads it here."""
