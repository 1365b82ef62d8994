"""GLM-5.3-Flash: trunk and MTP head against transformers, residual streams, pooled index keys."""

import numpy as np
import pytest
import torch
from compared import normal, relative
from transformers.models.glm5_next import modeling_glm5_next as published

from mlx_engine.models.hyper_connections import connection_of
from mlx_engine.models.model_spec import WholeStreamsSpec
from mlx_engine.models.weights import Part, WeightTable


@pytest.mark.parametrize(("count", "steps", "eps"), [(4, 20, 1e-6), (3, 1, 0.02), (2, 3, 0.1)])
def test_streams_are_exchanged_as_in_transformers(count, steps, eps):
    """What a block reads, and what is left when its output was added."""
    size, spec = 8, WholeStreamsSpec(count, 2.0, eps, steps, "mean")
    shapes = spec.tensors(size, has_gains=True)
    arrays = {name: 2 * normal(shape, seed) for seed, (name, shape) in enumerate(shapes.items())}
    config = published.Glm5NextTextConfig(
        hidden_size=size, hc_mult=count, hc_eps=eps, hc_sinkhorn_iters=steps, rms_norm_eps=0.1
    )
    theirs = published.Glm5NextTextHyperConnection(config)
    for name, ours in {"fn": "mix.weight", "base": "base", "scale": "scale"}.items():
        getattr(theirs, name).data = torch.tensor(np.array(arrays[ours]))
    norm = published.Glm5NextTextRMSNorm(size, 0.1)
    norm.weight.data = torch.tensor(np.array(arrays["norm.weight"]))
    streams, output = normal((1, 5, count, size), 9), normal((1, 5, size), 10)
    wide, made = torch.tensor(np.array(streams)), torch.tensor(np.array(output))
    with torch.no_grad():
        gains, shares, collapsed = theirs(wide)
        added = gains[..., None] * made[:, :, None] + shares.transpose(-1, -2) @ wide
        read_by_block = norm(collapsed)
    ours = connection_of(spec, Part(WeightTable(arrays, "tiny"), "", shapes), 0.1)
    read = ours.collapse_streams(streams.reshape(1, 5, -1))
    found = ours.add_to_residual(streams.reshape(1, 5, -1), output, read)
    assert relative(np.array(read.mixed), read_by_block.numpy()) < 1e-5
    assert relative(np.array(found).reshape(added.shape), added.numpy()) < 1e-5
