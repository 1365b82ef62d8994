"""Mamba 2's norm behind the gate: over each group by itself (arXiv 2405.21060, section 8.2)."""

from mlx.nn.layers.base import Module
from mlx.utils import tree_unflatten


def use_norm_by_group(model: Module) -> None:
    """Exchange mlx-lm 0.32.2's, which is over all groups at once; its weights stay."""
    from mlx_lm.models.mamba2 import Mamba2Block
    from mlx_lm.models.nemotron_h import MambaRMSNormGated

    made: list[tuple[str, Module]] = []
    modules = model.named_modules()  # type: ignore[no-untyped-call]
    for path, block in modules:
        if type(block) is Mamba2Block and block.n_groups > 1:
            width = block.intermediate_size
            norm = MambaRMSNormGated(width, block.norm.eps, width // block.n_groups)
            norm.weight = block.norm.weight
            made.append((f"{path}.norm", norm))
    if made:
        model.update_modules(tree_unflatten(made))
