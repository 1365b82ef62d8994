"""Measures the engine on this machine: speed, drafting, acceptance."""
