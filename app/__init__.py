"""The desktop program around the engine."""
