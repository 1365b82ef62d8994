"""A tiny random DeepSeek-V4.1 as published, and figures of mlx-lm's class of it.

Sizes of heads are no multiples of 16, so that mlx-lm rounds no keys to fp8 or fp4.
"""

import dataclasses
import json
import re
import unicodedata
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import mlx.core as mx
import numpy as np
import tokenizers
import torch
from mlx.utils import tree_flatten
from mlx_lm.models import deepseek_v41 as theirs
from model_edits import Arrays
from safetensors.torch import save_file
from tiny_nextn import Floats
from tiny_published import VOCABULARY
from tiny_tokenizer import make_tiny_tokenizer

SIZES: dict[str, Any] = {
    "model_type": "deepseek_v41",
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "moe_intermediate_size": 32,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 1,
    "head_dim": 24,
    "qk_rope_head_dim": 8,
    "q_lora_rank": 16,
    "o_groups": 2,
    "o_lora_rank": 8,
    "n_routed_experts": 6,
    "n_shared_experts": 1,
    "num_experts_per_tok": 2,
    "compress_ratios": [0, 2, 1, 1],
    "kv_source_layer_ids": [1, 2],
    "index_source_layer_ids": [1, 2, 3],
    "candidate_source_layer_id": 2,
    "candidate_topk_blocks": 2,
    "candidate_block_size": 3,
    "sliding_window": 5,
    "hc_mult": 2,
    "hc_sinkhorn_iters": 3,
    "index_n_heads": 32,  # of few heads many scores are 0, and any of those may be selected
    "index_head_dim": 24,
    "index_topk": 3,
    "rms_norm_eps": 1e-6,
    "max_position_embeddings": 512,
    "eos_token_id": 297,
}
ENGRAMS = {
    "engram_layer_ids": [1, 3],
    "engram_max_ngram_size": 3,
    "engram_vocab_size": 50,
    "engram_n_heads": 2,
    "engram_head_dim": 64,
    "engram_pad_token_id": 2,
}
SPARK = {
    "dspark_target_layer_ids": [3, 1],
    "dspark_block_size": 4,
    "dspark_noise_token_id": 7,
    "dspark_markov_rank": 6,
    "dspark_n_routed_experts": 4,
    "dspark_num_experts_per_tok": 1,
    "num_nextn_predict_layers": 2,
}
_NAMES = (
    ("lm_head.", "head."),
    ("model.embed_tokens.", "embed."),
    ("model.", ""),
    ("self_attn.", "attn."),
    (".mlp.", ".ffn."),
    ("input_layernorm.", "attn_norm."),
    ("post_attention_layernorm.", "ffn_norm."),
    ("attn_hc.", "hc_attn_"),
    ("ffn_hc.", "hc_ffn_"),
    ("attn.sinks", "attn.attn_sink"),
    ("indexer.q_b_proj.", "indexer.wq_b."),
    ("indexer.k_proj.", "indexer.wk."),
    (".q_a_proj.", ".wq_a."),
    (".q_b_proj.", ".wq_b."),
    (".kv_proj.", ".wkv."),
    ("compressor.gate_proj.", "compressor.wgate."),
    ("compressor.kv_norm.", "compressor.norm."),
    (".o_a_proj.", ".wo_a."),
    (".o_b_proj.", ".wo_b."),
    (".q_a_norm.", ".q_norm."),
    ("gate.e_score_correction_bias", "gate.bias"),
    ("shared_experts.gate_proj.", "shared_experts.w1."),
    ("shared_experts.down_proj.", "shared_experts.w2."),
    ("shared_experts.up_proj.", "shared_experts.w3."),
)
_EXPERTS = {"gate_proj": "w1", "down_proj": "w2", "up_proj": "w3"}


_OUTER = {"model_type": "deepseek_v41", "eos_token_id": 297}


class Drafted(NamedTuple):
    """A block behind a text whose last token is newest: logits of rows, and greedy tokens."""

    logits: Floats
    tokens: list[int]


class Published(NamedTuple):
    """A folder, and the reference's float32 logits [T, V] of tokens; drafted: by the stages."""

    folder: Path
    tokens: list[int]
    logits: Floats
    drafted: Drafted | None


