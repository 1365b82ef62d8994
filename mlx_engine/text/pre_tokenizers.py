"""Pre-tokenizers by the names that GGUF files use for them.

Names and options are llama.cpp's (llama-vocab.cpp); patterns are those of the model's
`tokenizer.json` where known, else llama.cpp's.
"""

from dataclasses import dataclass

from tokenizers import Regex, normalizers, pre_tokenizers

from mlx_engine.values.errors import UnsupportedModel

_SUFFIX = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_BLANKS = r"|\s*[\r\n]+|\s+(?!\S)|\s+"
_GPT_2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_UPPER, _LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_HAN_APART = r"&&[^\p{Han}]]"


def _llama3_pattern(digit_pattern: str, blank_pattern: str = _BLANKS) -> str:
    """The regular expression that splits text for Llama 3 and Qwen 2, with given sub-patterns."""
    return (
        rf"{_SUFFIX}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|{digit_pattern}"
        rf"| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*{blank_pattern}"
    )


def _gpt4o_pattern(
    upper_pattern: str,
    lower_pattern: str,
    suffix_pattern: str,
    digit_pattern: str,
    after_punctuation: str,
) -> str:
    """The regular expression that splits text for GPT-4o: words also end before upper case."""
    before = r"[^\r\n\p{L}\p{N}]?"
    return (
        f"{before}{upper_pattern}*{lower_pattern}+{suffix_pattern}|{before}{upper_pattern}+{lower_pattern}*{suffix_pattern}|{digit_pattern}"
        rf"| ?[^\s\p{{L}}\p{{N}}]+{after_punctuation}*{_BLANKS}"
    )


