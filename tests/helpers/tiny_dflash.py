"""Tiny DFlash, DFlash 2, DSpark and LiLiCorr checkpoints, and what they say in plain PyTorch.

The reference reads everything anew for every block and loops over rows and heads; it shares no code
with the engine.
"""

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch
from safetensors.torch import save_file

HEADS, KV_HEADS, SIZE, INNER, EPS, BASE, BLOCK, MASK = 4, 2, 16, 80, 1e-6, 10000.0, 6, 299
TAPS, GROUP, RANK = 3, 16, 8
ENDS = ("pre", "post")
TURNED = {"rope_type": "proportional", "partial_rotary_factor": 0.25, "rope_theta": BASE}
LATTICE = {
    "hidden_size": 24,
    "num_layers": 2,
    "num_heads": 3,
    "mlp_ratio": 1.5,
    "factor_dim": 5,
    "vector_eps": 0.01,
    "logit_scale": 8.0,
}
"""Of LiLiCorr, without its prefix."""


@dataclass(frozen=True)
class TinyDFlash:
    """layers: outputs of the target that are joined; window: of the second layer, None for none.

    newest_drafts: DSpark's newest token is a row that drafts. pairs: it has a Markov head. sure: it
    has a confidence head. flat: as DeepSpec writes it, without a config of its own and with the
    target's matrices, which are nothing but noise here. rows: of an output head of its own, in the
    form of speculators. rotated: elements of a head. value_scale: factor of values (MiMo).
    numbered: LiLiCorr's feed-forwards by number, as some exporters have them. gemma: with layers of
    Gemma 4, whose heads are rotated in part and whose keys are values.
    """

    target_hidden: int
    vocabulary: int
    layers: tuple[int, ...] = (0, 2)
    window: int | None = None
    cap: float | None = None
    seed: int = 4
    kind: Literal["dflash", "dflash2", "dspark", "lilicorr"] = "dflash"
    newest_drafts: bool = True
    pairs: bool = True
    sure: bool = True
    flat: bool = False
    rows: int | None = None
    sinks: bool = False
    candidates: int = 5
    rotated: int = SIZE
    value_scale: float = 1.0
    numbered: bool = False
    gemma: bool = False

    @property
    def size(self) -> int:
        """Of a head."""
        return 24 if self.gemma else SIZE

    @property
    def kv_heads(self) -> int:
        return 1 if self.gemma else KV_HEADS

    @property
    def drafts(self) -> int:
        is_whole = self.kind == "dspark" and (self.newest_drafts or not self.rows)
        return BLOCK if is_whole else BLOCK - 1

    @property
    def unread(self) -> int:
        """Rows in front that draft nothing."""
        return 0 if self.kind == "dspark" and self.newest_drafts else 1


class Block(NamedTuple):
    """Of a draft in float64: logits [drafts, V] and normed states [drafts, H] of its rows.

    newest: the last row of the target's joined features [H]. embedding: the target's.
    """

    logits: torch.Tensor
    states: torch.Tensor
    newest: torch.Tensor
    embedding: torch.Tensor