def stored(drawn: Arrays) -> Arrays:
    """Tensors of mlx-lm's class under DeepSeek's names, experts one by one."""
    made: Arrays = {}
    for name, value in drawn.items():
        full = name
        for ours, published in _NAMES:
            full = full.replace(ours, published)
        base, _, part = full.partition("experts.switch_mlp.")
        if part:
            for number, single in enumerate(value):
                made[f"{base}experts.{number}.{_EXPERTS[part.split('.')[0]]}.weight"] = single
        else:
            made[full] = value.reshape(-1, value.shape[-1]) if ".wo_a." in full else value
    return made


def draw(shapes: dict[str, tuple[int, ...]], seed: int) -> Arrays:
    """Random tensors: norms near 1, sharp matrices, so that selections differ clearly."""
    made, state = Arrays(), np.random.default_rng(seed)
    for name, shape in shapes.items():
        noise = state.standard_normal(shape).astype(np.float32)
        if "norm" in name or name.endswith(("q_weight", "k_weight")):
            value = 1 + 0.2 * noise
        elif len(shape) == 1:
            value = 0.3 * noise + name.endswith("scale")
        else:
            value = noise * 2.0 * shape[-1] ** -0.5
        made[name] = mx.array(value)
    return made


def publish(folder: Path, seed: int = 0, **changes: Any) -> Published:
    """Writes the folder; changes: of the config."""
    config = SIZES | changes
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({"text_config": config} | _OUTER))
    make_tiny_tokenizer(folder, VOCABULARY)
    args = theirs.ModelArgs.from_dict(config | {"engram_layer_ids": []})
    model = theirs.Model(args)
    shapes = {n: a.shape for n, a in tree_flatten(model.parameters())}
    ngrams = Ngrams(config, folder) if config.get("engram_layer_ids") else None
    stages = Stages(config, args) if config.get("dspark_target_layer_ids") else None
    arrays = stored(draw(shapes, seed))
    model.load_weights(list(model.sanitize(arrays).items()))
    if ngrams is not None:
        arrays |= ngrams.draw(seed + 1)
    if stages is not None:
        arrays |= stages.draw(seed + 2)
    _save(folder / "model.safetensors", arrays)
    tokens = [int(t) for t in np.random.default_rng(seed).integers(0, VOCABULARY, 24)]
    ran = run(model, tokens, ngrams)
    drafted = None
    if stages is not None:
        drafted = stages.block(model, run(model, tokens[:-1], ngrams).entering, tokens[-1])
    return Published(folder, tokens, np.array(ran.logits), drafted)


def _save(path: Path, arrays: Arrays) -> None:
    """Tables of n-grams as published: fp8, with a power of two for each 32 columns of a row."""
    made = {}
    for name, value in arrays.items():
        whole = torch.tensor(np.array(value))
        if name.endswith("engram.embed.weight"):
            made[name] = whole.to(torch.float8_e4m3fn)
        elif name.endswith("engram.embed.scale"):
            made[name] = whole.to(torch.float8_e8m0fnu)
        else:
            made[name] = whole
    save_file(made, path)


class Ran(NamedTuple):
    """Logits [T, V] and streams [1, T, S, H] that go into each layer."""

    logits: mx.array
    entering: list[mx.array]


def run(model: theirs.Model, tokens: list[int], ngrams: "Ngrams | None") -> Ran:
    """The reference's layers, with embeddings of n-grams in front of some."""
    inner, args, cache = model.model, model.args, model.make_cache()
    rows = len(tokens)
    window = theirs._window_indices(previous=0, length=rows, window=args.sliding_window)[None]
    x = inner.embed_tokens(mx.array([tokens]))
    streams = mx.repeat(x[:, :, None], args.hc_mult, axis=2)
    weights = mx.zeros((1, rows, args.hc_mult))
    weights[..., 0] = 1.0
    shared: dict[str, Any] = {}
    entering = []
    for number, layer in enumerate(inner.layers):
        if ngrams is not None and number in ngrams.layers:
            streams = ngrams.add(number, streams, tokens)
        entering.append(streams)
        own = {"start_pos": 0, "window_idx": window, "cache": cache[number], "shared": shared}
        streams, weights = layer(streams, weights, **own)
    return Ran(model.lm_head(inner.norm(theirs._collapse(streams, weights)))[0], entering)


