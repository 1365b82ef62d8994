"""Fuzzes chat templates, the field that holds them, and generation_config.json.

python tests/helpers/fuzz_templates.py [templates|fields|configs] [RUNS] [SEED]
"""

import json
import sys
import tempfile
from pathlib import Path
from random import Random

import tokenizers
from chat_templates import CHATML, LLAMA, MISTRAL, QWEN, TOOLBOX
from fuzz import Check, fuzz, spoilt_json
from jinja2.defaults import DEFAULT_FILTERS, DEFAULT_TESTS
from tiny_tokenizer import make_tiny_tokenizer
from tokenizers import models

from mlx_engine.loading.describe import recommendation_from_folder
from mlx_engine.text.chat_template import ChatTemplate, tokenize_chat
from mlx_engine.text.streaming_text import StreamingText
from mlx_engine.text.tokenizer import Tokenizer
from mlx_engine.text.tokenizer_folder import read_tokenizer
from mlx_engine.values.conversation import Message

TALK = [Message("user", "Who <b>jumps</b>? http://fox.org"), Message("assistant", "Fox", "hm")]
SOUND = (CHATML, LLAMA, MISTRAL, QWEN, TOOLBOX)
ATOMS = """
    messages messages[0] messages[0].content messages[-1].role a b ns ns.a loop range namespace dict
    'a' 'ab'*9 '<!--' '{}{}' '%s%s' '%9999d' '' [] {} (1,) [1,2] [[1],'a'] {'a':1} 0 1 -1 2.5 1e308
    10**9 10**4000 99999 none true nothing cycler(1,2) joiner('x') caller() m(a) m varargs kwargs
    strftime_now('%Y') range(99999) range(9)|list ['x']*9999 ('x'*99999) ('x,'*99999).split(',')
    ('a\\n'*99999) ('<!---->'*9999) a|list loop.index raise_exception self
"""
LARGE = """
    ('x'*99999) ('x,'*99999).split(',') ('a\\n'*99999) ('<!---->'*9999) range(99999) range(9)|list
    ['x']*9999 ('{}'*999) ('%s'*999) messages (range(9)|map('string')|list) {'a':'x'*9999} 1.5 7
    ('http://a.b,'*9999) ('\\t'*9999) [[1],[2]]*999
"""
GIVEN = "9 99999 10**9 -1 'x' '' ',' 'x'*9999 'a' true none attribute=0 [1] (1,2)"
OPERATORS = "+ - * / // % ** ~ == < in and"
METHODS = """
    split join replace format format_map center zfill expandtabs ljust rjust strip title count find
    rfind index startswith encode items keys get values copy append update translate splitlines
    partition rsplit swapcase __class__ mro isdigit fromkeys next cycle
"""
BLOCKS = (
    "{{% for b in {0} %}}{1}{{% endfor %}}",
    "{{% for b in {0} if {2} %}}{1}{{% else %}}x{{% endfor %}}",
    "{{% for b in {0} recursive %}}{1}{{{{ loop({2}) }}}}{{% endfor %}}",
    "{{% if {0} %}}{1}{{% elif {2} %}}y{{% endif %}}",
    "{{% set a = {0} %}}{1}",
    "{{% set a %}}{1}{{% endset %}}",
    "{{% set ns.a = {0} %}}{1}",
    "{{% set ns = namespace(a={0}) %}}{1}",
    "{{% macro m(a, b={0}) %}}{1}{{% endmacro %}}{{{{ m({2}) }}}}",
    "{{% call m({0}) %}}{1}{{% endcall %}}",
    "{{% call(a) m() %}}{1}{{% endcall %}}",
    "{{% filter {3} %}}{1}{{% endfilter %}}",
    "{{% with a = {0} %}}{1}{{% endwith %}}",
    "{{% autoescape {0} %}}{1}{{% endautoescape %}}",
    "{{% block b %}}{1}{{% endblock %}}",
    "{{% include {0} %}}{1}",
    "{{% generation %}}{1}{{% endgeneration %}}",
)


def chain(random: Random) -> str:
    """Something large, through filters and methods with arguments of the right kinds."""
    made = random.choice(LARGE.split())
    for _ in range(random.randint(1, 6)):
        given = ", ".join(random.choice(GIVEN.split()) for _ in range(random.choice((0, 1, 1, 2))))
        name, method = random.choice([*DEFAULT_FILTERS]), random.choice(METHODS.split())
        made = random.choice((f"({made}|{name}({given}))", f"{made}.{method}({given})"))
    return made


