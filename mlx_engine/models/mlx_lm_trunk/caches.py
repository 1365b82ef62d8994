"""Our caches in the place of those that an mlx-lm class would make for its layers.

mlx-lm is imported on use: it brings transformers and torch along.
"""

from collections.abc import Sequence

from mlx.nn.layers.base import Module

from mlx_engine.cache.attention import AttentionCache
from mlx_engine.cache.contract import LayerCache
from mlx_engine.cache.layer_caches import LayerCaches
from mlx_engine.cache.whole_block import LibraryCache, WholeBlockCache
from mlx_engine.cache.window import WindowCache


def kept_caches(model: Module) -> LayerCaches:
    """Empty caches of the kinds the class asks for, ours wherever we have the kind."""
    from mlx_lm.models.cache import make_prompt_cache

    wanted = make_prompt_cache(model)
    return LayerCaches([_ours(cache) for cache in wanted])


def whole_caches(model: Module) -> LayerCaches:
    """Empty caches of mlx-lm's own; nothing can be drafted with them."""
    from mlx_lm.models.cache import make_prompt_cache

    return LayerCaches([WholeBlockCache(cache) for cache in make_prompt_cache(model)])


def as_the_class_has_them(caches: LayerCaches, rows: int) -> Sequence[LayerCache | LibraryCache]:
    """The caches to hand to the model for a block of so many rows."""
    handed: list[LayerCache | LibraryCache] = []
    for cache in caches.layers:
        if isinstance(cache, WholeBlockCache):
            cache.begin(rows)
            handed.append(cache.library)
        else:
            handed.append(cache)
    return handed


def _ours(cache: LibraryCache) -> LayerCache:
    """By exact type: what is derived from a kind may mean something else."""
    from mlx_lm.models.cache import KVCache, RotatingKVCache

    if type(cache) is KVCache:
        return AttentionCache()
    if type(cache) is RotatingKVCache and cache.keep == 0:
        return WindowCache(cache.max_size)
    return WholeBlockCache(cache)
