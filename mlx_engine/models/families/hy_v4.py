"""Hy4 and Hy4-flash (`hy_v4`): latent attention with an indexer, behind hyper-connections.

Layers are those of DeepSeek-V3.2 with four residual streams, an elementwise gate of the attention's
result, attention sinks, and a limit of the routed experts' SwiGLU. The MTP head (`mtp_layers.0`)
has such a layer with a single stream and an indexer of its own; it reads hidden states after the
final norm and passes on its own after its norm.

References disagree, and no published weights were run:

- Rotated pairs are neighbours in vLLM, llama.cpp, mlx-vlm and here, halves in transformers 5.23,
which is said to be wrong for the published weights. `rope_interleave` tells them apart.
- Indexers rotate the end of a head in transformers, vLLM, llama.cpp and here, its start in mlx-vlm.
- Keys of indexers are normed with an epsilon of `rms_norm_eps` in transformers, llama.cpp and here,
of 1e-6 in vLLM; latents with 1e-6 in transformers, mlx-vlm and here, with `rms_norm_eps` in others.
- Logits are products in float32 in transformers, whatever the rows' type; in the rows' type here.
"""

from dataclasses import replace
from typing import ClassVar

from mlx_engine.models.config_fields import ConfigFields
from mlx_engine.models.families.deepseek_v3 import (
    feed_forwards,
    indexer_spec,
    indexers_by_layer,
    latent_attention,
)
from mlx_engine.models.families.llama import plain_model
from mlx_engine.models.feed_forward_specs import ExpertsSpec
from mlx_engine.models.model_spec import (
    CONNECTIONS,
    MOST_STREAMS,
    BlockSpec,
    ModelSpec,
    MtpHeadsSpec,
    WholeStreamsSpec,
)
from mlx_engine.models.native_family import NativeFamily
from mlx_engine.models.tensor_names import (
    CONNECTION_NAMES,
    CONNECTION_NORMS,
    CONNECTION_PARTS,
    HeadNames,
)

_MIXER, _FEED = CONNECTIONS
_WITHIN = {
    "self_attn.linear_gate": "self_attn.g_proj",
    "self_attn.learnable_sink_param": "self_attn.sinks",
}


class HyV4(NativeFamily):
    """Hy4 and Hy4-flash (`hy_v4`): hyper-connections around DeepSeek-V3.2's layers."""

    renames: ClassVar = {
        **_WITHIN,
        **CONNECTION_NAMES,
        **{f"hc_attn_layer.hc_pre.hc_{a}": f"{_MIXER}.{b}" for a, b in CONNECTION_PARTS.items()},
        **{f"hc_mlp_layer.hc_pre.hc_{a}": f"{_FEED}.{b}" for a, b in CONNECTION_PARTS.items()},
        **{
            f"hc_head.hc_head_{a}{end}": f"hyper_connection_mixer.{b}"
            for a, b in CONNECTION_PARTS.items()
            for end in ("", ".weight")  # in GGUF files
        },
        "norm": "hyper_connection_mixer.norm",
    }
    head_names = HeadNames(
        {
            "eh_proj": "join",
            "final_layernorm": "norm",
            "norm": "norm",
            **{name: name for name in CONNECTION_NORMS},
            **{f"decoder.{name}": name for name in (*CONNECTION_NORMS, "self_attn", "mlp")},
            **{f"decoder.{old}": new for old, new in _WITHIN.items()},
            "decoder.mlp.shared_experts": "mlp.shared_expert",
        }
    )
    """As published, and `decoder`, `norm` in heads that mlx-vlm split off."""

    def _read_spec(self, fields: ConfigFields) -> ModelSpec:
        plain = replace(latent_attention(fields), gate="element", sinks=True)
        indexer = replace(
            indexer_spec(fields, plain.rope),
            eps=fields.number("rms_norm_eps", 1e-5),
            rotates_end=True,
        )
        limit = fields.non_negative_number("swiglu_limit")
        *feeds, head = (
            replace(feed, feed=feed.feed.with_gate_limit(limit))
            if isinstance(feed, ExpertsSpec)
            else feed
            for feed in feed_forwards(fields)
        )
        streams = WholeStreamsSpec(
            fields.count("hc_mult", 4, minimum=2, maximum=MOST_STREAMS),
            fields.number("hc_magnitude", 2.0),
            fields.number("hc_eps", 1e-6),
        )
        mixers = (replace(plain, indexer=own) for own in indexers_by_layer(fields, indexer))
        blocks = [
            BlockSpec(mixer, feed, streams=streams)
            for mixer, feed in zip(mixers, feeds, strict=True)
        ]
        heads = MtpHeadsSpec((BlockSpec(replace(plain, indexer=indexer), head),))
        return replace(plain_model(fields, blocks), heads=heads)
