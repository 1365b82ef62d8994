"""Draws the transcript in both schemes, with a rich chat and tinted words.

`python tests/speed/transcript_shots.py FOLDER`
"""

import random
import re
import sys
from dataclasses import replace
from pathlib import Path

from PySide6.QtGui import QFont, QFontDatabase
from PySide6.QtWidgets import QApplication

from app.values.chats import DraftedSpan
from app.window.look import Scheme
from app.window.style_sheet import dress
from app.window.transcript.shown_message import ShownMessage
from app.window.transcript.transcript_view import TranscriptView
from mlx_engine.values.stats import GenerationStats

STATS = GenerationStats(
    prompt_tokens=1210, reused_tokens=1034, generated_tokens=612, drafted=636, accepted=521,
    drafted_by_depth=(212, 212, 212), accepted_by_depth=(198, 174, 149), passes=212,
    tokens_per_pass=2.9, tokens_per_second=41.3, time_to_first_token_s=0.38,
)  # fmt: skip

PROMPT = "Write a merge sort in Python, say how fast it is, and compare it with quicksort."

ANSWER = """Merge sort splits the list in half, sorts each half, and **merges** the two sorted \
halves. It needs about `n` extra places.

```python
def merge_sort(items: list[int]) -> list[int]:
    \"\"\"A sorted copy of `items`.\"\"\"
    if len(items) < 2:
        return items[:]
    middle = len(items) // 2
    left, right = merge_sort(items[:middle]), merge_sort(items[middle:])
    merged = []
    while left and right:  # take the smaller head
        merged.append(left.pop(0) if left[0] <= right[0] else right.pop(0))
    return merged + left + right
```

## How fast it is

Each level of the recursion touches every item once, and there are $\\log_2 n$ levels:

$$T(n) = 2\\,T\\left(\\frac{n}{2}\\right) + \\Theta(n) = \\Theta(n \\log n)$$

| | Merge sort | Quicksort |
|---|:-:|:-:|
| Worst case | $n \\log n$ | $n^2$ |
| Extra memory | $n$ | $\\log n$ |
| Stable | yes | no |

A few things to keep in mind:

1. `pop(0)` is slow for long lists; use an index instead.
2. Python's own `sorted` is a merge sort too:
   - it finds runs that are *already sorted*,
   - and it is ~~never~~ rarely beaten, see [its notes](https://docs.python.org/3/howto/sorting.html).

> Measure first: a list of 50 items costs $5 less than you think.

- [x] sorted
- [ ] sorted in place
"""

SECOND = """Yes. Here is the same idea with two indices, which is faster because nothing is moved:

```python
while i < len(left) and j < len(right):
    ...
```

It stops here"""


def drafted(text: str, seed: int = 1) -> tuple[DraftedSpan, ...]:
    """Rounds as an engine would report them: a word of the model, then up to four drafted ones."""
    chance, spans, depth, depths = random.Random(seed), [], 0, 3
    for word in re.finditer(r"\s*\S+", text):
        if depth:
            spans.append(DraftedSpan(word.start(), word.end(), depth))
        depth += 1
        if depth > depths or chance.random() > 0.8:
            depth, depths = 0, chance.choice((2, 3, 4))
    return tuple(spans)


def chat() -> list[ShownMessage]:
    """A question, a long answer, an edited question and an answer that was stopped."""
    thought = "They want code first. I should mention stability, and that `pop(0)` is slow."
    first = ShownMessage(
        2, "assistant", ANSWER, thought, 4.2, drafted(ANSWER), STATS, branch_count=3, branch_index=1
    )
    stopped = replace(STATS, generated_tokens=48, drafted=0, tokens_per_second=22.1)
    return [
        ShownMessage(1, "user", PROMPT),
        first,
        ShownMessage(3, "user", "Can it go without pop?", branch_count=2),
        ShownMessage(
            4, "assistant", SECOND, "", None, drafted(SECOND), stopped, "stopped",
            can_continue=True, notice="Stopped by you.",
        ),
    ]  # fmt: skip


def shoot(
    app: QApplication, scheme: Scheme, name: str, folder: Path, drafted: bool, wide: int = 900
) -> None:
    """One picture of the whole chat."""
    list(dress(app, scheme, 1.0))
    view = TranscriptView()
    view.resize(wide, 1900)
    view.show_messages(chat())
    while view.column.is_filling:
        app.processEvents()
    view.set_drafted_shown(drafted)
    view.show()
    for _ in range(20):
        app.processEvents()
    message = view.column.view(2)
    if drafted and message is not None and message.answer and message.answer.thinking:
        message.answer.thinking.head.setChecked(True)
    for _ in range(20):
        app.processEvents()
    picture = view.grab()
    picture.save(str(folder / f"{name}.png"))
    view.close()


def main() -> None:
    """Pictures for both schemes."""
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    app = QApplication([])
    if "Inter" in QFontDatabase.families():
        app.setFont(QFont("Inter"))
    shoot(app, "light", "light", folder, drafted=False)
    shoot(app, "light", "light_drafted", folder, drafted=True)
    shoot(app, "dark", "dark_drafted", folder, drafted=True)
    shoot(app, "light", "narrow", folder, drafted=True, wide=480)


if __name__ == "__main__":
    main()
