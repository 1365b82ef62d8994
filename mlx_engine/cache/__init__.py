"""What the layers remember of a conversation, in memory and in files (saved prompts)."""
