"""A model at its published sizes, as on a Mac, from its config alone; nothing is computed.

    PYTHONPATH=.:tests:tests/helpers python tests/speed/dry_run.py CONFIG [--json]

CONFIG is a config.json or its folder. Weights are lazy arrays that are never evaluated, stored as
an MLX folder of four bits or a GGUF stores them. A prompt is read, then follow a plain round, a
round of three drafts, a further chunk of the prompt, and the rows that the check of heads scores.
For each the table says what the GPU would be asked for: launches by kind, casts, copies, sorts,
element types, the largest intermediate array, and matrices unpacked whole.
"""

import argparse
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from math import prod
from pathlib import Path
from time import perf_counter
from typing import Literal, NamedTuple

import mlx.core as mx
import numpy as np
from drafts_again import tell
from lazy_graph import CAST, COPIES, SORTS, Operations, StandIn, operations_of
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from metal_kernels.choice import ALL_ROWS, NO_ROWS, KernelName, Kernels, KernelWork, Verdict
from mlx_engine.cache.attention import AttentionCache
from mlx_engine.cache.compressed import CompressedCache
from mlx_engine.decoding.round import Pass, Round
from mlx_engine.decoding.state import SequenceState
from mlx_engine.drafting.contract import DraftChoice, UnreadRowArrays
from mlx_engine.drafting.drafter import HeadMemory, NoDraft
from mlx_engine.drafting.mtp import MtpDraft
from mlx_engine.loading.folder import read_json_object
from mlx_engine.loading.gguf.header import GgufTensor, block_types
from mlx_engine.loading.gguf.part import HfTensor, arrays_of_tensor, kept_in_blocks
from mlx_engine.models.config_fields import ConfigFields
from mlx_engine.models.decoder import Decoder, build_decoder
from mlx_engine.models.feed_forward_specs import ExpertsSpec
from mlx_engine.models.layer_specs import Shape
from mlx_engine.models.model_spec import ModelSpec
from mlx_engine.models.native_family import NativeFamily
from mlx_engine.models.ngram_spec import EngramSpec
from mlx_engine.models.norm_shift import has_norm_shift
from mlx_engine.models.registry import family_for, text_model_type
from mlx_engine.models.weights import RowTable, WeightTable
from mlx_engine.sampling.sampler import Sampler
from mlx_engine.self_check.kernel_trials import TRIALS
from mlx_engine.values.errors import UnsupportedModel
from mlx_engine.values.memory_plan import LONGEST_CHUNK
from mlx_engine.values.options import DraftOptions, SamplingOptions
from mlx_engine.values.words import size_words

Format = Literal["mlx-4bit", "Q4_K_M", "Q6_K"]
FORMATS: tuple[Format, ...] = ("mlx-4bit", "Q4_K_M", "Q6_K")

PROMPT = 4100
"""Tokens read before: within a step of the caches' growth, so that a round does not grow them."""

CHECKED, DEPTH = 64, 3
SLOWER: tuple[KernelName, ...] = ("experts", "noise")
"""Nothing is timed in a dry run: as on a machine where all other kernels were measured to be faster
than stock MLX.
"""

_DTYPES = {
    "U8": mx.uint8,
    "U32": mx.uint32,
    "F16": mx.float16,
    "BF16": mx.bfloat16,
    "F32": mx.float32,
}


@dataclass(frozen=True, slots=True)
class Phase:
    """One thing a model does.

    launches: of the GPU, views not counted. kinds: the same by name. wide: products of float32 that
    are not expected. largest: the largest array made, in words; largest_bytes: its size. unpacked:
    matrices unpacked whole. build_ms: of Python, with the tracing.
    """

    launches: int
    casts: int
    copies: int
    sorts: int
    kinds: dict[str, int]
    wide: tuple[str, ...]
    largest: str
    largest_bytes: int
    unpacked: tuple[str, ...]
    build_ms: float


