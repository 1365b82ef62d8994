"""The heads of GLM-4.5, 4.5-Air, 4.6 and 4.7: experts and grouped-query attention.

Layer 92 (46 in Air); its files carry copies of embedding and output head.
"""

from mlx_engine.models.nextn.definition import HeadDefinition
from mlx_engine.models.nextn.layer_shapes import with_grouped_attention

GLM4_MOE = HeadDefinition(
    model_type="glm4_moe",
    promised_by="num_nextn_predict_layers",
    layer=with_grouped_attention,
)
