"""The sidebar: chats searched, grouped by day, pinned, renamed, copied, deleted, restored."""
