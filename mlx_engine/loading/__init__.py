"""Files to a loaded model."""
