"""Widgets: they show values and emit signals, nothing else."""