def tensors_of(tiny: TinyDFlash) -> dict[str, torch.Tensor]:
    """By their published names."""
    draw = torch.Generator().manual_seed(tiny.seed)
    wide = tiny.target_hidden

    def matrix(rows, columns):
        return torch.randn(rows, columns, generator=draw) * columns**-0.5

    def norm(size, around=1.0):
        return around * (1 + 0.2 * torch.randn(size, generator=draw))

    made = {
        "fc.weight": matrix(wide, len(tiny.layers) * wide),
        "hidden_norm.weight": norm(wide),
        "norm.weight": norm(wide),
    }
    for n in range(2):
        layer, inner = f"layers.{n}", f"layers.{n}.self_attn"
        made |= {
            f"{layer}.input_layernorm.weight": norm(wide),
            f"{layer}.post_attention_layernorm.weight": norm(wide),
            f"{inner}.q_proj.weight": matrix(HEADS * tiny.size, wide),
            f"{inner}.k_proj.weight": matrix(tiny.kv_heads * tiny.size, wide),
            f"{inner}.v_proj.weight": matrix(tiny.kv_heads * tiny.size, wide),
            f"{inner}.o_proj.weight": matrix(wide, HEADS * tiny.size),
            f"{inner}.q_norm.weight": norm(tiny.size),
            f"{inner}.k_norm.weight": norm(tiny.size),
            f"{layer}.mlp.gate_proj.weight": matrix(INNER, wide),
            f"{layer}.mlp.up_proj.weight": matrix(INNER, wide),
            f"{layer}.mlp.down_proj.weight": matrix(wide, INNER),
        }
        if tiny.gemma:
            del made[f"{inner}.v_proj.weight"]
            made |= {f"{layer}.{end}_feedforward_layernorm.weight": norm(wide) for end in ENDS}
            made[f"{layer}.layer_scalar"] = norm(1, 0.7)
        has_taps = tiny.kind in ("dflash2", "lilicorr")
        for end in ("attention_conv", "mlp_conv") if has_taps else ():
            made[f"{layer}.{end}.base_kernel"] = torch.randn(2, TAPS, wide, generator=draw)
            taps = 2 * TAPS * (wide // GROUP)
            made[f"{layer}.{end}.kernel_projection.weight"] = matrix(taps, wide)
        if tiny.sinks:
            made[f"{inner}.attention_sink_bias"] = torch.randn(HEADS, generator=draw)
    if tiny.kind == "dflash2":
        books = ("predecessor_codebook", "successor_codebook")
        made |= {f"candidate_selector.{book}": 2 * matrix(tiny.vocabulary, RANK) for book in books}
        made["candidate_selector.hidden_projection.weight"] = 2 * matrix(RANK, wide)
    if tiny.kind == "lilicorr":
        made |= _lattice_tensors(tiny, draw)
    if tiny.kind == "dspark" and tiny.pairs:
        for n, rows in ((1, tiny.vocabulary), (2, tiny.rows or tiny.vocabulary)):
            made[f"markov_head.markov_w{n}.weight"] = 3 * matrix(rows, RANK)
    for name in ("embed_tokens", "lm_head") if tiny.flat else ():
        made[f"{name}.weight"] = matrix(tiny.vocabulary, wide)
    if tiny.rows:
        known = torch.randperm(tiny.vocabulary, generator=draw)[: tiny.rows].sort().values
        made["d2t"] = known - torch.arange(tiny.rows)
        made["t2d"] = torch.zeros(tiny.vocabulary, dtype=torch.bool)
        made["t2d"][known] = True
        made["lm_head.weight"] = 2 * matrix(tiny.rows, wide)
    if tiny.kind == "dspark" and tiny.sure:
        made["confidence_head.proj.weight"] = 3 * matrix(1, wide + RANK)
        made["confidence_head.proj.bias"] = norm(1) - 1
    return made


def _lattice_tensors(tiny: TinyDFlash, draw: torch.Generator) -> dict[str, torch.Tensor]:
    wide, model, factors = LATTICE["hidden_size"], tiny.target_hidden, LATTICE["factor_dim"]
    inner, heads = int(wide * LATTICE["mlp_ratio"]), LATTICE["num_heads"]
    linear = {"token_proj": (wide, model), "pass_hidden_proj": (wide, model)}
    linear |= {"context_proj": (wide, model), "factor_input_proj": (wide, 3 * wide)}
    linear |= {"feature_mlp.up_proj": (wide, 5), "feature_mlp.down_proj": (wide, wide)}
    linear |= {f"{name}head": (factors, wide) for name in ("out_", "in_", "anchor_out_")}
    shapes = {"slot_embedding": (1, 1, BLOCK - 1, 1, wide), "same_slot_bias": (heads,)}
    shapes |= {"rank_embedding": (1, 1, 1, tiny.candidates, wide)}
    shapes |= {"relative_slot_bias": (heads, 2 * BLOCK - 1)}
    norms = {"feature_norm": 5, "output_norm": wide, "anchor_norm": wide}
    for layer in ("layers.0", "layers.1"):
        linear |= {f"{layer}.attn.out_proj": (wide, wide), f"{layer}.mlp.up_proj": (inner, wide)}
        linear |= {f"{layer}.mlp.down_proj": (wide, inner)}
        shapes |= {f"{layer}.attn.in_proj_weight": (3 * wide, wide)}
        shapes |= {f"{layer}.attn.in_proj_bias": (3 * wide,)}
        norms |= {f"{layer}.attn_norm": wide, f"{layer}.mlp_norm": wide}
    shapes |= {f"{name}.weight": shape for name, shape in linear.items()}
    shapes |= {f"{name}.bias": shape[:1] for name, shape in linear.items()}
    shapes["feature_norm.bias"] = (5,)
    made = {name: torch.randn(shape, generator=draw) for name, shape in shapes.items()}
    for name, value in made.items():
        made[name] = value * value.shape[-1] ** -0.5 if value.ndim == 2 else 0.2 * value
    made["token_proj.weight"] *= 6  # what a token is counts for more than its row and rank
    for name, size in norms.items():
        made[f"{name}.weight"] = 1 + 0.2 * torch.randn(size, generator=draw)
    if tiny.numbered:
        parts = {"feature_norm.": "feature_mlp.0.", "feature_mlp.up_proj": "feature_mlp.1"}
        parts |= {"feature_mlp.down_proj": "feature_mlp.3", ".mlp.up_proj": ".mlp.0"}
        parts |= {".mlp.down_proj": ".mlp.2"}
        for ours, theirs in parts.items():
            made = {name.replace(ours, theirs): value for name, value in made.items()}
    return {f"lilicorr.{name}": value for name, value in made.items()}


def write_tiny_dflash(folder: Path, tiny: TinyDFlash, **changes: torch.Tensor | None) -> Path:
    """The folder; changes: tensors by name, None takes one out."""
    made = {
        name: value for name, value in (tensors_of(tiny) | changes).items() if value is not None
    }
    own: dict[str, object] = {"target_layer_ids": list(tiny.layers), "mask_token_id": MASK}
    config: dict[str, object] = {
        "architectures": ["Qwen3DSparkModel" if tiny.flat else "DFlashDraftModel"],
        "model_type": "qwen3",
        "block_size": BLOCK,
        "hidden_size": tiny.target_hidden,
        "intermediate_size": INNER,
        "num_hidden_layers": 2,
        "num_attention_heads": HEADS,
        "num_key_value_heads": KV_HEADS,
        "head_dim": SIZE,
        "rms_norm_eps": EPS,
        "vocab_size": tiny.vocabulary,
        "max_position_embeddings": 512,
        "rope_theta": BASE,
        "dflash_config": own,
    }
    if tiny.kind == "dflash2":
        own |= {"conv_kernel_size": TAPS, "conv_group_size": GROUP}
        own |= {"selector_rank": RANK, "selector_top_k": tiny.candidates}
    if tiny.kind == "lilicorr":
        own |= {"conv_kernel_size": TAPS, "conv_group_size": GROUP, "projector_type": "lilicorr"}
        own |= {f"lilicorr_{name}": value for name, value in LATTICE.items()}
        own["lilicorr_candidate_topk"] = tiny.candidates
    if tiny.kind == "dspark":
        own |= {"projector_type": "dspark", "markov_rank": RANK if tiny.pairs else 0}
        own |= {"markov_head_type": "vanilla"} if tiny.pairs else {}
        own |= {"sample_from_anchor": tiny.newest_drafts, "enable_confidence_head": tiny.sure}
    own |= {"attention_sink_bias": True} if tiny.sinks else {}
    if tiny.rotated != SIZE:
        config["rope_parameters"] = {"partial_rotary_factor": tiny.rotated / SIZE}
        own["attention_value_scale"] = tiny.value_scale
    if tiny.gemma:
        del config["rope_theta"]
        config |= {"model_type": "gemma4_text", "architectures": ["Gemma4DSparkModel"]}
        config |= {"global_head_dim": tiny.size, "num_global_key_value_heads": tiny.kv_heads}
        config |= {"attention_k_eq_v": True, "hidden_activation": "gelu_pytorch_tanh"}
        config["rope_parameters"] = {"full_attention": TURNED}
        config["layer_types"] = ["full_attention"] * 2
    if tiny.window:
        config["layer_types"] = ["full_attention", "sliding_attention"]
        config["sliding_window"] = tiny.window
    if tiny.cap:
        own["final_logit_softcapping"] = tiny.cap
        own["output_multiplier"] = 0.5
    if tiny.flat:
        del own["projector_type"], own["sample_from_anchor"], config["dflash_config"]
        config |= {**own, "num_anchors": 4}
    if tiny.rows:
        config = _as_speculators(tiny, config)
    folder.mkdir(parents=True, exist_ok=True)
    save_file({name: value.contiguous() for name, value in made.items()},
              folder / "model.safetensors")  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def _as_speculators(tiny: TinyDFlash, config: dict[str, Any]) -> dict[str, Any]:
    """The layer's config by itself, layers of the target by the number of their input's."""
    own = config.pop("dflash_config")
    made = {"speculators_model_type": tiny.kind, "draft_vocab_size": tiny.rows}
    made |= {name: config.pop(name) for name in ("architectures", "block_size")}
    made["aux_hidden_state_layer_ids"] = [layer + 1 for layer in own.pop("target_layer_ids")]
    own.pop("projector_type", None)
    return made | own | {"transformer_layer_config": config}


def reference(
    tiny: TinyDFlash,
    residuals: list[torch.Tensor],
    newest: int,
    embedding: torch.Tensor,
    output: torch.Tensor,
) -> Block:
    """Block after residuals [T, H] of the joined layers and the newest token."""
    w = _wide(tiny)
    joined = torch.cat([r.double() for r in residuals], dim=-1) @ w["fc.weight"].T
    context = _norm(joined, w["hidden_norm.weight"])
    x = embedding.double()[[newest] + [MASK] * (tiny.drafts - 1 + tiny.unread)]
    x = x * tiny.target_hidden**0.5 if tiny.gemma else x
    for n in range(2):
        window = tiny.window if n == 1 else None
        x = _layer(tiny, w, f"layers.{n}", x, context, window)
    states = _norm(x, w["norm.weight"])[tiny.unread :]
    logits = states @ w.get("lm_head.weight" if tiny.rows else "", output.double()).T
    if tiny.cap:
        logits = torch.tanh(0.5 * logits / tiny.cap) * tiny.cap
    return Block(logits, states, context[-1], embedding.double())


def likeliest(tiny: TinyDFlash, block: Block, newest: int) -> list[int]:
    """The tokens of a greedy draft, each chosen with the one before."""
    w, before, path = _wide(tiny), newest, []
    tokens = tensors_of(tiny).get("d2t", torch.zeros(tiny.vocabulary, dtype=torch.long))
    tokens = (tokens + torch.arange(len(tokens))).tolist()
    if tiny.kind == "lilicorr":
        return _likeliest_of_lattice(tiny, w, block)
    for logits, state in zip(block.logits, block.states, strict=True):
        scores = logits
        if tiny.kind == "dspark" and tiny.pairs:
            both = w["markov_head.markov_w1.weight"][before] @ w["markov_head.markov_w2.weight"].T
            scores = logits + both
        if tiny.kind == "dflash2":
            some = logits.topk(tiny.candidates).indices.tolist()
            read = w["candidate_selector.hidden_projection.weight"] @ state
            pair = w["candidate_selector.predecessor_codebook"][before] * read
            after = w["candidate_selector.successor_codebook"]
            scores = torch.full_like(logits, -torch.inf)
            for token in some:
                scores[token] = logits[token] + pair @ after[token]
        before = tokens[int(scores.argmax())]
        path.append(before)
    return path


def lattice_scores(w, ids, surety, states, newest, embedding):
    """LiLiCorr's scores of starts [K] and pairs [R - 1, K, K].

    w: weights without prefix. ids, surety: candidates [R, K] and their log-probabilities.
    """
    rows, count = ids.shape

    def linear(name, x):
        return x @ w[f"{name}.weight"].T + w[f"{name}.bias"]

    def mlp(name, x):
        return linear(f"{name}.down_proj", torch.nn.functional.silu(linear(f"{name}.up_proj", x)))

    def norm(name, x):
        return _norm(x, w[f"{name}.weight"])

    def unit(x):
        return x / x.norm(dim=-1, keepdim=True).clamp_min(LATTICE["vector_eps"])

    nodes = []
    for row in range(rows):
        for rank in range(count):
            told = surety[row, rank]
            best = surety[row].max()
            share = rank / (count - 1)
            features = torch.stack([told, told.exp(), told - best, *told.new([share, rank == 0])])
            scaled = torch.nn.functional.layer_norm(
                features, (5,), w["feature_norm.weight"], w["feature_norm.bias"]
            )
            node = linear("token_proj", embedding[ids[row, rank]])
            node = node + linear("pass_hidden_proj", states[row]) + mlp("feature_mlp", scaled)
            node = node + w["slot_embedding"].reshape(-1, len(node))[row]
            nodes.append(node + w["rank_embedding"].reshape(-1, len(node))[rank])
    x = torch.stack(nodes)
    heads = len(w["same_slot_bias"])
    span = w["relative_slot_bias"].shape[1] // 2
    for layer in ("layers.0", "layers.1"):
        inner = norm(f"{layer}.attn_norm", x)
        joined = inner @ w[f"{layer}.attn.in_proj_weight"].T + w[f"{layer}.attn.in_proj_bias"]
        q, k, v = (part.view(len(x), heads, -1) for part in joined.chunk(3, dim=-1))
        made = torch.zeros_like(x)
        for n in range(len(x)):
            seen = []
            for head in range(heads):
                scores = k[:, head] @ q[n, head] * q.shape[-1] ** -0.5
                for other in range(len(x)):
                    distance = n // count - other // count
                    scores[other] += w["relative_slot_bias"][head, distance + span]
                    scores[other] += w["same_slot_bias"][head] * (distance == 0)
                seen.append(torch.softmax(scores, dim=0) @ v[:, head])
            made[n] = torch.cat(seen)
        x = x + linear(f"{layer}.attn.out_proj", made)
        x = x + mlp(f"{layer}.mlp", norm(f"{layer}.mlp_norm", x))
    x = norm("output_norm", x).view(rows, count, -1)
    anchor = norm("anchor_norm", linear("context_proj", newest))
    both = torch.cat([x, anchor.expand_as(x), x * anchor], dim=-1)
    both = torch.nn.functional.silu(linear("factor_input_proj", both))
    following, previous = unit(linear("out_head", both)), unit(linear("in_head", both))
    start = previous[0] @ unit(linear("anchor_out_head", anchor))
    pairs = torch.stack([following[n] @ previous[n + 1].T for n in range(rows - 1)])
    return LATTICE["logit_scale"] * start, LATTICE["logit_scale"] * pairs


def _likeliest_of_lattice(tiny, w, block):
    plain = _wide(replace(tiny, numbered=False))
    head = {name.removeprefix("lilicorr."): value for name, value in plain.items()}
    best = torch.log_softmax(block.logits, dim=-1).topk(tiny.candidates)
    start, pairs = lattice_scores(
        head, best.indices, best.values, block.states, block.newest, block.embedding
    )
    at = int(start.argmax())
    path = [int(best.indices[0, at])]
    for row in range(len(pairs)):
        at = int(pairs[row, at].argmax())
        path.append(int(best.indices[row + 1, at]))
    return path


def confidences(tiny: TinyDFlash, block: Block, newest: int) -> list[float]:
    """What DSpark's confidence head says of the tokens of a greedy draft."""
    w = _wide(tiny)
    befores = [newest, *likeliest(tiny, block, newest)[:-1]]
    joined = torch.cat([block.states, w["markov_head.markov_w1.weight"][befores]], dim=1)
    told = joined @ w["confidence_head.proj.weight"][0] + w["confidence_head.proj.bias"]
    return torch.sigmoid(told).tolist()


def _wide(tiny: TinyDFlash) -> dict[str, torch.Tensor]:
    return {name: value.double() for name, value in tensors_of(tiny).items()}


def _layer(tiny, w, name, x, context, window):
    def feed(inner):
        gate = torch.nn.functional.silu(inner @ w[f"{name}.mlp.gate_proj.weight"].T)
        up = inner @ w[f"{name}.mlp.up_proj.weight"].T
        return (gate * up) @ w[f"{name}.mlp.down_proj.weight"].T

    def attend(inner):
        return _attended(tiny, w, f"{name}.self_attn", inner, context, window)

    def norm(part, inner):
        return _norm(inner, w[f"{name}.{part}_layernorm.weight"])

    if tiny.gemma:
        x = x + norm("post_attention", attend(norm("input", x)))
        inner = norm("pre_feedforward", x)
        gate = torch.nn.functional.gelu(
            inner @ w[f"{name}.mlp.gate_proj.weight"].T, approximate="tanh"
        )
        made = gate * (inner @ w[f"{name}.mlp.up_proj.weight"].T)
        x = x + norm("post_feedforward", made @ w[f"{name}.mlp.down_proj.weight"].T)
        return x * w[f"{name}.layer_scalar"]

    x = x + _convolved(w, f"{name}.attention_conv", x, w[f"{name}.input_layernorm.weight"], attend)
    norm = w[f"{name}.post_attention_layernorm.weight"]
    return x + _convolved(w, f"{name}.mlp_conv", x, norm, feed)


def _convolved(w, name, x, norm, inner):
    """inner(norm(x)), convolved before and behind where there are such weights."""
    normed = _norm(x, norm)
    if f"{name}.base_kernel" not in w:
        return inner(normed)
    dynamic = (normed @ w[f"{name}.kernel_projection.weight"].T).view(len(x), 2, TAPS, -1)

    def end(rows, number):
        made = torch.zeros_like(rows)
        for t in range(len(rows)):
            for back in range(min(t + 1, TAPS)):
                taps = w[f"{name}.base_kernel"][number, back]
                taps = taps + dynamic[t, number, back].repeat_interleave(GROUP)
                made[t] += taps * rows[t - back]
        return made

    return end(inner(end(normed, 0)), 1)


def _attended(tiny, w, name, x, context, window):
    length, everything = context.shape[0], torch.cat([context, x])
    places = torch.arange(everything.shape[0])
    q = (x @ w[f"{name}.q_proj.weight"].T).view(-1, HEADS, tiny.size)
    k = (everything @ w[f"{name}.k_proj.weight"].T).view(-1, tiny.kv_heads, tiny.size)
    if tiny.gemma:
        v, pairs, scale = _norm(k, 1.0), tiny.size // 8, 1.0
    else:
        v = (everything @ w[f"{name}.v_proj.weight"].T).view(-1, KV_HEADS, SIZE)
        v, pairs, scale = v * tiny.value_scale, tiny.rotated // 2, SIZE**-0.5
    turned = tiny.size if tiny.gemma else tiny.rotated
    q = _turned(_norm(q, w[f"{name}.q_norm.weight"]), places[length:], turned, pairs)
    k = _turned(_norm(k, w[f"{name}.k_norm.weight"]), places, turned, pairs)
    rows = []
    for t in range(x.shape[0]):
        seen = places >= 0  # a whole block sees itself; windows only look back
        if window is not None:
            seen = places > length + t - window
            seen &= (places <= length + t) if tiny.kind == "dflash" else seen
        heads = []
        for h in range(HEADS):
            group = h * tiny.kv_heads // HEADS
            scores = k[seen, group] @ q[t, h] * scale
            sink = w.get(f"{name}.attention_sink_bias", torch.full((HEADS,), -torch.inf))[h, None]
            shares = torch.softmax(torch.cat([scores, sink]), dim=0)[:-1]
            heads.append(shares @ v[seen, group])
        rows.append(torch.cat(heads))
    return torch.stack(rows) @ w[f"{name}.o_proj.weight"].T


def _norm(x, weight):
    return x * (x.square().mean(-1, keepdim=True) + EPS).rsqrt() * weight


def _turned(x, places, size, pairs):
    """The first `pairs` pairs of the first `size` elements of each head turned, halves apart."""
    half = size // 2
    angle = places.double()[:, None] * BASE ** (-torch.arange(half, dtype=torch.float64) / half)
    angle[:, pairs:] = 0
    turned = torch.complex(x[..., :half], x[..., half:size]) * torch.exp(1j * angle)[:, None]
    return torch.cat([turned.real, turned.imag, x[..., size:]], dim=-1)
