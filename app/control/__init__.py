"""Controllers between the widgets, the store, the library and the engine, one a concern."""