_MARKED_WORDS = (
    rf"{_SUFFIX}|[^\r\n\p{{L}}\p{{N}}]?[\p{{L}}\p{{M}}]+|\p{{N}}"
    rf"| ?[^\s\p{{L}}\p{{M}}\p{{N}}]+[\r\n]*{_BLANKS}"
)
_GPT_4O = _gpt4o_pattern(_UPPER, _LOWER, f"{_SUFFIX}?", r"\p{N}{1,3}", r"[\r\n/]")
_TEKKEN = _gpt4o_pattern(_UPPER, _LOWER, "", r"\p{N}", r"[\r\n/]")
_KIMI = r"\p{Han}+|" + _gpt4o_pattern(
    _UPPER[:-1] + _HAN_APART, _LOWER[:-1] + _HAN_APART, f"{_SUFFIX}?", r"\p{N}{1,3}", r"[\r\n]"
)
_DEEPSEEK_3 = (
    r"\p{N}{1,3}",
    "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+",
    r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"""
    rf"| ?[\p{{P}}\p{{S}}]+[\r\n]*{_BLANKS}",
)
_ALPHABETS = (
    "A-Za-z\u00b5\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u01ba\u01bc-\u01bf\u01c4-\u0293\u0295-\u02af"
    "\u0370-\u0373\u0376\u0377\u037b-\u037d\u037f\u0386\u0388-\u038a\u038c\u038e-\u03a1"
    "\u03a3-\u03f5\u03f7-\u0481\u048a-\u052f\u0531-\u0556\u10a0-\u10c5\u13a0-\u13f5\u13f8-\u13fd"
    "\u1c90-\u1cba\u1cbd-\u1cbf\u1d00-\u1d2b\u1d6b-\u1d77\u1d79-\u1d9a\u1e00-\u1f15\u1f18-\u1f1d"
    "\u1f20-\u1f45\u1f48-\u1f4d\u1f50-\u1f57\u1f59\u1f5b\u1f5d\u1f5f-\u1f7d\u1f80-\u1fb4"
    "\u1fb6-\u1fbc\u1fbe\u1fc2-\u1fc4\u1fc6-\u1fcc\u1fd0-\u1fd3\u1fd6-\u1fdb\u1fe0-\u1fec"
    "\u1ff2-\u1ff4\u1ff6-\u1ffc\u2102\u2107\u210a-\u2113\u2115\u2119-\u211d\u2124\u2126\u2128"
    "\u212a-\u212d\u212f-\u2134\u2139\u213c-\u213f\u2145-\u2149\u214e\u2183\u2184\u2c00-\u2c7b"
    "\u2c7e-\u2ce4\u2ceb-\u2cee\u2cf2\u2cf3\ua640-\ua66d\ua680-\ua69b\ua722-\ua76f\ua771-\ua787"
    "\ua78b-\ua78e\uab70-\uabbf\ufb00-\ufb06\ufb13-\ufb17\uff21-\uff3a\uff41-\uff5a"
    "\U00010400-\U0001044f\U000104b0-\U000104d3\U000104d8-\U000104fb\U00010c80-\U00010cb2"
    "\U00010cc0-\U00010cf2\U000118a0-\U000118df\U0001e900-\U0001e943"
)
_EAST_ASIAN = "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"
_GPT_4O_SINGLE_DIGITS = _gpt4o_pattern(_UPPER, _LOWER, f"{_SUFFIX}?", r"\p{N}", r"[\r\n/]")
_THREES_OF_WORDS = r"\d{1,3}(?=(?:\d{3})*\b)"
_EAST_ASIAN_APART = (
    "[\uac00-\ud7a3\u3131-\u318e]+|[\uff01\u2026\u201c\u201d\u2018\u2019\u2014\uff1a\uff1b\uff0c"
    "\u3001-\u303f\ufe30-\ufe4f]+|[\u3105-\u312f]+|[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+"
)
_HALVED_BLANKS = (
    r"|\s*[\r\n]+"
    + "".join(rf"|\s{{{count}}}(?!\S)" for count in (512, 256, 128, 64, 32, 16, 8, 4, "1,2"))
    + r"|\s{1}"
)
_EXAONE_MOE = (
    rf"{_SUFFIX}|[^\r\n\p{{L}}\p{{N}}]?(?:\p{{L}}\p{{M}}*(?: \p{{L}}\p{{M}}*)*)+|\p{{N}}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+"
)
_SPARK = (
    *_DEEPSEEK_3[:2],
    _DEEPSEEK_3[2].replace(rf"[\r\n]*{_BLANKS}", r"|[\r\n]|\s+(?!\S)|\s+"),
    r"\p{N}",
)
_AFMOE = (
    r"\p{N}{1,3}(?=(?:\p{N}{3})*(?!\p{N}))",
    "[\u4e00-\u9fff\u3400-\u4dbf\uf900-\ufaff\u3040-\u309f\u30a0-\u30ff\uff65-\uff9f\u2f00-\u2fdf"
    "\u0e00-\u0e7f\u0e80-\u0eff\u1780-\u17ff\u1000-\u109f\uaa60-\uaa7f\ua9e0-\ua9ff\uac00-\ud7af"
    "\u1100-\u11ff]+",
    _DEEPSEEK_3[2],
)
_BLOOM = r" ?[^(\s|.,!?\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c)]+"
_CHAMELEON = (
    "<sentinel:[0-9]+>",
    "(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z",
    r"([\t\n]|    |  )",
    r"\p{N}",
    r"[\p{P}!-/:-@\[-`{-~]",
    _GPT_2,
)
_DEEPSEEK_LLM = (
    r"[\r\n]",
    rf"\s?[{_ALPHABETS}]+",
    "\\s?[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002]+",
    r"\s+$",
    _EAST_ASIAN,
    r"\p{N}",
)
_DEEPSEEK_CODER = (r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", _EAST_ASIAN, r"\p{N}")
_UNNAMED = (r"[\p{P}\$\+<=>\^~\|]+", _GPT_2, r"\p{N}+", "[0-9][0-9][0-9]")
_FALCON = (r"[\p{P}\$\+<=>\^~\|`]+", _GPT_2, "[0-9][0-9][0-9]")


@dataclass(frozen=True, slots=True)
class PreTokenizer:
    """Regular expressions that split a text before BPE merges, with related options.

    patterns: each splits the pieces of the previous one into matches and the rest. nfc:
    normalize to NFC first. ignore_merges: a piece that is a token is not merged (`ignore_merges`).
    adds_bos: whether texts begin with the begin-of-text token where the file does not say.
    """

    patterns: tuple[str, ...]
    nfc: bool = False
    ignore_merges: bool = False
    adds_bos: bool = False

    def normalizer(self) -> normalizers.Normalizer | None:
        """The tokenizer's normalizer (NFC) for the whole text, None for none."""
        return normalizers.NFC() if self.nfc else None

    def pre_tokenizer(self) -> pre_tokenizers.PreTokenizer:
        """The tokenizer's splits of a text, then GPT-2's mapping of bytes to characters."""
        splits = [pre_tokenizers.Split(Regex(pattern), "isolated") for pattern in self.patterns]
        last = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        return pre_tokenizers.Sequence([*splits, last])


_BAILING = (
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}"
    r"| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+"
)
_SEED = rf"{_SUFFIX}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}| ?[^\s\p{{L}}\p{{N}}\r\n]+{_BLANKS}"
_LLAMA_3 = PreTokenizer((_llama3_pattern(r"\p{N}{1,3}"),), ignore_merges=True, adds_bos=True)
_QWEN_2 = PreTokenizer((_llama3_pattern(r"\p{N}"),), nfc=True)
_SINGLE_DIGITS = PreTokenizer((r"\p{N}", _GPT_2))

