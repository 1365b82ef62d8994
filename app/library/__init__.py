"""Models on disk and on the hub: found, described, recognised when dropped, downloaded."""
