"""Titles: taken from the first thing a user says, or given by the user."""

MAX_TITLE = 200
FIRST_WORDS = 60


def clean_title(text: str) -> str:
    """One line, not endless."""
    return " ".join(text.split())[:MAX_TITLE]


def title_from(text: str) -> str:
    """The first line with words in it, cut after a word."""
    line = clean_title(next((line for line in text.splitlines() if line.strip()), ""))
    if len(line) <= FIRST_WORDS:
        return line
    head, space, _ = line[: FIRST_WORDS + 1].rpartition(" ")
    return (head if len(head) > FIRST_WORDS // 2 and space else line[:FIRST_WORDS]) + "…"
