"""One controller a concern, between the widgets, the store, the library and the engine."""
