"""The sidebar: chats searched, grouped by day, pinned, renamed, duplicated, deleted and
restored.
"""
