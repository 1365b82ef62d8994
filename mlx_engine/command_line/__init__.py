"""The `headstart` command: chat, generate, bench, inspect and doctor in a terminal."""
