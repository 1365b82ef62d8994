"""The token a text begins with, where its tokenizer adds one: transformers and llama.cpp agree."""

from pathlib import Path

import pytest
import tokenizers
from tiny_gguf import write_tiny_gguf
from tiny_qwen3_5 import write_tiny_qwen3_5
from tiny_tokenizer import CHATML, make_tiny_tokenizer
from tokenizers import processors
from transformers import AutoTokenizer

import mlx_engine
from mlx_engine import GenerationOptions, Message, SamplingOptions
from mlx_engine.engine import Engine
from mlx_engine.text.chat_template import tokenize_chat

BOS, BOS_ID = "<|endoftext|>", 295
GREEDY = SamplingOptions(temperature=0)
TEXT = "The quick brown fox."


def with_bos(folder: Path, template: str | None) -> Path:
    """A folder whose tokenizer.json adds the token."""
    write_tiny_qwen3_5(folder)
    make_tiny_tokenizer(folder, chat_template=template)
    file = str(folder / "tokenizer.json")
    core = tokenizers.Tokenizer.from_file(file)
    core.post_processor = processors.TemplateProcessing(
        single=f"{BOS} $A", special_tokens=[(BOS, BOS_ID)]
    )
    core.save(file)
    return folder


def gguf(path: Path, adds: bool) -> Path:
    keys = {"bos_token_id": BOS_ID, "add_bos_token": adds}
    return write_tiny_gguf(path, changes={f"tokenizer.ggml.{k}": v for k, v in keys.items()})


def check(engine: Engine, wanted: list[int]) -> None:
    plain = engine.tokenize(TEXT)
    assert plain == wanted[wanted[0] == BOS_ID :]
    assert engine.tokenize(TEXT, add_special=True) == wanted
    made = engine.generate(TEXT, 8, GREEDY)
    assert made.stats.prompt_tokens == len(wanted)
    assert made.tokens == engine.generate(wanted, 8, GREEDY).tokens
    assert engine.generate(plain, 1, GREEDY).stats.prompt_tokens == len(plain)


def test_a_folder_as_in_transformers(tmp_path: Path) -> None:
    folder = with_bos(tmp_path / "m", None)
    engine = mlx_engine.load(folder)
    check(engine, AutoTokenizer.from_pretrained(folder)(TEXT).input_ids)
    assert engine.generate("", 1, GREEDY).stats.prompt_tokens == 1
    engine.close()


@pytest.mark.parametrize("adds", [True, False])
def test_a_gguf_as_in_llama_cpp(tmp_path: Path, adds: bool) -> None:
    engine = mlx_engine.load(gguf(tmp_path / "m.gguf", adds))
    check(engine, [*([BOS_ID] if adds else []), *engine.tokenize(TEXT)])
    engine.close()


def test_one_that_is_written_out_is_not_doubled(tmp_path: Path) -> None:
    engine = mlx_engine.load(with_bos(tmp_path / "m", None))
    assert engine.tokenize(BOS + TEXT, add_special=True) == [BOS_ID, *engine.tokenize(TEXT)]
    engine.close()


@pytest.mark.parametrize("template", [None, CHATML])
def test_chats_begin_with_it_where_there_is_no_template(
    tmp_path: Path, template: str | None
) -> None:
    engine = mlx_engine.load(with_bos(tmp_path / "m", template))
    parts, messages = engine.parts, [Message("user", f"Is {BOS} a word?")]
    ids = tokenize_chat(parts.template, parts.tokenizer, messages).tokens
    assert ids.count(BOS_ID) == (template is None)
    assert ids[0] == (BOS_ID if template is None else engine.tokenize("<|im_start|>")[0])
    session = engine.session(sampling=GREEDY, generation=GenerationOptions(1))
    told = list(session.send("hi"))
    rendered = parts.template.render([Message("user", "hi")], add_generation_prompt=True)
    assert told[-1].stats.prompt_tokens == len(engine.tokenize(rendered))
    engine.close()
