"""The desktop program around the engine."""

VERSION = "0.1.0"
