"""Widgets: each is given the states that it watches, and calls their methods."""
