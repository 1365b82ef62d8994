"""The chats: searched, grouped by day, pinned, renamed, duplicated, thrown away and taken back."""