_SINGLE_DIGIT_NAMES = (
    "smollm",
    "starcoder",
    "refact",
    "codeshell",
    "exaone",
    "minerva-7b",
    "mellum2",
)
_GPT_2_NAMES = ("gpt-2", "phi-2", "mpt", "olmo", "exaone4", "jais", "trillion", "granite-docling")
_LLAMA_3_NAMES = ("llama3", "llama-v3", "llama-bpe", "falcon3", "falcon-h1", "lfm2", "pixtral")
_GPT_4O_NAMES = ("gpt-4o", "llama4", "kanana2", "minimax-m2", "talkie")

_KNOWN = {
    "default": PreTokenizer(_UNNAMED),
    "falcon": PreTokenizer(_FALCON),
    **dict.fromkeys((*_GPT_2_NAMES, "gigachat", "a.x-4.0", "mellum"), PreTokenizer((_GPT_2,))),
    **dict.fromkeys((*_LLAMA_3_NAMES, "midm-2.0"), _LLAMA_3),
    **dict.fromkeys(("dbrx", "smaug-bpe"), PreTokenizer(_LLAMA_3.patterns)),
    "jais-2": PreTokenizer((_llama3_pattern(r"\p{N}{1,3}", _HALVED_BLANKS),)),
    "minicpm5": PreTokenizer((r"\p{N}{1,3}", _llama3_pattern(r"\p{N}+")), ignore_merges=True),
    **dict.fromkeys(("qwen2", "deepseek-r1-qwen", "megrez"), _QWEN_2),
    **dict.fromkeys(
        ("stablelm2", "hunyuan", "solar-open", "grok-2", "kormo"), PreTokenizer(_QWEN_2.patterns)
    ),
    "laguna": PreTokenizer((r"[^\n]+|[\n]+", *_QWEN_2.patterns)),
    "ufakzeka": PreTokenizer((_llama3_pattern(r"\p{N}").removeprefix(f"{_SUFFIX}|"),)),
    "qwen35": PreTokenizer((_MARKED_WORDS,), nfc=True),
    "exaone-moe": PreTokenizer((_EXAONE_MOE,)),
    "chatglm-bpe": PreTokenizer(_LLAMA_3.patterns),
    **dict.fromkeys(("glm4", "glm5"), PreTokenizer(_LLAMA_3.patterns, ignore_merges=True)),
    **dict.fromkeys(_GPT_4O_NAMES, PreTokenizer((_GPT_4O,))),
    **dict.fromkeys(("tiny_aya", "cohere2moe"), PreTokenizer((_THREES_OF_WORDS, _GPT_4O))),
    "youtu": PreTokenizer((_EAST_ASIAN_APART, _GPT_4O_SINGLE_DIGITS), ignore_merges=True),
    "tekken": PreTokenizer((_TEKKEN,), ignore_merges=True, adds_bos=True),
    **dict.fromkeys(("kimi-k2", "kimi-k25"), PreTokenizer((_KIMI,))),
    **dict.fromkeys(
        ("deepseek-v3", "hunyuan-dense", "joyai-llm", "hy_v4"), PreTokenizer(_DEEPSEEK_3)
    ),
    "spark2_5": PreTokenizer(_SPARK),
    "afmoe": PreTokenizer(_AFMOE),
    "superbpe": PreTokenizer((r"\p{N}+", r"(?=(\d{3})+(?!\d))")),
    **dict.fromkeys(("bailingmoe", "bailingmoe2", "llada-moe"), PreTokenizer((_BAILING,))),
    "seed-coder": PreTokenizer((_SEED,)),
    "deepseek-llm": PreTokenizer(_DEEPSEEK_LLM),
    "deepseek-coder": PreTokenizer(_DEEPSEEK_CODER),
    **dict.fromkeys(_SINGLE_DIGIT_NAMES, _SINGLE_DIGITS),
    "command-r": PreTokenizer(_SINGLE_DIGITS.patterns, nfc=True),
    **dict.fromkeys(("bloom", "poro-chat", "gpt3-finnish"), PreTokenizer((_BLOOM,))),
    "viking": PreTokenizer((_BLOOM, r"\p{N}")),
    "chameleon": PreTokenizer(_CHAMELEON, adds_bos=True),
}

PATTERNS = frozenset(pattern for pre in _KNOWN.values() for pattern in pre.patterns)
"""All known patterns, none of which backtracks without bound."""


def pre_tokenizer_named(name: str | None, origin: str) -> PreTokenizer:
    """Look up a pre-tokenizer by its name in GGUF files; None and "" mean that of old files.

    Raises UnsupportedModel for unknown names.
    """
    found = _KNOWN.get(name or "default")
    if found is None:
        raise UnsupportedModel(
            "{origin}: this version does not know its pre-tokenizer {name}"
            " (tokenizer.ggml.pre), and a guess would give the model wrong tokens. Take the model"
            " as a folder, or another GGUF of it.",
            origin=origin,
            name=ascii(name)[:60],
        )
    return found
