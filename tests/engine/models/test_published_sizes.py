"""A dry run tells what published sizes ask of a Mac, and that it is as it should be."""

import json
import resource
from io import StringIO

import mlx.core as mx
import pytest
from lazy_graph import StandIn, operations_of, primitives
from published_configs import CONFIGS
from speed.dry_run import FORMATS, DryRun, dry_run, read_config, table_of

from mlx_engine.values.errors import BadModelFile, UnsupportedModel

# enough for one layer of each kind
LAYERS = {"Gemma-3-27B": 6, "DeepSeek-V3": 4, "MiMo-V2-Flash": 2, "MiMo-7B": 2}
LAYERS |= {"Nemotron-3.5-30B-A3B": 7, "Ling-3.0-flash": 6, "Ling-2.6-flash": 8, "Inkling-Small": 6}
SCANS = {
    "Nemotron-3.5-30B-A3B": "96 x Matmul [1, 8, 8, 128, 64] float32",
    "Ling-2.6-flash": "448 x Matmul [1, 32, 1, 128, 128] float32",
}
"""Products of prompts with recurrent states, which are float32."""
SCORES = {
    "Qwen3.8-Flash-Next": [
        f"{count} x Matmul [{rows}, {blocks}] float32"
        for count, rows, blocks in ((1, 4, 1025), (4, 4, 1026), (1, 8192, 1537))
    ],
    "Hy4-preview": [
        f"{count} x Matmul [1, 2048, {made}] float32" for count, made in ((8, 8), (1, 4))
    ],
    "DeepSeek-V4-Flash": [
        "9 x Matmul [1, 2048, 24] float32",
        "2 x Matmul [1, 64, 4] float32",
    ],
    "GLM-5.3-Flash": ["8 x Matmul [1, 2048, 24] float32"],
    "LongCat-Flash-Chat": ["4 x Matmul [2048, 768] float32"],
    "LongCat-Flash-Lite": ["4 x Matmul [2048, 384] float32"],
    "Inkling-Small": ["4 x Matmul [2048, 258] float32"],
}
"""Scores by which blocks of tokens are selected: in 16 bits many would be equal; weights of
residual streams; and scores of very many experts.
"""
HEADLESS = ("Llama-3.1-8B", "Qwen3-8B", "Qwen3-30B-A3B", "Gemma-3-27B", "gpt-oss-20b")
WITHOUT_GGUF = ("LongCat-Flash-Lite", "Inkling-Small")
EVERY = [
    (name, form)
    for number, name in enumerate(CONFIGS)
    for place, form in enumerate(FORMATS)
    if ((number + place) % 3 if name not in WITHOUT_GGUF else form == "mlx-4bit")
]
"""Each in two of the three formats."""


def few_layers(name: str, form) -> DryRun:
    return dry_run(CONFIGS[name], form, layers=LAYERS.get(name, 4))


@pytest.mark.parametrize(("name", "form"), EVERY)
def test_every_family_computes_in_16_bits_and_writes_what_is_told(name, form):
    run = few_layers(name, form)
    assert run.hidden in ("bfloat16", "float16")
    assert run.cached_bytes == run.told_bytes
    wide = {product for phase in run.phases.values() for product in phase.wide}
    assert wide <= {SCANS.get(name, ""), *SCORES.get(name, ())}
    assert ("drafted round" in run.phases) == (name not in HEADLESS)
    assert all(phase.launches > 0 for phase in run.phases.values())
    layers = LAYERS.get(name, 4)
    plain = run.phases["plain round"]
    streams = 2 * layers + 1 if name == "Hy4-preview" else 0  # weighed in float32
    compressed = layers if name == "DeepSeek-V4-Flash" else 0  # masks of gathered keys
    streams += 3 * compressed
    streams += 2 if name == "GLM-5.3-Flash" else 0  # a layer norm in float32, as GGUF has them
    assert plain.casts <= 2 * layers + 2 + streams  # routers computed in float32, sinks
    assert "Arange" not in plain.kinds
    is_split = name in SCANS or name in ("Ling-3.0-flash", "GLM-5.3-Flash")  # what recurs
    scans = plain.kinds["gated_delta_block"] if is_split else 0
    rotated = plain.kinds.get("rope", 0)  # heads of which a part is rotated
    windows = (
        2 if name == "Qwen3.8-Flash-Next" else 0
    )  # of tokens and of rows that n-grams are made of
    pools = 3 if name == "GLM-5.3-Flash" else 0  # keys beside gates, their tokens, and queries
    if name == "Inkling-Small":  # rows behind those of convolutions, and scored shared experts
        windows = 3 * layers + 2 * (layers - 2)
    assert plain.copies <= rotated + scans + windows + pools + 6 * compressed + 1
    wide_experts = 2048 * 12 * 6144 * 2 if name == "LongCat-Flash-Chat" else 0  # their outputs
    assert run.phases["chunk"].largest_bytes <= max(300e6, wide_experts)  # scores in tiles
    assert not any(phase.unpacked for phase in run.phases.values())


