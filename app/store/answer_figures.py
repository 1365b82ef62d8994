"""Figures of a chat's finished answers, for charts that outlive the program."""

from typing import NamedTuple

from app.store.database import Database
from app.store.message_rows import stats_from
from app.store.row_values import content_of, text_of
from mlx_engine.values.stats import GenerationStats

MOST = 500


class AnswerFigures(NamedTuple):
    """What one answer cost and won, and the name of the model that gave it."""

    model: str
    stats: GenerationStats


def answer_figures(database: Database, chat_id: int) -> tuple[AnswerFigures, ...]:
    """The newest finished answers of every branch, oldest first. Raises StoreError."""
    rows = database.rows(
        """SELECT model, stats FROM message
            WHERE chat = ? AND stats IS NOT NULL ORDER BY id DESC LIMIT ?""",
        chat_id,
        MOST,
    )
    read = ((text_of(row["model"]), stats_from(content_of(row["stats"]))) for row in rows)
    return tuple(AnswerFigures(model, stats) for model, stats in read if stats is not None)[::-1]
