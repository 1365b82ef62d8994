"""Markdown becomes rich text in which nothing is raw and nothing can be fetched."""

import re
import time
from html import unescape

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.window.transcript.markdown_text import markdown_html

OURS = {
    "p", "ul", "ol", "li", "h1", "h2", "h3", "h4", "h5", "h6", "em", "strong", "s", "code", "pre",
    "table", "thead", "tbody", "tr", "th", "td", "blockquote", "hr", "br", "a", "span", "i", "b",
    "sub", "sup",
}  # fmt: skip


@pytest.fixture(scope="module")
def html():
    return markdown_html


@settings(max_examples=100)
@given(st.text(alphabet="<>&\"'`*_[]()!$\\|#- \nabscript:/=x1", max_size=80))
def test_only_our_tags_come_out(text):
    for tag, rest in re.findall(r"<(?!/)(\w+)([^>]*)>", markdown_html(text)):
        assert tag in OURS
        assert "src" not in re.sub(r'"[^"]*"', "", rest)


def test_html_is_shown_as_text(html):
    shown = html('a <script>alert(1)</script> <img src="http://x/y.png"> &lt;b&gt;')
    assert "&lt;script&gt;" in shown
    assert "<img" not in shown and "<script" not in shown


def test_images_are_links_and_not_loaded(html):
    shown = html("![a *cat*](https://x.org/cat.png)")
    assert '<a href="https://x.org/cat.png">Image: a cat</a>' in shown.replace("*", "")
    assert "Image: https://x.org/cat.png" in html("![](https://x.org/cat.png)")
    assert "href" not in html("![x](relative/cat.png)")


@pytest.mark.parametrize("address", ["javascript:alert(1)", "file:///etc/passwd", "data:x", "/x"])
def test_links_lead_to_the_web_only(html, address):
    assert "href" not in html(f"[x]({address})")


def test_bare_addresses_are_links(html):
    assert '<a href="https://a.b/c?d=1&amp;e">https://a.b/c?d=1&amp;e</a>.' in html(
        "see https://a.b/c?d=1&e."
    )
    assert html("[https://a.b](https://a.b)").count("<a ") == 1
    assert "<a" not in html("`https://a.b`")
    assert html("[x](https://a.b) and https://c.d").count("<a ") == 2


@pytest.mark.parametrize(
    "text",
    ["$5 and $10", "costs $5, or 5 $ now", "$ x $", "\\$x\\$", "`$x$`", "a$ b$", "$1,000 and $2"],
)
def test_money_is_not_maths(html, text):
    assert "title" not in html(text)


@pytest.mark.parametrize(
    ("text", "source"),
    [
        ("$x^2$", "$x^2$"),
        ("\\(a_1\\)", "$a_1$"),
        ("a $x$, $y$.", "$y$"),
        ("$$x$$", "$$x$$"),
        ("\\[\nx\n\\]", "$$x$$"),
        ("- \\[x\\]", "$$x$$"),
        ("so\n\\begin{align*}\na\n\\end{align*}\n\nand", "$$\\begin{align*}\na\n\\end{align*}$$"),
        ("so:\n$$\na = b \\\\\nc < d\n$$\nand", "$$a = b \\\\\nc &lt; d$$"),
    ],
)
def test_maths_is_found(html, text, source):
    assert re.search(f'<span title="{re.escape(source)} ?">{re.escape(source)}</span>', html(text))


@pytest.mark.parametrize(
    "address",
    ["https://x.org/wiki/Python_(language)", "https://x.org/a(b)c", "https://x.org/a_b/?q=1#d-e"],
)
def test_an_address_ends_where_it_ends(html, address):
    for text in ("{}", "see {}.", "({})", "**{}**", "[{}]", "a {}, b"):
        assert f'<a href="{address}">{address}</a>' in html(text.format(address))


def test_nothing_nested_is_lost(html):
    shown = html(
        "".join("  " * depth + f"- level{depth}\n" for depth in range(40)) + "\n> " * 20 + "q"
    )
    assert all(f"level{depth}" in shown for depth in range(40)) and shown.count("q</p>") == 1


def test_raised_and_lowered_letters(html):
    assert "H<sub>2</sub>O" in html("H<sub>2</sub>O")
    assert "&lt;sub&gt;2" in html("H<sub>2") and "&lt;sub&gt;" in html("`<sub>2</sub>`")


def test_tables(html):
    shown = html("| a | b |\n|:-:|--:|\n| x<br>y | <i> |")
    assert '<th align="center">a</th>' in shown
    assert '<td align="center">x<br>y</td>' in shown
    assert '<td align="right">&lt;i&gt;</td>' in shown
    assert "&lt;br&gt;" in html("a<br>b")
    assert html("| a |\n|---|").count("</table>") == 1


def test_task_lists(html):
    shown = html("- [x] done\n- [ ] to do\n- [a] no")
    assert '<li class="checked">done' in shown and '<li class="unchecked">to do' in shown
    assert "<li>[a] no" in shown


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        ("a[^1]\n\n[^1]: b **c**", '<p>a<sup>1</sup></p><p class="footnote"><sup>1</sup> b '
         "<strong>c</strong></p>"),
        ("a[^1]", "<p>a[^1]</p>"),
        ("[^<b>]\n\n[^<b>]: c", '<p><sup>&lt;b&gt;</sup></p><p class="footnote">'
         "<sup>&lt;b&gt;</sup> c</p>"),
        ("[^1]: never referred to", '<p class="footnote"><sup>1</sup> never referred to</p>'),
        ("[^1]: - x", '<p class="footnote"><sup>1</sup></p><ul><li>x</li></ul>'),
        ("[^1]:\n\nx", '<p class="footnote"><sup>1</sup></p><p>x</p>'),
        ("[^1]: a\n\n    b", '<p class="footnote"><sup>1</sup> a</p><p>b</p>'),
        ("^[no note] x^2", "<p>^[no note] x^2</p>"),
    ],
)  # fmt: skip
def test_footnotes(html, source, shown):
    assert html(source).replace("\n", "") == shown