@pytest.mark.parametrize(
    ("name", "layers", "most", "each"),
    [
        ("DeepSeek-V3", 5, 600, 2 * 2),
        ("GLM-4.5-Air", 4, 155, 3),
        ("Qwen3.6-35B-A3B", 4, 195, 4 * 2),
    ],
)
def test_experts_in_blocks_are_one_launch_a_projection(
    name: str, layers: int, most: int, each: int
) -> None:
    """Of a chunk; by experts and tiles a layer with experts was 1,219, 327 and 206 launches.

    each: of gates and ups together, and of downs, which GLM has in other blocks.
    """
    chunk = dry_run(CONFIGS[name], "Q6_K", layers=layers).phases["chunk"]
    assert chunk.launches < most
    assert chunk.kinds["many_row_experts_q6_k"] == each
    assert "GatherMM" not in chunk.kinds


def test_a_model_of_90_gigabytes_takes_no_memory():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    run = dry_run(CONFIGS["DeepSeek-V3"], "mlx-4bit", layers=16)
    assert run.weight_bytes > 9e10
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000  # kB


def test_a_round_unpacks_no_matrix_of_qwen_and_prints_as_a_table(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(dict(CONFIGS["Qwen3.6-27B"])))
    runs = [dry_run(read_config(tmp_path), form, layers=4) for form in FORMATS]
    assert read_config(tmp_path / "config.json") == read_config(tmp_path)
    for run in runs:
        assert not run.phases["plain round"].unpacked
        assert not run.phases["drafted round"].unpacked
        kinds = run.phases["plain round"].kinds
        assert kinds["gated_delta_block"] == 3
        assert kinds["attention_parts_dense"] == 1
        assert sum(kinds.values()) == run.phases["plain round"].launches
    from rich.console import Console

    console = Console(file=StringIO(), width=200)
    console.print(table_of(runs))
    text = console.file.getvalue()
    assert "Q4_K_M" in text
    assert "drafted round" in text


@pytest.mark.parametrize(
    ("name", "most"), [("Qwen3.6-27B", 54), ("Qwen3.6-35B-A3B", 102), ("GLM-4.5-Air", 103)]
)
def test_launches_of_a_plain_round(name, most):
    run = few_layers(name, "mlx-4bit")
    assert run.phases["plain round"].launches <= most
    assert run.phases["plain round"].sorts <= 4
    assert run.phases["chunk"].casts <= 4


def test_nodes_are_counted_until_they_are_computed():
    x = mx.array([1.0, 2.0])
    mx.eval(x)
    y = mx.exp(x) * x
    assert primitives(y) == {"Exp": 1, "Multiply": 1}
    mx.eval(y)
    assert not primitives(y)


def test_what_was_just_made_is_not_copied():
    stand_in = StandIn()

    def build(x):
        made = stand_in.rms_norm(x, None, 1e-6)
        return [
            stand_in.make_contiguous(made.squeeze(0)),
            stand_in.make_contiguous(x.swapaxes(1, 2)),
        ]

    found = operations_of(build, [mx.zeros((1, 3, 64))], stand_in)
    assert found.kinds == {"rms_norm": 1, "contiguous": 1}
    assert found.largest[0].inputs[0].shape in ((1, 3, 64), (1, 64, 3))


def test_what_cannot_be_run_dry_is_told(tmp_path):
    with pytest.raises(UnsupportedModel, match="gptj: a dry run is for"):
        dry_run({"model_type": "gptj"}, "mlx-4bit")
    with pytest.raises(BadModelFile, match="missing"):
        read_config(tmp_path)
