"""kill -9 in the middle of an answer loses nothing that was shown for 2 s."""

import random
from concurrent.futures import ThreadPoolExecutor

from kill_while_writing import kill_changes_once, kill_once

KILLS = 10


def test_ten_kills(tmp_path):
    chance = random.Random(5)
    with ThreadPoolExecutor(KILLS) as pool:
        kills = list(
            pool.map(
                lambda number: kill_once(tmp_path / f"{number}" / "chats.db", chance, 2.6),
                range(KILLS),
            )
        )
    assert all(kill.promise_kept for kill in kills), kills
    assert any(kill.found for kill in kills)


def test_three_kills_while_chats_are_moved_edited_and_imported(tmp_path):
    chance = random.Random(3)
    kills = [kill_changes_once(tmp_path / "chats.db", chance, 0.1) for _ in range(3)]
    assert all(kill.promise_kept for kill in kills), kills
    assert kills[-1].found > 0