@dataclass(frozen=True, slots=True)
class DryRun:
    """told_bytes: what a description says a token costs in the trunk's caches; cached_bytes: what
    the graph writes. cache_bytes: of all caches after PROMPT tokens. hidden: the element type of
    hidden states. phases: by name.
    """

    model_type: str
    format: str
    weight_bytes: int
    hidden: str
    told_bytes: int
    cached_bytes: int
    cache_bytes: int
    phases: dict[str, Phase]


def read_config(path: str | Path) -> Mapping[str, object]:
    """Of a folder, or a config.json itself. Raises EngineError."""
    place = Path(path)
    return read_json_object(place / "config.json" if place.is_dir() else place)


def table_of(runs: Sequence[DryRun]) -> Table:
    """A row for each thing a model does in each format."""
    table = Table(box=None, header_style="dim", pad_edge=False)
    for header in ("format", "weights", "type", "a token's cache", "phase", "launches"):
        table.add_column(header, justify="right" if header == "launches" else "left")
    for header in ("casts", "copies", "sorts", "unpacked", "ms to build", "largest array"):
        table.add_column(header, justify="left" if header == "largest array" else "right")
    for run in runs:
        cells = [run.format, size_words(run.weight_bytes), run.hidden, f"{run.cached_bytes:,} B"]
        if run.cached_bytes != run.told_bytes:
            cells[-1] += f", told {run.told_bytes:,}"
        for name, phase in run.phases.items():
            counts = (phase.launches, phase.casts, phase.copies, phase.sorts, len(phase.unpacked))
            table.add_row(
                *cells,
                name,
                *(f"{count:,}" for count in counts),
                f"{phase.build_ms:.0f}",
                f"{size_words(phase.largest_bytes)}: {phase.largest}",
            )
            cells = [""] * len(cells)
    return table


def dry_run(
    config: Mapping[str, object],
    form: Format,
    *,
    layers: int | None = None,
    computed: mx.Dtype = mx.bfloat16,
) -> DryRun:
    """layers: fewer than the config has, for a quick look. computed: type of activations. Raises
    EngineError.
    """
    fields = ConfigFields(config, "config.json")
    kind = str(text_model_type(config))
    family = family_for(kind, config, "config.json")
    if not isinstance(family, NativeFamily):
        raise UnsupportedModel(
            f"{', '.join(fields.model_types)}: a dry run is for families on our own layers."
        )
    spec = family.spec
    few = spec if layers is None else replace(spec, blocks=spec.blocks[:layers])
    return _DryRun(few, form, kind, computed, is_shifted_family=family.norms != "w").report()


class _Model(NamedTuple):
    """Built of inputs of a graph, after PROMPT tokens."""

    decoder: Decoder
    sequence: SequenceState


class _Rows(RowTable):
    """Rows of zeros, whose numbers nobody asks for."""

    def __init__(self, width: int) -> None:
        self._width = width

    def check_shape(self, rows: int, width: int) -> None:
        assert rows > 0
        assert width == self._width

    def gather_rows(self, row_numbers: Callable[[], NDArray[np.int64]], count: int) -> mx.array:
        del row_numbers
        return mx.zeros((count, self._width), mx.bfloat16)


class _TracedPass(Pass):
    """MLX refuses to compute anything while it traces a graph."""

    def _evaluate_async(self, *arrays: mx.array) -> None:
        pass


