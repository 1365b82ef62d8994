"""The state of the app: one observable object for each thing, which views watch."""
