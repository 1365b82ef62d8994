"""MiMo-7B: Qwen2's layers with one MTP head, which joins the hidden state before the token.

As modeling_mimo.py of the published repository runs it: states after the final norm, and its own
after its norm. Further heads, if any, are not run: nobody says how they are to be used.
"""

from dataclasses import replace

from mlx_engine.models.config_fields import ConfigFields
from mlx_engine.models.families.qwen3 import Qwen2
from mlx_engine.models.layer_specs import Attention
from mlx_engine.models.specs import Heads, ModelSpec
from mlx_engine.models.tensor_names import HeadNames


class Mimo(Qwen2):
    """`mimo`."""

    head_names = HeadNames(
        {
            "token_layernorm": "enorm",
            "hidden_layernorm": "hnorm",
            "input_proj": "join",
            "final_layernorm": "norm",
        }
    )

    def read(self, fields: ConfigFields) -> ModelSpec:
        """Qwen2's, and a head that sees everything."""
        model = super().read(fields)
        block = model.blocks[0]
        assert isinstance(block.mixer, Attention)
        heads = Heads(
            blocks=(replace(block, mixer=replace(block.mixer, window=None)),),
            promised=fields.count("num_nextn_predict_layers", 0, least=0),
            embedding_first=False,
        )
        return replace(model, heads=heads)
