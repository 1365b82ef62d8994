"""Models before they are loaded: cards, the library, downloads, what a drop will do."""
