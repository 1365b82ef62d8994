"""Read a GGUF file and its numbered parts as one set of tensors.

llama.cpp's gguf-split writes `split.no`, `split.count` and `split.tensors.count` into each part,
and the part's number into its file name.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from mlx_engine.hub.weight_files import existing_shards, parse_shard_name
from mlx_engine.loading.gguf.header import GgufHeader, GgufTensor, read_gguf_header
from mlx_engine.values.errors import BadModelFile

Half = Literal["F16", "BF16"]


@dataclass(frozen=True, slots=True)
class GgufFile:
    """Headers of a model in one or several GGUF files.

    path: the file asked for. metadata: of the first file. tensors: headers from all files, by name.
    """

    path: Path
    metadata: Mapping[str, object]
    tensors: Mapping[str, GgufTensor]

    def tensor(self, name: str) -> GgufTensor:
        """Look up a GGUF tensor's header by name. Raises BadModelFile when it is missing."""
        if name not in self.tensors:
            raise BadModelFile(
                "{path}: the tensor {name} is missing. Get the file again.",
                path=self.path,
                name=name,
            )
        return self.tensors[name]

    @property
    def half_type(self) -> Half:
        """The 16-bit type to compute in: "F16" if all matrices of the GGUF have it, else "BF16".

        Other models were most likely trained in bfloat16 and need its range.
        """
        kinds = {tensor.type.name for tensor in self.tensors.values() if len(tensor.shape) > 1}
        return "F16" if "F16" in kinds and kinds <= {"F16", "F32"} else "BF16"


def read_gguf(path: Path) -> GgufFile:
    """Read the headers of a GGUF file and of the other files of a split model.

    Raises BadModelFile for damaged, missing or repeated parts, UnsupportedModel for unsupported
    files.
    """
    opened = read_gguf_header(path)
    count = _metadata_number(opened, "split.count", 1)
    if count <= 1:
        return GgufFile(path, opened.metadata, opened.tensors)
    shard = parse_shard_name(path.name)
    if shard is None or shard.total != count:
        raise BadModelFile(
            "{path}: is one of {count} parts, but is not named so (...-00001-of-{count:05}.gguf), "
            "so the others cannot be found. Give the parts their own names again.",
            path=path,
            count=count,
        )
    names, missing = existing_shards(path.name, lambda name: path.with_name(name).exists())
    if missing is not None:
        raise BadModelFile(
            "{part}: missing, though {name} is one of {count} parts. Download that part too.",
            part=path.with_name(missing),
            name=path.name,
            count=count,
        )
    headers = [
        opened if name == path.name else read_gguf_header(path.with_name(name)) for name in names
    ]
    return GgufFile(path, headers[0].metadata, _join_split_gguf(headers))


def _join_split_gguf(parts: list[GgufHeader]) -> dict[str, GgufTensor]:
    """Join the tensors of all files of a split GGUF. Raises BadModelFile for foreign parts."""
    tensors: dict[str, GgufTensor] = {}
    for place, part in enumerate(parts):
        number, total = (
            _metadata_number(part, "split.no", 0),
            _metadata_number(part, "split.count", 1),
        )
        if (number, total) != (place, len(parts)):
            raise BadModelFile(
                "{path}: says it is part {number} of {total}, its name says part "
                "{place} of {count}. Download it again.",
                path=part.path,
                number=number + 1,
                total=total,
                place=place + 1,
                count=len(parts),
            )
        if twice := next((name for name in part.tensors if name in tensors), None):
            raise BadModelFile(
                "{path}: {name} is also in {file_name}: these parts do "
                "not belong together. Download them again.",
                path=part.path,
                name=twice,
                file_name=tensors[twice].file.name,
            )
        tensors |= part.tensors
    wanted = _metadata_number(parts[0], "split.tensors.count", len(tensors))
    if wanted != len(tensors):
        raise BadModelFile(
            "{path}: its parts hold {found} tensors where {wanted} are promised. Download "
            "them again.",
            path=parts[0].path,
            found=len(tensors),
            wanted=wanted,
        )
    return tensors


def _metadata_number(header: GgufHeader, metadata_key: str, default: int) -> int:
    value = header.metadata.get(metadata_key, default)
    if not isinstance(value, int) or not 0 <= value < 2**31:
        raise BadModelFile(
            "{path}: {key} is {value}, not a count. Download it again.",
            path=header.path,
            key=metadata_key,
            value=ascii(value)[:80],
        )
    return value
