"""Draft sources: MTP heads, prompt lookup, draft models; and which of them drafts in a chat."""
