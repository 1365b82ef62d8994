"""Where a message is written: the growing box, its attachments, Send and Stop."""
