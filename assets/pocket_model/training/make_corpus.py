"""Draw a sample of the corpus, train the tokenizer on it and show what it looks like."""

from __future__ import annotations

import argparse
import json
import random
import warnings
from pathlib import Path

from corpus import draw_chat, read_material
from tokens import IM_END, IM_START, THINK, VOCABULARY, draw_rows, train_tokenizer

TEMPLATE = (
    "{%- for message in messages %}"
    "{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>' + '\\n' }}"
    "{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}"
)


def main() -> None:
    """Write tokenizer.json, tokenizer_config.json and generation_config.json to a folder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    out: Path = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    warnings.simplefilter("ignore", DeprecationWarning)  # from old modules that are only listed
    material, draw = read_material(), random.Random(1)
    chats = [turn for _ in range(20_000) for turn in draw_chat(material, draw)]
    tokenizer = train_tokenizer(t for turn in chats for t in (turn.question, turn.answer))
    assert tokenizer.get_vocab_size() == VOCABULARY, tokenizer.get_vocab_size()
    tokenizer.save(str(out / "tokenizer.json"))
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": 16384,
        "eos_token": IM_END,
        "pad_token": "<|endoftext|>",
        "bos_token": None,
        "unk_token": None,
        "additional_special_tokens": [IM_START, IM_END],
        "clean_up_tokenization_spaces": False,
        "chat_template": TEMPLATE,
    }
    write(out / "tokenizer_config.json", settings)
    end = tokenizer.token_to_id(IM_END)
    pad = tokenizer.token_to_id("<|endoftext|>")
    ends = {"do_sample": False, "eos_token_id": [end, pad], "pad_token_id": pad}
    write(out / "generation_config.json", ends)
    answers = [len(e.ids) for e in tokenizer.encode_batch([t.answer for t in chats])]
    rows = draw_rows(tokenizer, material, random.Random(2), 64, 512)
    unique = {t.answer for t in chats if "I do not know" not in t.answer}
    total = sum(len(e.ids) for e in tokenizer.encode_batch(sorted(unique)))
    print(f"{len(material.known)} names known, {len(material.tasks)} tasks, {THINK} unused")
    print(f"{sum(answers) / len(answers):.1f} tokens an answer, {max(answers)} the longest")
    print(f"{len(unique)} different answers of {total} tokens; own share {rows.own.mean():.2f}")


def write(path: Path, value: object) -> None:
    """JSON with a line end."""
    path.write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
