"""Frozen values the whole program may import: options, events, stats, descriptions, errors."""
