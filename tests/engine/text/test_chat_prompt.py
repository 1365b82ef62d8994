"""Chat prompts as tokens: equal to the rendered text's, and safe from what messages spell."""

import pytest
import transformers
from chat_templates import CHATML, QWEN
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_tokenizer import make_tiny_tokenizer

from mlx_engine.text.chat_template import ChatTemplate, tokenize_chat
from mlx_engine.text.tokenizer import Tokenizer
from mlx_engine.text.tokenizer_folder import read_tokenizer
from mlx_engine.values.conversation import Message
from mlx_engine.values.errors import BadPrompt

TOKENS = {"eos_token": "<|im_end|>"}
TEMPLATES = {name: ChatTemplate(s, TOKENS, name) for name, s in {"c": CHATML, "q": QWEN}.items()}
SAFE = st.text(st.sampled_from("ab \n<|>é😀\ue000"), max_size=12)
SPELLED = ["<|im_end|>", "<|im_start|>", "</think>", "<|im_", "end|>", "<|<|im_end|>im_end|>", "\n"]
HOSTILE = st.lists(st.sampled_from(SPELLED) | SAFE, max_size=5).map("".join)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory):
    return make_tiny_tokenizer(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="module")
def tokenizer(folder) -> Tokenizer:
    return read_tokenizer(folder)


@settings(max_examples=60)
@given(user=SAFE, answer=SAFE, thought=SAFE, name=st.sampled_from("cq"))
def test_without_control_words_ids_are_those_of_the_text(
    tokenizer: Tokenizer, user: str, answer: str, thought: str, name: str
) -> None:
    messages = [Message("user", user), Message("assistant", answer, thought)]
    prompt = tokenize_chat(TEMPLATES[name], tokenizer, messages)
    assert prompt.text == TEMPLATES[name].render(messages, add_generation_prompt=True)
    assert list(prompt.tokens) == tokenizer.encode(prompt.text)


def test_ids_are_those_of_transformers(folder, tokenizer: Tokenizer) -> None:
    truth = transformers.PreTrainedTokenizerFast.from_pretrained(folder)
    messages = [Message("user", "\nthe dog \n"), Message("assistant", " fox"), Message("user", "")]
    expected = truth.apply_chat_template(
        [{"role": m.role, "content": m.text} for m in messages],
        chat_template=QWEN,
        add_generation_prompt=True,
    )["input_ids"]
    assert list(tokenize_chat(TEMPLATES["q"], tokenizer, messages).tokens) == expected


@settings(max_examples=60)
@given(texts=st.lists(HOSTILE, min_size=1, max_size=3), name=st.sampled_from("cq"))
def test_messages_cannot_make_control_tokens(
    tokenizer: Tokenizer, texts: list[str], name: str
) -> None:
    template = TEMPLATES[name]
    messages = [Message("user", text) for text in texts]
    harmless = [Message("user", "x") for _ in texts]
    controls = tokenizer.control_ids(template.source)

    def control_tokens(of: list[Message]) -> list[int]:
        return [i for i in tokenize_chat(template, tokenizer, of).tokens if i in controls]

    prompt = tokenize_chat(template, tokenizer, messages)
    assert control_tokens(messages) == control_tokens(harmless)
    assert prompt.text == template.render(messages, add_generation_prompt=True)
    assert tokenizer.decode(prompt.tokens, keep_special=True) == prompt.text


def test_thinking_cannot_close_its_own_block(tokenizer: Tokenizer) -> None:
    messages = [Message("user", "a"), Message("assistant", "b", "c</think>d")]
    tokens = tokenize_chat(TEMPLATES["q"], tokenizer, messages, add_generation_prompt=False).tokens
    assert tokens.count(tokenizer.encode("</think>")[0]) == 1


def test_where_the_answer_begins(tokenizer: Tokenizer) -> None:
    ask, qwen = [Message("user", "a <think>")], TEMPLATES["q"]
    assert tokenize_chat(qwen, tokenizer, ask).thinking_open
    assert not tokenize_chat(
        qwen, tokenizer, ask, arguments={"enable_thinking": False}
    ).thinking_open
    assert not tokenize_chat(TEMPLATES["c"], tokenizer, ask).thinking_open
    for last, is_open in (
        (Message("assistant", "", "hm"), True),
        (Message("assistant", "b"), False),
    ):
        prompt = tokenize_chat(qwen, tokenizer, [*ask, last], continue_last=True)
        assert bool(prompt.thinking_open) == is_open
        assert prompt.text.endswith(last.text or last.thinking)


def test_invalid_unicode_in_a_message(tokenizer: Tokenizer) -> None:
    with pytest.raises(BadPrompt, match="character 1"):
        tokenize_chat(TEMPLATES["c"], tokenizer, [Message("user", "a\udc00")])
