"""Qt widgets that watch the states and call their methods."""
