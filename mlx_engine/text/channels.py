"""Thinking markers by model family, and a multi-pattern matcher for streamed text."""

import re
from collections import deque
from functools import lru_cache
from typing import NamedTuple

from mlx_engine.text.tokenizer import Tokenizer
from mlx_engine.values.conversation import Channel


class ThinkingMarkers(NamedTuple):
    """Thinking markers of a model family: text before and after it, and around the answer."""

    opening: str
    closing: str
    answer: tuple[str, ...] = ()

    @property
    def is_plain_text(self) -> bool:
        """Whether the marker that opens thinking is ordinary words, which any model may write."""
        return self.opening[0].isalpha()

    def is_used_by(self, tokenizer: Tokenizer, template: str) -> bool:
        """Whether a model uses these thinking markers.

        True where both are tokens, or where the chat template spells the opening one.
        """
        # the token of "<|channel>thought" ends at the bracket
        markers = (self.opening, self.closing)
        tokens = (marker[: marker.find(">") + 1] or marker for marker in markers)
        return self.opening in template or all(map(tokenizer.has_token, tokens))


THINKING = (
    # DeepSeek, Qwen, GLM, MiniMax, Nemotron, EXAONE 4, ...; Hunyuan and ERNIE mark answers, too
    ThinkingMarkers("<think>", "</think>", ("<answer>", "</answer>", "<response>", "</response>")),
    ThinkingMarkers("<longcat_think>", "</longcat_think>"),
    ThinkingMarkers("<|think:start|>", "<|think:end|>"),  # Hy3
    ThinkingMarkers("<|channel>thought", "<channel|>"),  # Gemma 4
    ThinkingMarkers("<unused94>thought", "<unused95>"),  # MedGemma 1.5
    ThinkingMarkers("<seed:think>", "</seed:think>"),  # Seed-OSS
    ThinkingMarkers("<mm:think>", "</mm:think>"),  # MiniMax M3
    ThinkingMarkers("[THINK]", "[/THINK]"),  # Magistral, Ministral 3
    ThinkingMarkers("[unused16]", "[unused17]"),  # openPangu
    ThinkingMarkers("◁think▷", "◁/think▷"),  # Kimi-VL
    ThinkingMarkers("<|inner_prefix|>", "<|inner_suffix|>"),  # Apertus
    ThinkingMarkers("<|plamo:begin_think:plamo|>", "<|plamo:end_think:plamo|>"),
    ThinkingMarkers("<ifm|think>", "</ifm|think>"),  # K2 Horizon, by its effort
    ThinkingMarkers("<ifm|think_fast>", "</ifm|think_fast>"),
    ThinkingMarkers("<ifm|think_faster>", "</ifm|think_faster>"),
    ThinkingMarkers("<thought>", "</thought>"),  # EXAONE Deep
    ThinkingMarkers("<thinking>", "</thinking>", ("<output>", "</output>")),  # fine-tunes
    ThinkingMarkers("<reasoning>", "</reasoning>", ("<answer>", "</answer>")),  # fine-tunes
    ThinkingMarkers(  # Command A
        "<|START_THINKING|>", "<|END_THINKING|>", ("<|START_RESPONSE|>", "<|END_RESPONSE|>")
    ),
    ThinkingMarkers(  # OpenThinker, Sky-T1
        "<|begin_of_thought|>",
        "<|end_of_thought|>",
        ("<|begin_of_solution|>", "<|end_of_solution|>"),
    ),
    ThinkingMarkers(  # Kimi K3
        "<|open|>think<|sep|>",
        "<|close|>think<|sep|>",
        ("<|open|>response<|sep|>", "<|close|>response<|sep|>", "<|close|>message<|sep|>"),
    ),
    ThinkingMarkers("<|think|>", "<|end|><|begin|>assistant", ("<|content|>",)),  # Solar Open
    ThinkingMarkers("<|content_thinking|>", "<|end_message|><|message_model|>"),  # Inkling
    ThinkingMarkers("Here is my thought process:", "Here is my response:"),  # Granite 3.2
    ThinkingMarkers("Here's my thought process:", "Here's my response:"),
    ThinkingMarkers(  # Apriel
        "Here are my reasoning steps:", "[BEGIN FINAL RESPONSE]", ("[END FINAL RESPONSE]",)
    ),
)
"""Thinking markers of all families. A model uses those it has, and the first row.

https://github.com/vllm-project/vllm/tree/main/vllm/reasoning, the models' chat templates.
"""


