"""Which blocks of a GGUF file are the trunk's and which hold its MTP heads, told by the tensors."""

import re
from collections.abc import Mapping

from mlx_engine.loading.gguf.header import GgufTensor
from mlx_engine.loading.gguf.metadata import GgufMetadata

BLOCK = re.compile(r"blk\.(\d{1,4})\.(.+)")


def main_blocks(tensors: Mapping[str, GgufTensor], metadata: GgufMetadata) -> int:
    """Blocks of the trunk: up to the first with a head's tensors, else what the metadata leave.

    The count of heads may be stale: when blocks are there for all of block_count, all are trunk.
    """
    found = [match for match in map(BLOCK.fullmatch, tensors) if match]
    heads = [int(match[1]) for match in found if match[2].startswith("nextn.")]
    if heads:
        return min(heads)
    total, claimed = metadata.count("block_count"), metadata.count("nextn_predict_layers", 0)
    last = max((int(match[1]) for match in found), default=-1)
    return total if last + 1 == total else max(0, total - claimed)
