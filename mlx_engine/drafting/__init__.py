"""Draft sources and the choice of draft length."""
