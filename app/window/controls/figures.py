"""How far something is in bytes, and how long it takes, in words."""


def bytes_of(done: int, total: int) -> str:
    """ "4.10 of 18.2 GB", in the unit of the whole."""
    for unit, size in (("TB", 10**12), ("GB", 10**9), ("MB", 10**6), ("kB", 1000)):
        if total >= 0.9995 * size:
            digits = 2 if total < 9.995 * size else 1
            return f"{done / size:.{digits}f} of {total / size:.{digits}f} {unit}"
    return f"{done} of {total} B"


def duration_in_words(seconds: float) -> str:
    """ "40 s", "3 min", "2 h 5 min"."""
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    minutes = round(seconds / 60)
    if minutes < 90:
        return f"{minutes} min"
    return f"{minutes // 60} h {minutes % 60} min"
