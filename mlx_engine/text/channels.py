"""How models mark thoughts, answers and messages in the text they write, family by family."""

import re
from collections import deque
from functools import lru_cache
from typing import NamedTuple

from mlx_engine.text.tokenizer import Tokenizer
from mlx_engine.values.conversation import Channel


class Markers(NamedTuple):
    """Texts around the thoughts of a family; answer: those around the answer that follows."""

    opening: str
    closing: str
    answer: tuple[str, ...] = ()

    @property
    def is_words(self) -> bool:
        """Whether other models may well write the opening, too."""
        return self.opening[0].isalpha()

    def is_of(self, tokenizer: Tokenizer, template: str) -> bool:
        """Whether a vocabulary has the markers as tokens, or a chat template spells the opening."""
        # of "<|channel>thought" the vocabulary has what comes up to the bracket
        both = (self.opening, self.closing)
        tokens = (marker[: marker.find(">") + 1] or marker for marker in both)
        return self.opening in template or all(map(tokenizer.has_token, tokens))


THINKING = (
    # DeepSeek, Qwen, GLM, MiniMax, Nemotron, EXAONE 4, ...; Hunyuan and ERNIE mark answers, too
    Markers("<think>", "</think>", ("<answer>", "</answer>", "<response>", "</response>")),
    Markers("<longcat_think>", "</longcat_think>"),
    Markers("<|think:start|>", "<|think:end|>"),  # Hy3
    Markers("<|channel>thought", "<channel|>"),  # Gemma 4
    Markers("<unused94>thought", "<unused95>"),  # MedGemma 1.5
    Markers("<seed:think>", "</seed:think>"),  # Seed-OSS
    Markers("<mm:think>", "</mm:think>"),  # MiniMax M3
    Markers("[THINK]", "[/THINK]"),  # Magistral, Ministral 3
    Markers("[unused16]", "[unused17]"),  # openPangu
    Markers("◁think▷", "◁/think▷"),  # Kimi-VL
    Markers("<|inner_prefix|>", "<|inner_suffix|>"),  # Apertus
    Markers("<|plamo:begin_think:plamo|>", "<|plamo:end_think:plamo|>"),
    Markers("<ifm|think>", "</ifm|think>"),  # K2 Horizon, by its effort
    Markers("<ifm|think_fast>", "</ifm|think_fast>"),
    Markers("<ifm|think_faster>", "</ifm|think_faster>"),
    Markers("<thought>", "</thought>"),  # EXAONE Deep
    Markers("<thinking>", "</thinking>", ("<output>", "</output>")),  # fine-tunes
    Markers("<reasoning>", "</reasoning>", ("<answer>", "</answer>")),  # fine-tunes
    Markers(  # Command A
        "<|START_THINKING|>", "<|END_THINKING|>", ("<|START_RESPONSE|>", "<|END_RESPONSE|>")
    ),
    Markers(  # OpenThinker, Sky-T1
        "<|begin_of_thought|>",
        "<|end_of_thought|>",
        ("<|begin_of_solution|>", "<|end_of_solution|>"),
    ),
    Markers(  # Kimi K3
        "<|open|>think<|sep|>",
        "<|close|>think<|sep|>",
        ("<|open|>response<|sep|>", "<|close|>response<|sep|>", "<|close|>message<|sep|>"),
    ),
    Markers("<|think|>", "<|end|><|begin|>assistant", ("<|content|>",)),  # Solar Open
    Markers("<|content_thinking|>", "<|end_message|><|message_model|>"),  # Inkling
    Markers("Here is my thought process:", "Here is my response:"),  # Granite 3.2
    Markers("Here's my thought process:", "Here's my response:"),
    Markers(  # Apriel
        "Here are my reasoning steps:", "[BEGIN FINAL RESPONSE]", ("[END FINAL RESPONSE]",)
    ),
)
"""A model's own are those it has, and the first of all.

https://github.com/vllm-project/vllm/tree/main/vllm/reasoning, the models' chat templates.
"""


def opens_thinking(prompt: str) -> bool | None:
    """Whether a rendered generation prompt ends just inside a think block, as Qwen3.5's does; False
    where it ends behind one, None where it does neither.
    """
    end = prompt.rstrip()
    if end.endswith(tuple(markers.opening for markers in THINKING)):
        return True
    return False if end.endswith(tuple(markers.closing for markers in THINKING)) else None


HEADER_TOKENS = ("<|start|>", "<|channel|>", "<|message|>")
"""Tokens of gpt-oss's messages, `<|start|>role<|channel|>name<|message|>text<|end|>`
(https://github.com/openai/harmony, docs/format.md).
"""
CONTENT_TYPE = "<|constrain|>"
"""The token before the content type that a header of gpt-oss may end with."""
LONGEST_HEADER = 200
_HEADER = re.compile(r"\s*(?P<name>\S*)[^\S\n]*(?:to=\S*)?(?P<rest>.*)", re.DOTALL)


class Header(NamedTuple):
    """The beginning of a message of gpt-oss; rest: what follows the name and the recipient."""

    name: str
    rest: str

    @classmethod
    def of(cls, text: str) -> "Header":
        """Reads what stands before `<|message|>`: "assistant", "final", "final json", "commentary
        to=functions.search <|constrain|>json".
        """
        found = _HEADER.match(text.replace(CONTENT_TYPE, " "))
        assert found is not None  # it matches every text
        is_name = len(found["name"]) <= LONGEST_HEADER
        return cls(found["name"], found["rest"]) if is_name else cls("", text)

    @property
    def channel(self) -> Channel:
        """Answers are in channel "final", or in none; all others hold thoughts."""
        return "answer" if self.name in ("", "assistant", "final") else "thinking"

    @property
    def is_text(self) -> bool:
        """Whether there is more than a content type, so that `<|message|>` was left out: the rest
        is text of the message then, as openai-harmony reads it.
        """
        return "\n" in self.rest or len(self.rest.split()) > 1 or len(self.rest) > LONGEST_HEADER


class Matcher:
    """Finds texts in a stream of characters at a constant cost for each (Aho and Corasick, 1975).

    A state is a number, 0 at the beginning.
    """

    def __init__(self, texts: tuple[str, ...]) -> None:
        self._next: list[dict[str, int]] = [{}]
        self._found: list[tuple[str, ...]] = [()]
        self._depth = [0]
        for text in texts:
            state = 0
            for character in text:
                if character not in self._next[state]:
                    self._next[state][character] = len(self._next)
                    self._next.append({})
                    self._found.append(())
                    self._depth.append(self._depth[state] + 1)
                state = self._next[state][character]
            self._found[state] = (text,)
        self._fall_back = [0] * len(self._next)
        waiting = deque(self._next[0].values())
        while waiting:
            state = waiting.popleft()
            self._found[state] += self._found[self._fall_back[state]]
            for character, after in self._next[state].items():
                self._fall_back[after] = self.step(self._fall_back[state], character)
                waiting.append(after)

    def step(self, state: int, character: str) -> int:
        """The state after one more character."""
        while state and character not in self._next[state]:
            state = self._fall_back[state]
        return self._next[state].get(character, 0)

    def found(self, state: int) -> tuple[str, ...]:
        """The texts that end here, the longest first."""
        return self._found[state]

    def held(self, state: int) -> int:
        """How many of the last characters may be the beginning of a text, or are a whole one."""
        return self._depth[state]


@lru_cache(maxsize=16)
def matcher_of(texts: tuple[str, ...]) -> Matcher:
    """One for these texts."""
    return Matcher(texts)
