"""Rendered prompts against transformers' apply_chat_template, for the shapes models come with."""

import json
from datetime import datetime
from pathlib import Path

import pytest
import transformers
from chat_templates import CHATML, LLAMA, MISTRAL, QWEN, TOOLBOX, TOOLS
from tiny_tokenizer import make_tiny_tokenizer

from mlx_engine.text.channels import opens_thinking
from mlx_engine.text.chat_template import ChatTemplate, alternate_roles, fallback_template
from mlx_engine.values.conversation import Message, Tool, ToolCall
from mlx_engine.values.errors import BadChatTemplate, BadOption, BadPrompt
from mlx_engine.values.options import TemplateValue

TOKENS = {"bos_token": "<|endoftext|>", "eos_token": "<|im_end|>"}
ASK = [Message("user", "Who jumps?")]
TALK = [
    Message("system", " Be brief. "),
    Message("user", "Who jumps?\n\n- fox\n- dog"),
    Message("assistant", "The fox.", "fox <or> dog & 'cat'"),
    Message("user", "Sure? 😀 {{ 1 }}"),
]
DONE = [*TALK, Message("assistant", "Yes, the", "thought")]


@pytest.fixture(scope="module")
def truth(tmp_path_factory: pytest.TempPathFactory) -> transformers.PreTrainedTokenizerFast:
    folder = make_tiny_tokenizer(tmp_path_factory.mktemp("tiny"))
    return transformers.PreTrainedTokenizerFast.from_pretrained(folder, bos_token="<|endoftext|>")


def as_dicts(messages: list[Message]) -> list[dict[str, str]]:
    return [
        {"role": m.role, "content": m.text}
        | ({"reasoning_content": m.thinking} if m.thinking else {})
        for m in messages
    ]


@pytest.mark.parametrize("source", [CHATML, QWEN, LLAMA, MISTRAL, TOOLBOX])
@pytest.mark.parametrize("messages", [ASK, TALK, TALK[1:], DONE])
@pytest.mark.parametrize("prompt", [True, False])
@pytest.mark.parametrize("thinking", [None, True, False])
def test_text_is_that_of_transformers(
    truth: transformers.PreTrainedTokenizerFast,
    source: str,
    messages: list[Message],
    prompt: bool,
    thinking: bool | None,
) -> None:
    options = {} if thinking is None else {"enable_thinking": thinking}
    expected = truth.apply_chat_template(
        as_dicts(messages),
        chat_template=source,
        add_generation_prompt=prompt,
        tokenize=False,
        **options,
    )
    template = ChatTemplate(source, TOKENS, "test")
    assert template.render(messages, add_generation_prompt=prompt, arguments=options) == expected


PLACE = Tool("place", "Say where <it> is.", {"type": "object", "properties": {"of": {}}})
CALLED = [
    *TALK,
    Message("assistant", "I look.", "", (ToolCall("place", '{"of": "fox é"}', "a1"),)),
    Message("tool", "there", call_id="a1"),
    Message("tool", "here", call_id="a2"),
]


@pytest.mark.parametrize("messages", [ASK, TALK, CALLED])
@pytest.mark.parametrize("tools", [(), (PLACE,), (PLACE, Tool("now"))])
def test_tools_and_calls_are_told_as_transformers_tells_them(
    truth: transformers.PreTrainedTokenizerFast, messages: list[Message], tools: tuple[Tool, ...]
) -> None:
    functions = [
        {"type": "function", "function": {"name": t.name, "description": t.description,
                                          "parameters": t.parameters}}
        for t in tools
    ]  # fmt: skip
    told = as_dicts(messages)
    for fields, message in zip(told, messages, strict=True):
        if message.calls:
            fields["tool_calls"] = [
                {"type": "function", "id": c.id,
                 "function": {"name": c.name, "arguments": json.loads(c.arguments)}}
                for c in message.calls
            ]  # fmt: skip
        if message.call_id:
            fields["tool_call_id"] = message.call_id
    expected = truth.apply_chat_template(
        told,
        tools=functions or None,
        chat_template=TOOLS,
        add_generation_prompt=True,
        tokenize=False,
    )
    template = ChatTemplate(TOOLS, TOKENS, "test")
    assert template.render(messages, add_generation_prompt=True, tools=tools) == expected
    assert template.describes_tools
    assert not ChatTemplate(QWEN, TOKENS, "test").describes_tools


