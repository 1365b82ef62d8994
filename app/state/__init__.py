"""Observable state of the app: one object for each thing, which views watch."""
