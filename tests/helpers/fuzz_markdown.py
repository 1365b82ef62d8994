"""Fuzzes what shows a model's text: markdown in pieces and as a whole, and formulas.

python tests/helpers/fuzz_markdown.py [markdown|formulas] [RUNS] [SEED]
"""

import os
import re
import sys
from random import Random

from fuzz import Check, fuzz

from app.window.transcript.formulas import set_formula
from app.window.transcript.markdown_text import FormulaKey, copied, markdown_html
from app.window.transcript.segment_column import link_definitions
from app.window.transcript.streaming_markdown import StreamingMarkdown, settled

LINE_STARTS = (
    "", "", "", "# ", "## ", "- ", "* ", "+ ", "1. ", "9) ", "> ", ">", "  ", "    ", "\t",
    "   - ", "- [ ] ", "| ", "```", "```py\n", "~~~", "- ```js\n", "> ```\n", "```math\n", "$$",
    "\\[", "\\begin{align}\n", "[^1]: ", "[a]: ", "---", "===", "|---|:-:|", "***", "* * *",
    "*  *  *",
)  # fmt: skip
WORDS = (
    "word", "字", "。", "**", "*", "_", "__", "~~", "`", "``", "$", "$x$", "$$", "\\(", "\\)",
    "\\[", "\\]", "\\end{align}", "[", "](", ")", "![", "[a]", "[^1]", "<b>", "<sub>", "</sub>",
    "<br>", "&amp;", "&", "http://a.b/c", "|", "\\", "\\|", "\n", "\n", "\n\n", "\r\n", " ", "  ",
    "\t",
    "x" * 90, "\ud800", "\0", "\u2028", "\ufffc", "🙂", "مرحبا", "```", "> ", "- ", "word " * 90,
    "$5", "5$",
)  # fmt: skip
BRACKETS = (
    ("{", "}"), ("{", "}"), ("^{", "}"), ("_{", "}"), (r"\frac{1}{", "}"), (r"\sqrt{", "}"),
    (r"\sqrt[", "]{x}"), (r"\left(", r"\right)"), (r"\text{", "}"), (r"\hat{", "}"),
    (r"\begin{matrix}", r"\end{matrix}"), (r"\begin{align*}", r"\end{align*}"),
    (r"\begin{cases}", r"\end{cases}"), (r"\mathbf{", "}"), (r"\overbrace{", "}^{a}"),
    (r"\hspace{", "em}"), (r"\xrightarrow{", "}"), (r"\binom{1}{", "}"), (r"\substack{", "}"),
)  # fmt: skip
COMMANDS = re.findall(
    r"\S+",
    r"\frac \dfrac \sqrt \binom \hat \widehat \vec \bar \overline \mathbf \mathbb \mathcal \mathrm "
    r"\text \operatorname \boxed \underbrace \overbrace \tag \pmod \left \right \big \Bigg \limits "
    r"\displaystyle \nonumber \hline \quad \qquad \alpha \Omega \varepsilon \infty \partial \leq "
    r"\neq \to \implies \in \cdot \sin \lim \max \ldots \not \| \, \; \: \! \{ \} \$ \% \& \# \_",
)
ATOMS = (
    "x", "y", "1", "23", "+", "=", "<", ",", "'", "&", r"\\", "^", "_", " ", r"\,", r"\sum", "字",
    "%", "#", "99999999", r"\kern9em", r"\rule{9em}{9em}", "\ud800", "\\", *COMMANDS,
)  # fmt: skip


def a_text(random: Random) -> str:
    lines = []
    for _ in range(random.choice((1, 2, 3, 4, 9))):
        words = (random.choice(WORDS) for _ in range(random.choice((0, 1, 4, 9))))
        lines.append(
            random.choice(LINE_STARTS) * random.choice((1, 1, 1, 1, 1, 3, 30)) + "".join(words)
        )
    return "\n".join(lines) * random.choice((1, 1, 1, 1, 5))


def a_formula(random: Random, depth: int = 0) -> str:
    parts = []
    for _ in range(random.choice((1, 2, 3, 5))):
        if depth < 12 and random.random() < 0.4:
            opened, closed = random.choice(BRACKETS)
            closed = closed if random.random() < 0.98 else ""
            parts.append(opened + a_formula(random, depth + 1) + closed)
        else:
            parts.append(random.choice(ATOMS) + random.choice(("", " ")))
    return "".join(parts)


def markdown() -> Check:
    return lambda random: try_markdown(a_text(random), random)


def try_markdown(text: str, random: Random) -> None:
    """In pieces it becomes the same as whole, and what is on show on the way is what it is."""
    whole, pieces = StreamingMarkdown(), StreamingMarkdown()
    whole.append(text)
    at, most = 0, random.choice((3, 30, 3000))
    while at < len(text):
        size = random.randint(1, most)
        pieces.append(text[at : at + size])
        at += size
        markdown_html(settled(pieces.segments[-1].markdown))
    for stream in (whole, pieces):
        stream.finish()
    assert pieces.segments == whole.segments, "other segments"
    assert whole.text == text, "lost text"
    definitions = link_definitions(whole.segments)
    for segment in whole.segments:
        markdown_html(segment.markdown, definitions)
        assert segment.kind == "prose" or isinstance(segment.code, str)
    copied(text)


def formulas() -> Check:
    set_formula(FormulaKey("x", False))

    def check(random: Random) -> None:
        latex = a_formula(random)
        set_formula(FormulaKey(latex, random.random() < 0.5))

    return check


if __name__ == "__main__":
    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    what, runs, seed = (*sys.argv[1:], *("markdown", "20000", "0")[len(sys.argv) - 1 :])
    print(fuzz({"markdown": markdown, "formulas": formulas}[what], int(runs), (), seed=int(seed)))
