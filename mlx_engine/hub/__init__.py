"""Models of the hub: what a name means, which files are needed, and their download."""
