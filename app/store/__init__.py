"""Store chats in SQLite: a tree of messages per chat, search, a trash, import and export."""