def expression(random: Random, depth: int = 3) -> str:
    """Any, most of them senseless, with everything that Jinja knows by name."""
    if depth == 0:
        return random.choice(ATOMS.split())
    if random.random() < 0.3:
        return chain(random)
    left, right, third = (expression(random, random.randrange(depth)) for _ in range(3))
    arguments = random.choice(("", left, f"{left}, {right}", f"attribute={left}", f"*{left}"))
    forms = [
        f"({left} {random.choice(OPERATORS.split())} {right})",
        f"{left}|{random.choice([*DEFAULT_FILTERS])}({arguments})",
        f"{left}|{random.choice([*DEFAULT_FILTERS])}",
        f"{left}|map('{random.choice([*DEFAULT_FILTERS])}', {right})|list",
        f"{left}|select('{random.choice([*DEFAULT_TESTS])}', {right})|list",
        f"({left} is {random.choice([*DEFAULT_TESTS])} {random.choice(ATOMS.split())})",
        f"({left}).{random.choice(METHODS.split())}({arguments})",
        f"({left})[{right}]",
        f"({left})[{right}:{third}]",
        f"({left} if {right} else {third})",
        f"[{left}, {right}]",
        f"{{{left}: {right}}}",
        f"m({arguments})",
    ]
    return random.choice(forms)


def template(random: Random, depth: int = 4) -> str:
    """Blocks in each other around expressions."""
    if depth == 0 or random.random() < 0.2:
        return f"{{{{ {expression(random)} }}}}" * random.choice((1, 1, 2))
    parts = [template(random, depth - 1) for _ in range(random.choice((1, 1, 2)))]
    a, b = expression(random), expression(random, 1)
    return random.choice(BLOCKS).format(a, "".join(parts), b, random.choice([*DEFAULT_FILTERS]))


def spoilt_template(random: Random) -> str:
    """A sound one with some of its characters and tags elsewhere, or a generated one."""
    if random.random() < 0.7:
        return "{% set ns = namespace(a='a') %}" + template(random)
    source = random.choice(SOUND)
    for _ in range(random.randint(1, 4)):
        at, end = sorted(random.sample(range(len(source)), 2))
        end = min(end, at + random.choice((1, 3, 30)))
        new = random.choice(("", source[at:end] * 3, f"{{{{ {expression(random)} }}}}", "{%", "-"))
        source = source[:at] + new + source[end:]
    return source


def templates() -> Check:
    """Read, asked what they ask for, rendered, and an answer told apart by them."""
    tokenizer = Tokenizer(tokenizers.Tokenizer(models.BPE({"a": 0, "<think>": 1}, [])))

    def check(random: Random) -> None:
        made = ChatTemplate(spoilt_template(random), {"bos_token": "<s>"}, "a.jinja")
        made.check_arguments({name: "x" for name in made.arguments if name.isidentifier()})
        goes_on = random.random() < 0.3
        messages = TALK if goes_on else TALK[:1]
        tokenize_chat(made, tokenizer, messages, continue_last=goes_on)
        StreamingText(tokenizer, template=made.source).add([0])

    return check


def fields() -> Check:
    """The whole of `chat_template` in tokenizer_config.json."""
    folder = Path(tempfile.mkdtemp())
    sound = [{"name": "default", "template": CHATML}, {"name": "tool_use", "template": QWEN}]

    def check(random: Random) -> None:
        value = spoilt_json(random.choice((sound, CHATML, {"default": CHATML}, sound[0])), random)
        for name in ("chat_template.json", "tokenizer_config.json"):
            text = json.dumps({"chat_template": value, "eos_token": random.choice(("a", value))})
            (folder / name).write_text(text)
        made = ChatTemplate.from_folder(folder)
        if made is not None:
            made.render(TALK[:1], add_generation_prompt=True)

    return check


def configs() -> Check:
    """generation_config.json and what config.json has of it."""
    folder = make_tiny_tokenizer(Path(tempfile.mkdtemp()))
    ids = {"eos_token_id": [1, 2], "suppress_tokens": [3], "begin_suppress_tokens": [4]}
    sound = {**ids, "bos_token_id": 1, "do_sample": True, "temperature": 0.6, "top_k": 20}
    sound |= {"top_p": 0.95, "min_p": 0.0, "repetition_penalty": 1.05, "max_length": 4096}

    def check(random: Random) -> None:
        (folder / "generation_config.json").write_text(json.dumps(spoilt_json(sound, random)))
        config = spoilt_json({"eos_token_id": 2, "text_config": ids}, random)
        (folder / "config.json").write_text(json.dumps(config))
        recommendation_from_folder(folder)
        read_tokenizer(folder).fit_to_vocabulary(300)

    return check


if __name__ == "__main__":
    what, runs, seed = (*sys.argv[1:], *("templates", "20000", "0")[len(sys.argv) - 1 :])
    checks = {"templates": templates, "fields": fields, "configs": configs}
    print(what, fuzz(checks[what], int(runs), seed=int(seed)))
