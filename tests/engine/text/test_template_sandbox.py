"""Hostile chat templates: each fails with BadChatTemplate, soon, and without much memory."""

import time
import tracemalloc

import pytest

from mlx_engine.text.chat_template import ChatTemplate
from mlx_engine.values.conversation import Message
from mlx_engine.values.errors import BadChatTemplate

ASK = [Message("user", "Who jumps?")]
LONG_LOOP = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"
ENDLESS = [
    LONG_LOOP,
    "{% set r = range(99999) %}{% for a in r %}{% for b in r %}{% for c in r %}"
    "{% endfor %}{% endfor %}{% endfor %}",
    "{% for a in range(99999) %}{% for b in range(99999) if false %}{% endfor %}{% endfor %}",
    "{% for a in range(9999) %}{{ range(99999) | map('string') | list | length }}{% endfor %}",
    "{% for a in range(9999) %}{{ range(99999) | select('odd') | list | length }}{% endfor %}",
    "{% for a in range(9999) %}{{ range(99999) | sort | first }}{% endfor %}",
    "{% for a in range(9999) %}{% if 9 in range(99999) | list %}{% endif %}{% endfor %}",
    "{% macro m(n) %}{{ m(n) }}{% endmacro %}{{ m(1) }}",
    "{% macro m(n) %}{% if n %}{{ m(n-1) }}{{ m(n-1) }}{% endif %}{% endmacro %}{{ m(40) }}",
    "{% for a in [1] recursive %}{{ loop([1]) }}{% endfor %}",
    "{% for a in range(300) recursive %}{{ loop(range(99999)) }}{% endfor %}",
    "{% macro m() %}{{ caller() }}{{ caller() }}{% endmacro %}"
    + "{% call m() %}" * 40
    + "x"
    + "{% endcall %}" * 40,
    "{{ " + "(" * 5000 + "1" + ")" * 5000 + " }}",
    "{{ " + "[" * 5000 + "]" * 5000 + " }}",
    "{% if 1 %}" * 500 + "{% endif %}" * 500,
    "{{ ('a' * 400000).rfind('ab' ~ 'a' * 200000) }}",
    "{{ (('<!---->' * 70000) | safe).striptags() }}",
    "{% autoescape true %}{% set a %}{{ '<!---->' * 100000 }}{% endset %}{% endautoescape %}"
    "{{ a.striptags() }}",
    "{% set a = 'x' * 2000000 %}{% set b = 'x' * 1000000 ~ 'x' * 1000000 %}"
    "{% for i in range(99999) %}{% if a == b %}{% endif %}{% endfor %}",
]
ENDLESS += [
    "{{ ('x' * 3000000) | wordwrap(1) | length }}",
    "{{ ('<!---->' * 70000) | striptags | length }}",
    "{{ ('http://a.b ' * 300000) | urlize | length }}",
    "{{ ([[1]] * 50000) | sum(start=[]) | length }}",
    "{% set ns = namespace(a=[]) %}{% for i in range(900) %}{% set ns.a = [ns.a, i] %}{% endfor %}"
    "{% for i in range(999) %}{{ ns.a | pprint | length }}{% endfor %}",
    "{{ 5 | round(-10**9) }}",
    "{% set " + ",".join(f"a{i}" for i in range(5000)) + " = x %}" + "{% if x %}{% endif %}" * 1500,
]
GROW = "{% set ns = namespace(a=START) %}{% for i in range(60) %}{% set ns.a = STEP %}{% endfor %}"
KEEP = "{% set ns = namespace(a=[]) %}{% for i in range(99999) %}{% set ns.a = STEP %}{% endfor %}"
HUGE = [
    "{{ 'a' * 10**10 }}",
    "{{ 10**10 * 'a' }}",
    "{{ [1] * 10**10 }}",
    "{{ (1,) * 10**9 }}",
    "{% set a = 'a' * 9**9 %}",
    "{{ 'x' | center(10**9) }}",
    "{{ 'x'.center(10**9) }}",
    "{{ 'x'.ljust(10**9) }}",
    "{{ 'x'.zfill(10**9) }}",
    "{{ '\\t'.expandtabs(10**9) }}",
    "{{ '%1000000000d' % 1 }}",
    "{{ '%*d' % (10**9, 1) }}",
    "{{ '%1000000000d' | format(1) }}",
    "{{ '{:1000000000}'.format(1) }}",
    "{{ '{:{}}'.format(1, 10**9) }}",
    "{{ '{a:1000000000}'.format_map({'a': 1}) }}",
    "{{ ('%s' * 9999) % (('x' * 99999,) * 9999) }}",
    "{{ ('{0}' * 9999).format('x' * 99999) }}",
    "{{ ('%(a)s' * 9999) % {'a': 'x' * 99999} }}",
    "{{ 'x' | indent(10**9, true) }}",
    "{{ ('x\\n' * 99999) | indent(99999) }}",
    "{{ 'x' | indent(-10**12) }}{{ 'a' * 10**9 }}",
    "{{ [1] | tojson(indent=10**9) }}",
    "{{ ('x' * 99999) | replace('x', 'x' * 99999) }}",
    "{{ ('x' * 99999).replace('x', 'x' * 99999) }}",
    "{{ ('x' * 99999).join(('x ' * 99999).split()) }}",
    "{{ ('x ' * 99999).split() | join('x' * 99999) }}",
    "{{ ('x' * 9999999).split('x') }}{{ ('x ' * 9999999).split() }}",
    "{{ [1] | batch(10**9, 1) | list }}",
    "{{ [1] | slice(10**9) | list }}",
    "{{ lipsum(n=10**9) }}",
    "{{ 'x' | center(10**9) | replace('x', 'y') | upper | length }}",
    "{{ ('a b ' * 9999) | wordwrap(2, true, 'x' * 9999) | length }}",
    "{{ ('http://a.b ' * 999) | urlize(target='x' * 99999) | length }}",
    "{{ [1] | batch(10**8, 'x' * 99) | first | length }}",
    "{{ {'a': '&' * 8000000} | xmlattr | length }}",
    "{{ ('%' * 8000000) | urlencode | urlencode | urlencode | length }}",
    "{{ 10**(10**10) }}",
    "{{ ('\u4e2d' * 7000000) | list | length }}",
    "{{ ('xx ' * 2000000).split() | length }}",
    "{% for i in range(9999) %}{{ loop | join('x' * 400000) | length }}{% endfor %}",
    "{{ 9**99 ** 99 }}",
    "{{ 1.5 | round(10**9, 'ceil') }}",
    "{{ (('f' * 8000000) | int(0, 16)) // (('e' * 4000000) | int(0, 16)) > 1 }}",
    "{{ ('a' * 3000000).strip('b' * 3000000 ~ 'a') }}",
    "{{ ('a' * 3000000) | trim('b' * 3000000 ~ 'a') }}",
    GROW.replace("START", "'a'").replace("STEP", "ns.a ~ ns.a"),
    GROW.replace("START", "'a'").replace("STEP", "ns.a + ns.a"),
    GROW.replace("START", "[1]").replace("STEP", "ns.a + ns.a"),
    GROW.replace("START", "7").replace("STEP", "ns.a * ns.a"),
    "{% set ns = namespace(a='a') %}{% for i in range(99) %}"
    "{% set b %}{{ ns.a }}{{ ns.a }}{% endset %}{% set ns.a = b %}{% endfor %}",
    "{% set ns = namespace(a='a') %}{% macro d(x) %}{{ x }}{{ x }}{% endmacro %}"
    "{% for i in range(99) %}{% set ns.a = d(ns.a) %}{% endfor %}",
    "{% set ns = namespace(a='a') %}{% for i in range(99) %}"
    "{% set b %}{% filter upper %}{{ ns.a }}{{ ns.a }}{% endfilter %}{% endset %}"
    "{% set ns.a = b %}{% endfor %}",
    "{% set a %}{% for i in range(99999) %}" + "x" * 9999 + "{% endfor %}{% endset %}",
    "{% for i in range(99999) %}" + "x" * 9999 + "{% endfor %}",
    "{% set ns = namespace(a=[]) %}{% for i in range(99999) %}"
    "{% set ns.a = ns.a + ['x' * 99999 ~ i] %}{% endfor %}",
    "{% set ns = namespace(a=[]) %}{% set b = 'x' * 99999 %}{% for i in range(99999) %}"
    "{% set ns.a = [b[i:], ns.a] %}{% endfor %}",
    KEEP.replace("STEP", "[" + "1, " * 999 + "ns.a]"),
    KEEP.replace("STEP", "{" + ", ".join(f"{i}: ns.a" for i in range(999)) + "}"),
]
LIST_BOMB = GROW.replace("START", "[1]").replace("STEP", "[ns.a, ns.a]")
TWO_BOMBS = LIST_BOMB + "{% set b = ns.a %}" + LIST_BOMB
UNFOLDING = [
    LIST_BOMB + "{{ ns.a }}",
    LIST_BOMB + "{{ ns.a | string | length }}",
    LIST_BOMB + "{{ ns.a | upper | length }}",
    LIST_BOMB + "{{ ns.a | tojson | length }}",
    LIST_BOMB + "{{ ns.a | join(',') | length }}",
    LIST_BOMB + "{{ [ns.a] | map('string') | list | length }}",
    LIST_BOMB + "{{ (ns.a ~ '') | length }}",
    LIST_BOMB + "{{ '%s' % (ns.a,) }}",
    LIST_BOMB + "{{ '{}'.format(ns.a) }}",
    LIST_BOMB + "{{ ','.join(ns.a) }}",
    TWO_BOMBS + "{{ ns.a == b }}",
    TWO_BOMBS + "{{ ns.a in [b] }}",
    TWO_BOMBS + "{{ ns.a is eq(b) }}",
    TWO_BOMBS + "{{ [b].index(ns.a) }}",
    TWO_BOMBS + "{{ [b, ns.a] | sort | length }}",
    TWO_BOMBS + "{{ [b, ns.a] | max | length }}",
    TWO_BOMBS + "{{ [[b], [ns.a]] | map('max') | sort | length }}",
    TWO_BOMBS + "{% for i in [1] %}{{ loop.changed(b) }}{{ loop.changed(ns.a) }}{% endfor %}",
    GROW.replace("START", "(1,)").replace("STEP", "(ns.a, ns.a)") + "{{ {ns.a: 1} | length }}",
    GROW.replace("START", "(1,)").replace("STEP", "((ns.a,) * 2)") + "{{ {}[ns.a] }}",
    GROW.replace("START", "{}").replace("STEP", "{'a': ns.a, 'b': ns.a}") + "{{ ns.a }}",
    GROW.replace("START", "namespace()").replace("STEP", "namespace(a=ns.a, b=ns.a)")
    + "{{ ns.a }}",
    GROW.replace("START", "namespace()").replace("STEP", "namespace(a=ns.a, b=ns.a)")
    + "{{ [ns.a] }}",
    "{% macro m(n) %}{% if n %}{{ m(n - 1, varargs, varargs) }}{% else %}{{ {varargs: 1} }}"
    "{% endif %}{% endmacro %}{{ m(50) }}",
]
REACHING = [
    "{{ 'x' | attr('__init__') }}",
    "{{ [1] | map('attr', '__class__') | list }}",
    "{{ ('' | forceescape).__html__ }}",
    "{{ ''.__class__.__mro__ }}",
    "{{ ''['__class__']['__mro__'] }}",
    "{{ '' | attr('__class__') }}",
    "{{ [''] | map(attribute='__class__.__mro__') | list }}",
    "{{ '{0.__class__.__mro__}'.format('') }}",
    "{{ raise_exception.__globals__ }}",
    "{{ messages.append({}) }}",
    "{{ messages[0].update(role='x') }}",
    "{{ (1).to_bytes(99999999, 'big') }}",
    "{{ 'x'.encode('utf-8').hex() }}",
    "{{ dict.fromkeys([1]) }}",
    "{{ self._TemplateReference__context }}",
    "{% for m in messages %}{{ loop._iterable }}{{ loop.__class__.__init__ }}{% endfor %}",
    "{% include 'secret.txt' %}",
    "{% import 'os' as os %}",
    "{% extends 'base' %}",
    "{{ namespace }}",
    "{{ range }}",
    "{{ environment.call }}",
    "{{ strftime_now('%Y' * 999) }}",
    "{{ 1 / 0 }}",
    "{{ messages[9].content }}",
    "{{ 'x' | nothing }}",
    "{% for %}",
    "x" * 200_000,
]


def refuse(source: str) -> None:
    with pytest.raises(BadChatTemplate, match=r"^a/file\.jinja: the chat template"):
        ChatTemplate(source, {}, "a/file.jinja").render(ASK, add_generation_prompt=True)


SOON_S = 5.0
"""Of a processor that others use as well; rendering ends at a fifth of it by itself."""


@pytest.mark.parametrize("source", [*ENDLESS, *REACHING])
def test_hostile_template_ends_soon(source: str) -> None:
    started = time.thread_time()
    refuse(source)
    assert time.thread_time() - started < SOON_S


@pytest.mark.parametrize("source", [*HUGE, *UNFOLDING])
def test_hostile_template_ends_soon_and_needs_little_memory(source: str) -> None:
    started = time.thread_time()
    tracemalloc.start()
    try:
        refuse(source)
        assert time.thread_time() - started < SOON_S
        assert tracemalloc.get_traced_memory()[1] < 100 * 2**20
    finally:
        tracemalloc.stop()