class _DryRun:
    def __init__(
        self,
        spec: ModelSpec,
        form: Format,
        model_type: str,
        computed: mx.Dtype,
        *,
        is_shifted_family: bool,
    ) -> None:
        self._spec, self._form, self._model_type = spec, form, model_type
        self._computed = computed
        self._stand_in = StandIn()
        slower = {one.name: Verdict(faster=NO_ROWS) for one in TRIALS if one.kernel in SLOWER}
        self._kernels = Kernels(
            self._stand_in,
            stock=self._stand_in,
            verdicts=slower,
            presumed=Verdict(faster=ALL_ROWS),
        )
        self._row_tables = {
            f"layers.{number}.{block.ngrams.prefix}.{block.ngrams.table}": _Rows(
                block.ngrams.table_shape.width
            )
            for number, block in enumerate(spec.blocks)
            if block.ngrams is not None
        }
        ngrams = (block.ngrams for block in spec.blocks)
        classes = (found.classes for found in ngrams if isinstance(found, EngramSpec))
        self._token_classes = max(classes, default=0)
        every = len(spec.blocks) + (len(spec.heads.blocks) if spec.heads else 0)
        present = [f"layers.{n}.{name}" for n in range(every) for name in _PRESENT]
        half = "F16" if computed == mx.float16 else "BF16"
        stored = _Weights(spec, form, self._kernels, half, is_shifted_family=is_shifted_family)
        self._trunk = stored.arrays(spec.tensors(present))
        self._heads = stored.arrays(spec.head_tensors(present))
        self._arrays = [*self._trunk.values(), *self._heads.values()]
        self._dtype, self._cached, self._cache_bytes = mx.float32, 0, 0

    def report(self) -> DryRun:
        phases = {
            "plain round": self._phase(self._round),
            "chunk": self._phase(self._chunk),
            "scored rows": self._phase(self._scored),
        }
        if self._heads:
            phases["drafted round"] = self._phase(lambda model: self._round(model, DEPTH))
        return DryRun(
            model_type=self._model_type,
            format=self._form,
            weight_bytes=sum(array.nbytes for array in self._arrays),
            hidden=str(self._dtype).removeprefix("mlx.core."),
            told_bytes=self._spec.cache.to_cache_bytes(2).per_token(),
            cached_bytes=self._cached,
            cache_bytes=self._cache_bytes,
            phases=phases,
        )

    @cached_property
    def _reading(self) -> Operations:
        """What it takes to read a prompt."""
        return operations_of(
            lambda *given: self._after_prompt(given)[1], self._arrays, self._stand_in
        )

    def _phase(self, do: Callable[[_Model], Sequence[mx.array]]) -> Phase:
        """What `do` adds to reading a prompt."""
        taken_ms, unpacked = 0.0, 0

        def after(*given: mx.array) -> Sequence[mx.array]:
            nonlocal taken_ms, unpacked
            model, outputs = self._after_prompt(given)
            unpacked = len(self._stand_in.unpacked)
            started = perf_counter()
            made = do(model)
            taken_ms = 1000 * (perf_counter() - started)
            return (*outputs, *made)

        new = operations_of(after, self._arrays, self._stand_in).less(self._reading)
        whole = [made for made in self._stand_in.unpacked[unpacked:] if made.is_matrix]
        node, largest = new.largest
        return Phase(
            launches=new.total(),
            casts=new.labelled(CAST),
            copies=new.labelled(*COPIES),
            sorts=new.labelled(*SORTS),
            kinds=new.kinds,
            wide=self._wide(new),
            largest=f"{node.label} {largest.words}",
            largest_bytes=largest.nbytes,
            unpacked=tuple(made.words for made in whole),
            build_ms=taken_ms,
        )

    def _after_prompt(self, given: Sequence[mx.array]) -> tuple[_Model, list[mx.array]]:
        trunk = dict(zip(self._trunk, given, strict=False))
        heads = dict(zip(self._heads, given[len(trunk) :], strict=True))
        tables = [
            WeightTable(
                part,
                "config.json",
                kernels=self._kernels,
                compute_dtype=self._computed,
                row_tables=self._row_tables,
                find_token_classes=lambda: list(range(self._token_classes)),
            )
            for part in (trunk, heads)
        ]
        decoder = build_decoder(self._spec, tables[0], tables[1] if heads else None)
        options = DraftOptions(depth=DEPTH)
        source = MtpDraft(decoder.heads, options) if heads else NoDraft()
        sequence = SequenceState(decoder, source)
        tokens = [0] * PROMPT
        hidden = decoder.forward(mx.array([tokens]), sequence.caches)
        sequence.caches.commit(PROMPT)
        last = [0] * (DEPTH + 1)  # as if a draft had been accepted: rows that the heads read next
        tell(source, mx.array(last), hidden[:, -len(last) :])
        self._dtype = hidden.dtype
        shown = [cache for cache in sequence.caches.layers if isinstance(cache, AttentionCache)]
        rows = [part for cache in shown for part in (*cache.keys_and_values(), *cache.others)]
        rows += [cache.summaries for cache in shown if cache.summaries is not None]
        for cache in sequence.caches.layers:
            if isinstance(cache, CompressedCache):
                rows += cache.entries(cache.entry_count)
        self._cached = round(sum(part.nbytes for part in rows) / PROMPT)
        self._cache_bytes = sequence.caches.nbytes
        ready = (array for table in tables for array in table.taken_arrays)
        return _Model(decoder, sequence), [hidden, *sequence.caches.arrays(), *ready]

    def _round(self, model: _Model, depth: int = 0) -> Sequence[mx.array]:
        """Of a greedy answer, whose tokens a kernel may choose without logits."""
        sequence = model.sequence
        greedy = SamplingOptions(temperature=0)
        sequence.sampler = Sampler(greedy, model.decoder.vocabulary, 1)
        sequence.last = mx.zeros((1,), dtype=mx.int32)
        round_ = Round(sequence, DraftChoice(depth, None), depth)
        _TracedPass([round_])
        sequence.caches.commit(depth + 1)
        outputs = [round_.draft.tokens, round_.rows.picked, round_.rows.hidden]
        return [*outputs, *sequence.caches.arrays(), *sequence.drafter.arrays()]

    def _chunk(self, model: _Model) -> Sequence[mx.array]:
        """Of a prompt, by trunk and heads."""
        decoder, caches = model.decoder, model.sequence.caches
        tokens = mx.zeros((1, LONGEST_CHUNK), mx.int32)
        hidden = decoder.forward(tokens, caches)
        caches.commit(LONGEST_CHUNK)
        made = [hidden, *caches.arrays()]
        for head in decoder.heads:
            memory = HeadMemory(head)
            memory.add_unread_rows(UnreadRowArrays(tokens[0], hidden))
            memory.read_rows()
            made += memory.caches.arrays()
        return made

    def _scored(self, model: _Model) -> Sequence[mx.array]:
        """Logits of so many rows as the check of heads reads, of trunk and first head."""
        decoder = model.decoder
        hidden = mx.zeros((1, CHECKED, decoder.hidden_size), self._dtype)
        made = [decoder.logits(hidden)]
        return [*made, *(head.mtp_logits(hidden) for head in decoder.heads[:1])]

    def _wide(self, found: Operations) -> tuple[str, ...]:
        """Products of float32 but those of routers and logits."""
        counts = {
            block.feed.count for block in self._spec.blocks if isinstance(block.feed, ExpertsSpec)
        }
        expected = {self._spec.vocabulary, *counts}
        wide = Counter[str]()
        for node, count in found.items():
            made = node.outputs[0]
            if (
                node.label in _PRODUCTS
                and made.dtype == mx.float32
                and made.shape[-1] not in expected
            ):
                wide[f"{node.label} {made.words}"] += count
        return tuple(f"{count} x {words}" for words, count in wide.items())


