"""What surrounds the window: one instance, folders, assets, the log, files from outside."""
