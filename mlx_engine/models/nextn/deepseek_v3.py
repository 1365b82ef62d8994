"""The heads of DeepSeek-V3, R1 and V3.1: experts and latent attention.

Layer 61; embedding and output head are the trunk's, also where the files repeat them.
"""

from mlx_engine.models.nextn.definition import HeadDefinition
from mlx_engine.models.nextn.layer_shapes import with_latent_attention

DEEPSEEK_V3 = HeadDefinition(
    model_type="deepseek_v3",
    promised_by="num_nextn_predict_layers",
    layer=with_latent_attention,
)