_PRODUCTS = ("Matmul", "AddMM", "QuantizedMatmul", "GatherQMM", "GatherMM", "attention")
_PRESENT = ("self_attn.embed_q.weight", "join.weight")
"""Names that say which form of a tensor is there, and that a head is."""


class _Weights:
    """Arrays of zeros that nobody computes, stored as files of one kind do."""

    def __init__(
        self,
        spec: ModelSpec,
        form: Format,
        kernels: Kernels,
        half: str,
        *,
        is_shifted_family: bool,
    ) -> None:
        self._spec, self._form, self._kernels, self._half = spec, form, kernels, half
        self._types = {kind.name: kind for kind in block_types().values()}
        self._is_shifted = is_shifted_family

    def arrays(self, shapes: Mapping[str, Shape]) -> dict[str, mx.array]:
        """As loading hands them to a table."""
        make = self._folder if self._form == "mlx-4bit" else self._gguf
        return {key: array for name, shape in shapes.items() for key, array in make(name, shape)}

    def _folder(self, name: str, shape: Shape) -> Iterator[tuple[str, mx.array]]:
        """Matrices of 4 bits in groups of 64, the rest in the type that loading gives 16 bits."""
        *lead, inputs = shape
        if not _is_matrix(name, shape) or name.endswith(_ROUTERS) or inputs % 64:
            is_wide = name.endswith(_FLOAT32) or (self._is_shifted and has_norm_shift(name))
            dtype = mx.float32 if is_wide else _DTYPES[self._half]
            yield name, mx.zeros(shape, dtype)
            return
        base = name.removesuffix(".weight")
        yield name, mx.zeros((*lead, inputs // 8), mx.uint32)
        for part in ("scales", "biases"):
            yield f"{base}.{part}", mx.zeros((*lead, inputs // 64), _DTYPES[self._half])

    def _gguf(self, name: str, shape: Shape) -> Iterator[tuple[str, mx.array]]:
        """As llama.cpp's quantisation of that name mixes types."""
        kind = self._types[self._type_of(name, shape)]
        nbytes = prod(shape) // kind.elements * kind.nbytes
        stored = GgufTensor(name, kind, shape, nbytes, Path("model.gguf"), 0)
        parts = {
            part.name: part for part in arrays_of_tensor(stored, HfTensor(name), None, self._half)
        }

        def is_read(form: str, shape: Shape) -> bool:
            what: KernelName = "products" if len(shape) == 2 else "experts"
            return 1 in self._kernels.row_counts(what, KernelWork(form.lower(), *shape[-2:]))

        for key, part in kept_in_blocks(parts, is_read).items():
            yield key, mx.zeros(part.shape, _DTYPES[part.dtype])

    def _type_of(self, name: str, shape: Shape) -> str:
        if not _is_matrix(name, shape) or name.endswith(_ROUTERS):
            return "F32"
        wanted = "Q6_K"
        if self._form == "Q4_K_M" and not self._has_more_bits(name):
            wanted = "Q4_K"
        short = {"Q6_K": "Q8_0", "Q4_K": "Q5_0"}
        return short[wanted] if shape[-1] % 256 else wanted

    def _has_more_bits(self, name: str) -> bool:
        """By llama.cpp's llama-quant.cpp: the output, and values and the last product in some."""
        if name == "lm_head.weight" or (name == "embed_tokens.weight" and self._spec.tied):
            return True
        if not name.endswith(("v_proj.weight", "down_proj.weight")):
            return False
        count, layer = len(self._spec.blocks), int(name.split(".")[1])
        eighth = count // 8
        return layer < eighth or layer >= 7 * eighth or (layer - eighth) % 3 == 2


_ROUTERS = ("mlp.gate.weight", "shared_expert_gate.weight")
_FLOAT32 = ("A_log", "e_score_correction_bias", "mix.weight")


def _is_matrix(name: str, shape: Shape) -> bool:
    is_packed = name.endswith(".weight") and not name.endswith(_FLOAT32)
    return is_packed and len(shape) > 1 and "conv1d" not in name


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("config", type=Path, help="a config.json, or the folder it is in")
    parser.add_argument("--json", action="store_true", help="one JSON line for each format")
    given = parser.parse_args()
    config = read_config(given.config)
    runs = [dry_run(config, form) for form in FORMATS]
    if given.json:
        print("\n".join(json.dumps(asdict(run)) for run in runs))
    else:
        Console(width=160).print(table_of(runs))


if __name__ == "__main__":
    main()