def test_a_template_that_joins_arguments_as_text_gets_text() -> None:
    source = (
        "{% for m in messages %}{% for tool in m.tool_calls or [] %}"
        "{{ tool['function']['name'] + '\n' + tool['function']['arguments'] + '\n' }}"
        "{% endfor %}{{ m.content }}{% endfor %}"
    )
    template = ChatTemplate(source, TOKENS, "test")
    assert '\nplace\n{"of": "fox é"}\n'.removeprefix("\n") in template.render(
        CALLED, add_generation_prompt=True
    )


@pytest.mark.parametrize("source", [CHATML, QWEN, LLAMA, MISTRAL])
def test_continued_answer_ends_the_prompt(source: str) -> None:
    template = ChatTemplate(source, TOKENS, "test")
    prompt = template.render(DONE, add_generation_prompt=False, continue_last=True)
    assert prompt.endswith("Yes, the")
    assert template.render(DONE, add_generation_prompt=False).startswith(prompt)


def test_a_template_that_shows_the_answer_twice() -> None:
    template = ChatTemplate("{{ messages[-1].content }}|{{ messages[-1].content }}|", {}, "x")
    prompt = template.render(DONE, add_generation_prompt=False, continue_last=True)
    assert prompt == "Yes, the|Yes, the"


def test_an_answer_stopped_while_thinking_goes_on_thinking() -> None:
    template = ChatTemplate(QWEN, TOKENS, "test")
    messages = [*ASK, Message("assistant", "", "Let me see")]
    prompt = template.render(messages, add_generation_prompt=False, continue_last=True)
    assert prompt.endswith("<think>\nLet me see")


def test_what_cannot_be_continued() -> None:
    with pytest.raises(BadPrompt, match="not one"):
        ChatTemplate(CHATML, TOKENS, "x").render(
            ASK, add_generation_prompt=False, continue_last=True
        )
    with pytest.raises(BadChatTemplate, match="leaves out"):
        ChatTemplate("{{ messages[0].content }}", {}, "x").render(
            DONE, add_generation_prompt=False, continue_last=True
        )


def test_refusal_of_the_template_is_reported() -> None:
    refusing = MISTRAL.replace("{{ bos_token }}", "{{ raise_exception('never') }}")
    assert refusing != MISTRAL
    for messages in (ASK, [*ASK, *ASK]):
        with pytest.raises(BadChatTemplate, match=r"folder/file\.jinja.*never"):
            ChatTemplate(refusing, TOKENS, "folder/file.jinja").render(
                messages, add_generation_prompt=True
            )


def test_a_long_refusal_is_cut() -> None:
    template = ChatTemplate("{{ raise_exception('no ' * 99999) }}", {}, "x")
    with pytest.raises(BadChatTemplate, match="no…") as refused:
        template.render(ASK, add_generation_prompt=True)
    assert len(str(refused.value)) < 700


YES = Message("assistant", "Yes", "so")


@pytest.mark.parametrize(
    ("messages", "turns"),
    [
        ([*ASK, *ASK], [Message("user", "Who jumps?\n\nWho jumps?")]),
        ([*ASK, *ASK, YES, *ASK], [Message("user", "Who jumps?\n\nWho jumps?"), YES, *ASK]),
        ([*ASK, YES, YES], [*ASK, Message("assistant", "Yes\n\nYes", "so\n\nso")]),
        ([YES, *ASK], [Message("user", ""), YES, *ASK]),
        ([TALK[0], YES], [TALK[0], Message("user", ""), YES]),
        (TALK, TALK),
    ],
)
def test_questions_and_answers_come_by_turns_where_they_have_to(
    messages: list[Message], turns: list[Message]
) -> None:
    assert alternate_roles(messages) == turns
    strict, lenient = (ChatTemplate(source, TOKENS, "x") for source in (MISTRAL, CHATML))
    how = {"add_generation_prompt": True}
    if messages[0].role != "system":
        assert strict.render(messages, **how) == strict.render(turns, **how)
        if turns[-1].role == "assistant":
            how = {"add_generation_prompt": False, "continue_last": True}
            assert strict.render(messages, **how) == strict.render(turns, **how)
    assert (lenient.render(messages, **how) == lenient.render(turns, **how)) == (messages == turns)