class Ngrams:
    """Embeddings of n-grams by DeepSeek's description, in float64."""

    def __init__(self, config: dict[str, Any], folder: Path) -> None:
        self.layers, self._config = config["engram_layer_ids"], config
        found = dict[str, int]()
        core = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._classes = []
        for token in range(core.get_vocab_size()):
            text = core.decode([token], skip_special_tokens=False)
            plain = unicodedata.normalize("NFD", unicodedata.normalize("NFKC", text))
            plain = "".join(c for c in plain if unicodedata.category(c) != "Mn").lower()
            plain = re.sub(r"[ \t\r\n]+", " ", plain)
            plain = plain if plain == " " else plain.strip() or text
            key = core.id_to_token(token) if "\ufffd" in text else plain
            self._classes.append(found.setdefault(key, len(found)))
        config["engram_compressed_vocab_size"] = len(found)
        (folder / "config.json").write_text(json.dumps({"text_config": config} | _OUTER))
        hashes = (config["engram_max_ngram_size"] - 1) * config["engram_n_heads"]
        primes = [n for n in range(config["engram_vocab_size"], 5000) if isprime(n)]
        self._primes = [primes[n * hashes : (n + 1) * hashes] for n in range(len(self.layers))]

    def draw(self, seed: int) -> Arrays:
        config = self._config
        hidden, row, streams = config["hidden_size"], config["engram_head_dim"], config["hc_mult"]
        made: Arrays = {}
        for number, layer in enumerate(self.layers):
            rows, name = sum(self._primes[number]), f"layers.{layer}.engram."
            shapes = {
                f"{name}embed.weight": (rows, row),
                f"{name}wkv.weight": ((streams + 1) * hidden, len(self._primes[0]) * row),
                f"{name}q_weight": (streams, hidden),
                f"{name}k_weight": (streams, hidden),
            }
            drawn = draw(shapes, seed + number)
            codes = mx.to_fp8(drawn[f"{name}embed.weight"] * 8)
            powers = 2.0 ** mx.random.randint(-4, 0, (rows, row // 32))
            drawn[f"{name}embed.weight"] = mx.from_fp8(codes, mx.float32)
            made |= drawn | {f"{name}embed.scale": powers}
        self._stored = made
        return made

    def add(self, layer: int, streams: mx.array, tokens: list[int]) -> mx.array:
        config, number = self._config, self.layers.index(layer)
        longest, heads = config["engram_max_ngram_size"], config["engram_n_heads"]
        part = lambda name: np.array(self._stored[f"layers.{layer}.engram.{name}"], np.float64)  # noqa: E731
        table = part("embed.weight") * np.repeat(part("embed.scale"), 32, axis=1)
        bound = (2**63 - 1) // config["engram_compressed_vocab_size"] // 2
        factors = np.random.default_rng(10007 * layer).integers(0, bound, size=longest) * 2 + 1
        before = [self._classes[config["engram_pad_token_id"]]] * (longest - 1)
        known = [*before, *(self._classes[token] for token in tokens)]
        primes, rows = self._primes[number], []
        for end in range(longest - 1, len(known)):
            mixed, found = int(known[end] * factors[0]), []
            for distance in range(1, longest):
                mixed ^= int(known[end - distance]) * int(factors[distance])
                for head in range(heads):
                    place = (distance - 1) * heads + head
                    found.append(table[sum(primes[:place]) + mixed % primes[place]])
            rows.append(np.concatenate(found))
        h = np.array(streams[0], np.float64)
        made = np.array(rows) @ part("wkv.weight").T
        keys = made[:, : -h.shape[-1]].reshape(h.shape)
        eps, weights = config["rms_norm_eps"], part("q_weight") * part("k_weight")
        roots = np.sqrt([(side**2).mean(-1) + eps for side in (h, keys)])
        scores = (h * weights * keys).sum(-1) / roots[0] / roots[1] * h.shape[-1] ** -0.5
        gates = 1 / (1 + np.exp(-np.sign(scores) * np.sqrt(np.abs(scores))))
        added = h + gates[..., None] * made[:, None, -h.shape[-1] :]
        return mx.array(added[None].astype(np.float32))


def isprime(number: int) -> bool:
    return number > 1 and all(number % n for n in range(2, int(number**0.5) + 1))


class Stages:
    """DSpark's stages of the reference's parts."""

    def __init__(self, config: dict[str, Any], args: theirs.ModelArgs) -> None:
        self._config = config
        experts = {"n_routed_experts": config["dspark_n_routed_experts"]}
        experts["num_experts_per_tok"] = config["dspark_num_experts_per_tok"]
        own = dataclasses.replace(args, compress_ratios=(0,), **experts)
        self._layers = [theirs.DecoderLayer(own, 0) for _ in range(2)]

    def draw(self, seed: int) -> Arrays:
        config, made = self._config, Arrays()
        hidden, rank = config["hidden_size"], config["dspark_markov_rank"]
        for number, layer in enumerate(self._layers):
            shapes = {n: a.shape for n, a in tree_flatten(layer.parameters())}
            drawn = draw(shapes, seed + number)
            layer.load_weights(list(drawn.items()))
            whole = stored({f"model.layers.{number}.{n}": a for n, a in drawn.items()})
            made |= {f"mtp.{n.removeprefix('layers.')}": a for n, a in whole.items()}
        read = len(config["dspark_target_layer_ids"]) * hidden
        shapes = {
            "mtp.0.main_proj.weight": (hidden, read),
            "mtp.0.main_norm.weight": (hidden,),
            "mtp.1.norm.weight": (hidden,),
            "mtp.1.markov_head.embed.weight": (VOCABULARY, rank),
            "mtp.1.markov_head.head.weight": (VOCABULARY, rank),
            "mtp.1.confidence_head.proj.weight": (1, hidden + rank),
        }
        self._outside = draw(shapes, seed + 9)
        return made | self._outside

    def block(self, model: theirs.Model, entering: list[mx.array], newest: int) -> Drafted:
        config, part = self._config, self._outside
        read = [entering[n].mean(axis=2) for n in config["dspark_target_layer_ids"]]
        eps, count = config["rms_norm_eps"], config["dspark_block_size"]
        norm = lambda x, name: mx.fast.rms_norm(x, part[name], eps)  # noqa: E731
        joined = mx.concatenate(read, axis=-1) @ part["mtp.0.main_proj.weight"].T
        joined = norm(joined, "mtp.0.main_norm.weight")
        tokens = mx.array([[newest, *[config["dspark_noise_token_id"]] * (count - 1)]])
        x = mx.repeat(model.model.embed_tokens(tokens)[:, :, None], config["hc_mult"], axis=2)
        weights = mx.zeros((1, count, config["hc_mult"]))
        weights[..., 0] = 1.0
        for layer in self._layers:
            pre, post, comb = layer.attn_hc(x)
            made = self._attend(layer, layer.input_layernorm(theirs._collapse(x, weights)), joined)
            x = theirs._expand(made, x, post, comb)
            weights, post, comb = layer.ffn_hc(x)
            made = layer.mlp(layer.post_attention_layernorm(theirs._collapse(x, pre)))
            x = theirs._expand(made, x, post, comb)
        states = norm(theirs._collapse(x, weights), "mtp.1.norm.weight")
        markov = lambda name: part[f"mtp.1.markov_head.{name}.weight"]  # noqa: E731
        logits, drafted, before = model.lm_head(states)[0], list[int](), newest
        for row in logits:
            pair = markov("head") @ markov("embed")[before]
            before = int(mx.argmax(row + pair).item())
            drafted.append(before)
        return Drafted(np.array(logits), drafted)

    def _attend(self, layer: theirs.DecoderLayer, x: mx.array, joined: mx.array) -> mx.array:
        own, before, rows = layer.self_attn, joined.shape[1], x.shape[1]
        turn = partial(theirs._apply_rope, rope=own.rope, rope_dim=own.rope_dim)
        queries = own.q_b_proj(own.q_a_norm(own.q_a_proj(x)))
        queries = turn(queries.reshape(1, rows, own.num_heads, -1), offset=before)
        keys = own.kv_norm(own.kv_proj(mx.concatenate([joined, x], axis=1)))
        keys = turn(keys, offset=0)[:, None]
        places = mx.arange(before + rows)
        seen = places > (before + mx.arange(rows))[:, None] - self._config["sliding_window"]
        made = mx.fast.scaled_dot_product_attention(
            *(queries.swapaxes(1, 2), keys, keys),
            scale=own.head_dim**-0.5,
            mask=seen,
            sinks=own.sinks,
        )
        made = turn(made.swapaxes(1, 2), offset=before, inverse=True)
        grouped = own.o_a_proj(made.reshape(rows, own.o_groups, 1, -1), own._group_ids)
        result: mx.array = own.o_b_proj(grouped.reshape(1, rows, -1))
        return result
