"""A rich answer, the words of it that were drafted, and its figures."""

import random
import re

from app.values.chats import DraftedSpan
from mlx_engine.values.stats import GenerationStats

STATS = GenerationStats(
    prompt_tokens=1210, reused_tokens=1034, generated_tokens=612, drafted=636, accepted=521,
    drafted_by_depth=(212, 212, 212), accepted_by_depth=(198, 174, 149), passes=212,
    tokens_per_pass=2.9, tokens_per_second=41.3, time_to_first_token_s=0.38,
)  # fmt: skip

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
