"""Checks of this machine and this installation, each with a reason."""