def test_a_template_for_pictures_sees_the_text() -> None:
    """Such as SmolVLM's and LLaVA's, which go through a list of parts."""
    loop = "{% for p in m.content if p['type'] == 'text' %}{{ p['text'] }}{% endfor %}"
    strict = "{{ (m.content | selectattr('type', 'equalto', 'text') | first).text }}"
    for content in (loop, strict):
        source = CHATML.replace("{{ m['content'] }}", content)
        assert source != CHATML
        for last, goes_on in ((Message("user", "Hi"), False), (Message("assistant", "Yes"), True)):
            asked, how = [Message("user", "One"), last], {"add_generation_prompt": False}
            wanted = ChatTemplate(CHATML, {}, "x").render(asked, continue_last=goes_on, **how)
            found = ChatTemplate(source, {}, "x").render(asked, continue_last=goes_on, **how)
            assert found == wanted


def test_no_messages() -> None:
    with pytest.raises(BadPrompt):
        fallback_template().render([], add_generation_prompt=True)


def test_plain_format() -> None:
    assert fallback_template().render(TALK[:3], add_generation_prompt=True) == (
        "System:  Be brief. \n\nUser: Who jumps?\n\n- fox\n- dog\n\nAssistant: The fox.\n\n"
        "Assistant:"
    )


def test_thinking_of_a_template() -> None:
    qwen = ChatTemplate(QWEN, TOKENS, "x")
    assert qwen.can_switch_thinking
    always = ChatTemplate("{{ messages[0].content }}<think>", {}, "x")
    assert not always.can_switch_thinking
    opened = qwen.render(ASK, add_generation_prompt=True)
    closed = qwen.render(ASK, add_generation_prompt=True, arguments={"enable_thinking": False})
    assert opens_thinking(opened) and not opens_thinking(closed)


PRESERVING = (
    "{{ bos_token }}{% set ns = namespace(last=0) %}"
    "{% for m in messages %}{% if m.role == 'user' %}{% set ns.last = loop.index0 %}{% endif %}"
    "{% endfor %}{% for m in messages %}"
    "{% set thought = m.reasoning_content if m.reasoning_content is string else '' %}"
    "{% set kept = preserve_thinking is defined and preserve_thinking is true %}"
    "{{ m.role }}: {% if thought and (kept or loop.index0 > ns.last) %}<{{ thought }}>{% endif %}"
    "{{ m.content }}\n{% endfor %}effort {{ reasoning_effort | default('medium') }}"
)
"""As Qwen3.6 and gpt-oss have such arguments."""
THOUGHT = [Message("user", "a"), Message("assistant", "b", "hm"), Message("user", "c")]


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"preserve_thinking": True},
        {"preserve_thinking": False, "reasoning_effort": "high"},
        {"reasoning_effort": 3, "of_another_model": "x"},
    ],
)
def test_arguments_are_those_of_transformers(
    truth: transformers.PreTrainedTokenizerFast, arguments: dict[str, TemplateValue]
) -> None:
    template = ChatTemplate(PRESERVING, TOKENS, "x")
    template.check_arguments(arguments)
    wanted = truth.apply_chat_template(
        as_dicts(THOUGHT), chat_template=PRESERVING, tokenize=False, **arguments
    )
    assert template.render(THOUGHT, add_generation_prompt=False, arguments=arguments) == wanted
    assert ("<hm>" in wanted) == (arguments.get("preserve_thinking") is True)


