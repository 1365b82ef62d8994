"""Chats in SQLite: a tree of messages for each, with search, a bin, and files in and out."""
