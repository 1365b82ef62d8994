"""Models of the hub: links, plans of downloads, and downloads that can be resumed."""