@pytest.mark.parametrize(
    "expression",
    """[1, 2] | sum; 3.456 | round(1); 3.456 | round(1, 'floor'); m.content | batch(2) | list
    [1, 2, 3] | slice(2) | list; m.content | truncate(8); m | pprint; m | attr('nothing')
    m.content | wordwrap(4); m.content | urlencode; {'b': 'c d'} | urlencode; m.role | center(9)
    '<b>x</b> y' | striptags; '<b>' | forceescape; {'a': 1} | xmlattr; 1000 | filesizeformat
    ['a'] | random; 'see http://a.b' | urlize; [[1], [2]] | sum(start=[]); [m] | groupby('role')
    messages | map(attribute='role') | join(','); [3, 1] | sort | max; '%s' | format(m.role)
    m | tojson(indent=2); m.items() | list; [1, 1] | unique | list; m | dictsort; 'a b' | wordcount
    '5' | int + 1; '<' | e; 'ab' | list | reverse | list; 'x' is string; m is mapping
    [1, 2] | select('odd') | list; 'ABC' | lower | title; -1 | abs; none | default('x', true)
    """.replace("\n", ";").split(";")[:-1],
)
def test_all_of_jinja_is_there(
    truth: transformers.PreTrainedTokenizerFast, expression: str
) -> None:
    source = f"{{% set m = messages[0] %}}{{{{ {expression} }}}}"
    wanted = truth.apply_chat_template(as_dicts(ASK), chat_template=source, tokenize=False)
    assert ChatTemplate(source, TOKENS, "x").render(ASK, add_generation_prompt=False) == wanted


def test_a_template_tells_what_it_asks_for() -> None:
    template = ChatTemplate(PRESERVING, TOKENS, "x")
    assert template.arguments == ("preserve_thinking", "reasoning_effort")
    assert fallback_template("<s>").arguments == ()
    for name in (
        "messages",
        "bos_token",
        "eos_token",
        "raise_exception",
        "range",
        "a b",
        "opening",
    ):
        with pytest.raises(BadOption, match=r"cannot be set.*preserve_thinking, reasoning_effort"):
            template.check_arguments({name: "x"})
    with pytest.raises(BadOption, match="use a text"):
        template.check_arguments({"reasoning_effort": ["low"]})  # type: ignore[dict-item]


def test_dates_come_from_the_clock() -> None:
    template = ChatTemplate(
        "{{ strftime_now('%d %b %Y') }}", {}, "x", current_time=lambda: datetime(2024, 7, 26)
    )
    assert template.render(ASK, add_generation_prompt=True) == "26 Jul 2024"


def test_where_a_folder_keeps_its_template(tmp_path: Path) -> None:
    def found() -> str:
        template = ChatTemplate.from_folder(tmp_path)
        return "none" if template is None else template.render(ASK, add_generation_prompt=True)

    def configure(value: object) -> None:
        config = {"eos_token": "!", "chat_template": value}
        (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))

    assert found() == "none"
    configure(None)
    assert found() == "none"
    for empty in ("", " \n", [], {}, [{"name": "default"}], [{"name": "a", "template": None}]):
        configure(empty)
        (tmp_path / "chat_template.jinja").write_text("\n")
        assert found() == "none"
    (tmp_path / "chat_template.jinja").unlink()
    configure([{"name": ["a"], "template": "t"}, {"name": "rag", "template": "r"}])
    assert found() == "t"
    configure({"default": "", "rag": "r"})
    assert found() == "r"
    configure("config{{ eos_token }}")
    assert found() == "config!"
    configure([{"name": "tool_use", "template": "t"}, {"name": "default", "template": "d"}])
    assert found() == "d"
    (tmp_path / "chat_template.json").write_text('{"chat_template": "json"}')
    assert found() == "json"
    (tmp_path / "chat_template.jinja").write_text("jinja")
    assert found() == "jinja"


@pytest.mark.parametrize("value", [3, ["x"], [{"template": 3}], "{% if %}", "{{ x | nope }}"])
def test_broken_template_in_a_folder(tmp_path: Path, value: object) -> None:
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"chat_template": value}))
    with pytest.raises(BadChatTemplate, match=r"tokenizer_config\.json"):
        ChatTemplate.from_folder(tmp_path)


def test_template_that_is_not_text(tmp_path: Path) -> None:
    (tmp_path / "chat_template.jinja").write_bytes(b"\xff\xfe")
    with pytest.raises(BadChatTemplate, match=r"chat_template\.jinja"):
        ChatTemplate.from_folder(tmp_path)


def test_a_long_conversation_is_within_the_limits() -> None:
    turns = [Message("user", "word " * 200), Message("assistant", "word " * 200, "so " * 50)] * 1000
    for source in (QWEN, LLAMA, TOOLBOX):
        text = ChatTemplate(source, TOKENS, "x").render(turns, add_generation_prompt=True)
        assert len(text) > 2_000_000
