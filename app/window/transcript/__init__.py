"""The transcript of a chat: prose, code and thinking, with drafted words tinted."""
