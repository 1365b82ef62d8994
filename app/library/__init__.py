"""Models on disk and what was dropped: found, described, recognised; downloads in a process."""