def opens_thinking(prompt: str) -> bool | None:
    """Return True for a prompt that ends in a thinking block, False just after one, else None."""
    end = prompt.rstrip()
    if end.endswith(tuple(markers.opening for markers in THINKING)):
        return True
    return False if end.endswith(tuple(markers.closing for markers in THINKING)) else None


HEADER_TOKENS = ("<|start|>", "<|channel|>", "<|message|>")
"""Tokens of gpt-oss's messages, `<|start|>role<|channel|>name<|message|>text<|end|>`
(https://github.com/openai/harmony, docs/format.md).
"""
CONTENT_TYPE = "<|constrain|>"
"""Special token before the content type of a gpt-oss header."""
LONGEST_HEADER = 200
_HEADER = re.compile(
    r"\s*(?P<name>(?!to=)\S*)[^\S\n]*(?:to=(?P<recipient>\S*))?(?P<rest>.*)", re.DOTALL
)


class MessageHeader(NamedTuple):
    """Header of a gpt-oss message: channel name, and the text after name and recipient.

    recipient: "functions.NAME" for a call of a tool.
    """

    name: str
    text: str
    recipient: str = ""

    @classmethod
    def parse(cls, text: str) -> "MessageHeader":
        """Parse a gpt-oss message header: "final json", "commentary <|constrain|>json", ..."""
        found = _HEADER.match(text.replace(CONTENT_TYPE, " "))
        assert found is not None  # it matches every text
        is_name = len(found["name"]) <= LONGEST_HEADER
        if not is_name:
            return cls("", text)
        return cls(found["name"], found["rest"], found["recipient"] or "")

    @property
    def channel(self) -> Channel:
        """The channel of a gpt-oss message: answer for "final" or no name, else thinking."""
        return "answer" if self.name in ("", "assistant", "final") else "thinking"

    @property
    def contains_message_text(self) -> bool:
        """Whether a gpt-oss header contains message text, where `<|message|>` was left out."""
        return "\n" in self.text or len(self.text.split()) > 1 or len(self.text) > LONGEST_HEADER


class StringMatcher:
    """Automaton that finds several strings in a text in one scan (Aho and Corasick, 1975).

    States are ints; 0 is the initial state. starts: first characters of the strings; no other
    character leaves the initial state.
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
        self.starts = frozenset(self._next[0])
        queue = deque(self._next[0].values())
        while queue:
            state = queue.popleft()
            self._found[state] += self._found[self._fall_back[state]]
            for character, after in self._next[state].items():
                self._fall_back[after] = self.next_state(self._fall_back[state], character)
                queue.append(after)

    def next_state(self, state: int, character: str) -> int:
        """Return the state of the string-matching automaton after one more character."""
        while state and character not in self._next[state]:
            state = self._fall_back[state]
        return self._next[state].get(character, 0)

    def matches(self, state: int) -> tuple[str, ...]:
        """Return the searched strings that end at this automaton state, longest first."""
        return self._found[state]

    def held_length(self, state: int) -> int:
        """Return how many of the last characters read could begin or complete a searched string."""
        return self._depth[state]


@lru_cache(maxsize=16)
def cached_matcher(texts: tuple[str, ...]) -> StringMatcher:
    """Build the string-matching automaton of these strings, cached for later answers."""
    return StringMatcher(texts)
