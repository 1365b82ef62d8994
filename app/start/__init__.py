"""Process setup around the window: single instance, folders, assets, log, opened files."""
