"""The heads of GLM-4.7-Flash: experts and latent attention.

Layer 47, with an embedding and an output head of its own.
"""

from mlx_engine.models.nextn.definition import HeadDefinition
from mlx_engine.models.nextn.layer_shapes import with_latent_attention

GLM4_MOE_LITE = HeadDefinition(
    model_type="glm4_moe_lite",
    promised_by="num_nextn_predict_layers",
    layer=with_latent_attention,
)
