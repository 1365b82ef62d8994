"""Print what needs no Mac to be known: partial results, launches of an embedding, casts a pass.

    PYTHONPATH=.:tests:tests/helpers python tests/speed/counts.py

All of it is counted in today's code: bytes of attention's partial results over bytes of the cache,
beside blocks of 128 and then 256 keys whatever the model; what an embedding look-up of one token
asks a GPU for, with and without the kernel for GGUF blocks; and casts and launches of a pass by a
dry run in both types of 16 bits.
"""

from typing import NamedTuple

import mlx.core as mx
from dry_run import FORMATS, dry_run
from graph_operations import VIEWS, Unrun
from lazy_graph import primitives
from published_configs import CONFIGS
from rich.console import Console
from rich.table import Table

from metal_kernels.choice import ALL_ROWS, Kernels, Verdict
from metal_kernels.few_query_attention import KeyBlocks, key_blocks
from metal_kernels.key_value_formats import named_cache_format
from metal_kernels.weight_formats.gguf_blocks import BLOCK_FORMS, block_bytes
from mlx_engine.models.layers import Embedding
from mlx_engine.models.matrix import Matrix
from mlx_engine.values.errors import UnsupportedModel

ROWS, CONTEXTS = (1, 4, 8), (1024, 16384, 65536)


class Attention(NamedTuple):
    """form: of the cache. shared: query heads of a key head. key: size without its latent."""

    name: str
    form: str
    shared: int
    key: int
    value: int

    def share(self, rows: int, context: int, cut: KeyBlocks | None = None) -> float:
        """Bytes of partial results, written and read, over bytes of the cache."""
        form = named_cache_format(self.form, self.key, self.value)
        blocks = cut or key_blocks(form, self.key, self.value, self.shared)
        count = blocks.block_of_key(context - 1) + 1
        cached = context * (self.key + self.value) * form.element_bytes
        return self.shared * rows * (self.value + 2) * 8 * count / cached


ATTENTION = (
    Attention("4 heads of 128", "", 4, 128, 128),
    Attention("Qwen3.6-27B", "", 6, 256, 256),
    Attention("Qwen3.6-35B-A3B", "", 8, 256, 256),
    Attention("Qwen3.6-35B-A3B, 8 bits", "affine8", 8, 256, 256),
    Attention("Qwen3.6-35B-A3B, 4 bits", "affine4", 8, 256, 256),
    Attention("GLM-4.5-Air", "", 12, 128, 128),
    Attention("GLM-4.7-Flash", "latent", 20, 64, 512),
    Attention("GLM-4.7-Flash, 8 bits", "latent8", 20, 64, 512),
    Attention("DeepSeek-V3", "latent", 128, 64, 512),
)


def before(context: int) -> KeyBlocks:
    """Blocks of 128 keys up to 4,096 tokens and of 256 beyond, as sizes of a factor of 1."""

    class Alike(KeyBlocks):
        def block_of_key(self, key: int) -> int:
            return key // 128 if key < 4096 else 32 + (key - 4096) // 256

    return Alike(1, 1)


def look_up(form: str, *, with_kernel: bool) -> int:
    """Launches of one token's embedding out of a table in GGUF blocks."""
    kernels = Kernels(Unrun() if with_kernel else None, presumed=Verdict(faster=ALL_ROWS))
    table = mx.zeros((64, block_bytes(form, 512)), mx.uint8)
    matrix = Matrix(table, None, None, 0, 0, form, mx.bfloat16)
    token = mx.zeros((1, 1), mx.int32)
    mx.eval(table, token)
    found = primitives(Embedding.from_matrix(matrix, mx.bfloat16, kernels)(token))
    return sum(count for name, count in found.items() if name not in VIEWS)


def table_of(*headers: str) -> Table:
    """An empty table, numbers to the right."""
    table = Table(box=None, header_style="dim", pad_edge=False)
    for number, header in enumerate(headers):
        table.add_column(header, justify="right" if number else "left")
    return table


def main() -> None:
    console = Console(width=140)
    headers = [f"{rows} rows @{context}" for context in CONTEXTS for rows in ROWS]
    shares = table_of("partial results over the cache, %", *headers)
    for one in ATTENTION:
        cells = [
            f"{100 * one.share(rows, context, before(context)):.0f} > "
            f"{100 * one.share(rows, context):.0f}"
            for context in CONTEXTS
            for rows in ROWS
        ]
        shares.add_row(one.name, *cells)
    launches = table_of("launches of an embedding look-up", "without the kernel", "with it")
    for form in BLOCK_FORMS:
        found = [look_up(form, with_kernel=with_it) for with_it in (False, True)]
        launches.add_row(form, *map(str, found))
    phases = ("plain round", "drafted round", "chunk")
    types = {"bf16": mx.bfloat16, "f16": mx.float16}
    casts = table_of("casts, launches", *(f"{phase} {name}" for phase in phases for name in types))
    for model, config in CONFIGS.items():
        for form in FORMATS:
            try:
                runs = [dry_run(config, form, layers=8, computed=kind) for kind in types.values()]
            except UnsupportedModel:
                break
            cells = [
                f"{run.phases[phase].casts}, {run.phases[phase].launches}"
                if phase in run.phases
                else ""
                for phase in phases
                for run in runs
            ]
            casts.add_row(f"{model}, 8 layers, {form}", *cells)
    console.print(shares, launches, casts, sep="\n\n")


if __name__ == "__main__":
    main()
