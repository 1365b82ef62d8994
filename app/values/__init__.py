"""Frozen values and errors that every room of the app may import."""