def test_a_footnote_of_another_segment(html):
    assert html("a[^n]", "[^n]: b") == "<p>a<sup>n</sup></p>"


def test_reference_links_from_another_segment(html):
    assert '<a href="https://a.b">x</a>' in html("[x][1]", definitions="[1]: https://a.b\n")


@settings(max_examples=100)
@given(st.text(alphabet="abc <&\n\"'", max_size=60))
def test_words_survive(text):
    shown = unescape(re.sub(r"<[^>]*>", "", markdown_html(text)))
    assert "".join(shown.split()) == "".join(text.split())


@pytest.mark.parametrize(
    "text",
    ["[" * 4096, "*a " * 1400, "> " * 2000, "`" * 4096, "$" * 4096, "\\(" * 2000, "- " * 2000,
     "|" * 4096 + "\n|-|", "![" * 2000, "<" * 4096, "**a_" * 1000, "$" + "{" * 4000 + "$"],
)  # fmt: skip
def test_a_hostile_segment_takes_no_time(html, text):
    started = time.process_time()
    html(text)
    assert time.process_time() - started < 10


BESIDE_CJK = [
    "**注意：**请看", "**重要提示（Notice）：**请注意。", "这是**我想做的事。**所以继续。",
    "これは**「重要」**です。", "**마크다운(Markdown)**을 쓰세요.", "一**(二)**三",
    "这个**`code`**吗",
    "**ｶﾀｶﾅ｡**a", "**“a”\ufe01**字", "**(b)**字", "字**(b)**",
]  # fmt: skip


def test_bold_beside_chinese_japanese_and_korean_marks(html):
    assert [text for text in BESIDE_CJK if html(text).count("strong>") != 2] == []
    alone = ["a**(b)**c", "a**(b)**字", "字 ** 字** 字", "🙂**(b)**c"]
    assert [text for text in alone if html(text) != f"<p>{text}</p>"] == []


def test_lines_struck_out_beside_chinese_marks(html):
    assert html("~~「旧」~~新") == "<p><s>「旧」</s>新</p>"
    assert html("字_「a」_字") == "<p>字_「a」_字</p>"


PRICES_AND_NAMES = [
    "set $HOME/$USER first", "$a=$b; in PHP", "the US$/A$ rate", "I have $20, she has 30$.",
    "$PATH:$HOME", "echo $a$b", "between $20 and 30$ each", "$5 bis 10$ kostet", "$AAPL ($TSLA)",
    "$this->foo($bar)", "$_GET/$_POST", "5$/6$ a month", "价格$20，她有30$。", "awk {print $1$2}",
    "It costs $5 today.\nTomorrow it is 6$.", "Is $HOME set or is HOME$ empty", "$foo.$bar",
    "Price: $$ to $$$", "${HOME}/${USER}", "$(pwd)/$(ls)", "$10k/$20k", "USD$20 and USD$30",
]  # fmt: skip
FORMULAS = [
    "$n$th", "CO$_2$", "3$\\times$4", "100$\\mu$m", "函数$f(x)$和", "$5$ apples", "10$^{-3}$",
    "$2x + 3y = 10$", "$5 \\text{ kg and more of it}$", "$12 kg$", "$10 mod 3$", "$速度 = 距离$",
    "$m$/$s$", "“$x$”", "**$x$**", "$a$, $b$ and $c$", "$P(A|B)$", "$n!$", "$-1$", "\\($20\\)",
    "$$a$$", "$x$s", "$A$-$B$",
]  # fmt: skip


def test_dollars_of_prices_and_names_are_no_maths(html):
    assert [text for text in PRICES_AND_NAMES if "title" in html(text)] == []
    assert [text for text in FORMULAS if "title" not in html(text)] == []


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        ("Roses are red,\nviolets **are\nblue**.", "<p>Roses are red,<br>violets <strong>are<br>"
         "blue</strong>.</p>"),
        ("- a\n  b\n- c", "<ul><li>a<br>b</li><li>c</li></ul>"),
        ("> a\n> b", "<blockquote><p>a<br>b</p></blockquote>"),
        ("a  \nb\\\nc", "<p>a<br>b<br>c</p>"),
        ("# a\nb\n\nc", '<p class="h1">a</p><p>b</p><p>c</p>'),
    ],
)  # fmt: skip
def test_a_line_break_is_one(html, source, shown):
    assert html(source) == shown


def test_a_line_break_at_a_formula_is_that_of_the_formula(html):
    assert "<br><br>" not in html("a $$x$$\nb\nc $$y$$ d")


def test_what_is_nested_too_deep_is_text(html):
    assert "</p>" in html("> " * 300 + "end") and "end" in html("> " * 300 + "end")
    assert "end" in html("- " * 300 + "end") and "end" in html("1. > " * 200 + "end")


def test_a_table_is_no_larger_than_its_text(html):
    sparse = "|a" * 90 + "|\n" + "|-" * 90 + "|\n" + "|\n" * 200
    assert "<table" not in html(sparse)
    assert html("|a" * 90 + "|\n" + "|-" * 90 + "|\n" + ("|1" * 90 + "|\n") * 9).count("<td") == 810
    assert html("| a | b |\n|---|---|\n| 1 |\n|\n").count("<td") == 4
