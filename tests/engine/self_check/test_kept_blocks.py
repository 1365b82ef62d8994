"""GGUF blocks that kernels read stay as they are: exact values, exact rows, the same words."""

from dataclasses import replace
from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest
from converted_gguf import Storage, convert
from gguf import GGMLQuantizationType as Types
from kept_gguf import HIDDEN, OF_EXPERTS, blocks_of, write_kept_gguf
from kernel_models import every_kernel
from metal_emulator import EmulatorLauncher
from tiny_gguf import write_tiny_gguf_experts
from tiny_published import publish

import mlx_engine
from metal_kernels.choice import ALL_ROWS, NO_KERNELS, Kernels, KernelWork, Verdict
from metal_kernels.tile_product import MOST_ROWS as MOST_OF_BLOCKS
from mlx_engine.drafting.output_head import make_output
from mlx_engine.engine import Engine
from mlx_engine.loading.find import locate_model
from mlx_engine.loading.gguf.part import GgufPart
from mlx_engine.loading.headers import keep_gguf_blocks, read_headers
from mlx_engine.loading.load import LoadedModel, load_model
from mlx_engine.models.matrix import dequantised, dequantised_tiles
from mlx_engine.values.errors import BadModelFile
from mlx_engine.values.options import DraftOptions, LoadOptions, SamplingOptions

OPTIONS = LoadOptions(check_heads=False)
TOKENS = [(7 * n + n * n) % 290 for n in range(MOST_OF_BLOCKS + 8)]


def opened(file: Path, kernels: Kernels = NO_KERNELS) -> LoadedModel:
    model = load_model(file, OPTIONS, file, kernels=kernels)
    model.read_heads()
    return model


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_kept_gguf(tmp_path_factory.mktemp("kept") / "model.gguf", blocks=True)


@pytest.fixture(scope="module")
def kept(file: Path) -> LoadedModel:
    return opened(file, every_kernel(EmulatorLauncher(check=False)))


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> LoadedModel:
    """On the values of the same blocks, in float32."""
    return opened(write_kept_gguf(tmp_path_factory.mktemp("v") / "model.gguf", blocks=False))


def logits(loaded: LoadedModel, *passes: list[int]) -> mx.array:
    its, made = loaded.model, []
    caches = its.make_caches()
    for tokens in passes:
        made.append(its.logits(its.forward(mx.array([tokens]), caches)))
        caches.commit(len(tokens))
    return mx.concatenate(made, axis=1)


@pytest.mark.parametrize("count", [1, 9, 11, len(TOKENS)])
def test_logits_are_those_of_the_values(kept: LoadedModel, plain: LoadedModel, count: int) -> None:
    mine, wanted = (logits(model, TOKENS[:count]) for model in (kept, plain))
    assert mx.abs(wanted).max().item() > 0.5
    # of logits up to 5; another order of sums in one matrix alone moves them by 3e-5
    assert mx.allclose(mine, wanted, rtol=1e-4, atol=2e-4).item()


def test_head_and_embedding_are_those_of_the_values(kept: LoadedModel, plain: LoadedModel) -> None:
    tokens, launcher = mx.array([TOKENS]), kept.kernels.launcher
    assert isinstance(launcher, EmulatorLauncher)
    before = len(launcher.reports)
    mine, wanted = (loaded.model.embed(tokens) for loaded in (kept, plain))
    assert mx.array_equal(mine, wanted).item()
    assert len(launcher.reports) == before + 1  # in one launch
    for count in (3, len(TOKENS)):
        hidden = mx.random.normal((1, count, HIDDEN), key=mx.random.key(1))
        mine, wanted = (
            head.mtp_logits(head.mtp_forward(tokens[:, :count], hidden, head.make_head_caches()))
            for head in (kept.model.heads[0], plain.model.heads[0])
        )
        assert mx.allclose(mine, wanted, rtol=1e-4, atol=1e-4).item()


def test_a_row_is_itself_in_every_pass(kept: LoadedModel) -> None:
    prompt, rows = TOKENS, TOKENS[3:12]
    whole = logits(kept, prompt, rows)
    launcher = kept.kernels.launcher
    assert isinstance(launcher, EmulatorLauncher)
    served = {report.kernel for report in launcher.reports}
    wanted = "matvec_q6_k matvec_q3_k matvec_q2_k matvec_iq2_s matvec_iq2_xs matvec_iq2_xxs "
    wanted += "matvec_add_iq4_nl matvec_add_q6_k gate_up_iq4_xs"  # Q6_K: by heads in another order
    assert {f"few_row_{name}" for name in wanted.split()} <= served
    for cut in (1, 3, 8):
        assert mx.array_equal(logits(kept, prompt, rows[:cut], rows[cut:]), whole).item(), cut


def test_drafting_keeps_the_words(file: Path) -> None:
    engine = Engine(opened(file, every_kernel(EmulatorLauncher(check=False))), OPTIONS)
    sampling = SamplingOptions(temperature=0.8, seed=5)
    texts = [
        engine.generate("ab", 5, sampling, DraftOptions(depth=depth), ignore_eos=True).tokens
        for depth in (0, 2)
    ]
    assert texts[0] == texts[1]
    assert len(set(texts[0])) > 2
    engine.close()


@pytest.mark.parametrize("output", ["4-bit", "frequent"])
def test_cheaper_outputs_are_made_of_blocks(
    kept: LoadedModel, plain: LoadedModel, output: str
) -> None:
    states = mx.random.normal((1, 2, HIDDEN), key=mx.random.key(3))
    options = DraftOptions(output=output, vocabulary=256)
    mine, wanted = (
        make_output(options, head, {1, 2}, lambda: range(60)).logits(head, states)
        for head in (kept.model.heads[0], plain.model.heads[0])
    )
    finite = mx.where(mx.isfinite(wanted), mine - wanted, 0)
    assert mx.abs(finite).max().item() < 0.02 * mx.abs(mx.nan_to_num(wanted, neginf=0)).max().item()


def test_it_is_told(file: Path, kept: LoadedModel) -> None:
    described, looked_at = kept.description, mlx_engine.inspect(file)
    groups = {group.name: group for group in described.groups}
    assert groups["embedding"].storage == "kept as Q6_K blocks (our kernel)"
    assert groups["embedding"].parameters == 300 * HIDDEN
    assert groups["embedding"].nbytes == groups["embedding"].file_nbytes == 300 * 210
    assert "kept as IQ4_XS blocks (our kernel)" in described.quantisation
    assert {reason.code for reason in described.declined} == set()
    assert looked_at.quantisation == described.quantisation
    assert looked_at.without_metal is not None
    assert looked_at.without_metal.nbytes > looked_at.nbytes


def test_bytes_are_those_of_the_file(file: Path, kept: LoadedModel) -> None:
    wanted = blocks_of(Types.Q6_K, (300, HIDDEN), len("token_embd.weight") + 300)
    output = kept.model.heads[0].mtp_output
    assert output is not None
    np.testing.assert_array_equal(np.array(output.matrix.weight), wanted)


def test_the_kernel_serves_every_count_where_stock_cannot_read() -> None:
    kernels = Kernels(EmulatorLauncher(), exact=False, presumed=Verdict())
    assert kernels.row_counts("products", KernelWork("iq4_xs", 256, 256)) == ALL_ROWS


def test_families_without_heads_keep_them_too(tmp_path: Path) -> None:
    """Llama, whose queries and keys have rows in another order in the file."""
    wide = {"hidden_size": HIDDEN, "intermediate_size": HIDDEN, "head_dim": 64}
    folder = publish("llama", tmp_path / "folder", changes=wide).folder
    stored = Storage(lambda name: Types.Q6_K if "attn" in name or "ffn" in name else None)
    file = convert(folder, tmp_path / "m.gguf", storage=stored)
    values = convert(folder, tmp_path / "v.gguf", storage=stored._replace(unpacked=True))
    model, plain = opened(file, every_kernel(EmulatorLauncher(check=False))), opened(values)
    assert "kept as Q6_K blocks (our kernel)" in model.description.quantisation
    assert "rounded" not in model.description.quantisation
    for count in (1, 9):
        mine, wanted = (logits(one, TOKENS[:count]) for one in (model, plain))
        assert mx.allclose(mine, wanted, rtol=1e-4, atol=1e-4).item()


NO_TILES = dict.fromkeys(("prompt-products", "prompt-experts"), "for this test")
"""Without the kernels for many rows."""


@pytest.mark.parametrize(
    ("kind", "off"),
    [(Types.Q6_K, {}), (Types.Q6_K, NO_TILES), (Types.IQ4_XS, {}), (Types.IQ2_S, NO_TILES)],
)
def test_stacks_of_experts_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: Types, off: dict[str, str]
) -> None:
    """Few rows and many by kernels; stock MLX is never handed the values of a whole stack."""
    made = {
        form: write_tiny_gguf_experts(
            tmp_path / f"{form}.gguf",
            "qwen3_5_moe",
            quantised=kind,
            sizes=OF_EXPERTS,
            unpacked=form == "as packed",
        )
        for form in ("packed", "as packed")
    }
    launcher = EmulatorLauncher(check=False)
    model = opened(made["packed"], every_kernel(launcher, off=off))
    plain = opened(made["as packed"])
    groups = {group.name: group for group in model.description.groups}
    assert groups["experts"].storage.startswith(f"kept as {kind.name} blocks")
    assert groups["experts"].file_nbytes == groups["experts"].nbytes
    monkeypatch.setattr("mlx_engine.models.matrix.TILE_VALUES", 2**14)
    for count in (9, 11):
        mine, wanted = (logits(one, TOKENS[:count]) for one in (model, plain))
        assert mx.allclose(mine, wanted, rtol=1e-4, atol=1e-4).item(), count
    rows = TOKENS[3:9]
    whole, wanted = (logits(one, TOKENS, rows) for one in (model, plain))
    assert mx.allclose(whole, wanted, rtol=1e-4, atol=1e-4).item()
    assert mx.array_equal(logits(model, TOKENS, rows[:1], rows[1:]), whole).item()
    served = {report.kernel.removesuffix(kind.name.lower()) for report in launcher.reports}
    assert served.isdisjoint({"many_row_product_", "many_row_experts_"}) == bool(off)


def test_a_prompt_is_read_in_blocks_or_else_in_tiles(
    file: Path, kept: LoadedModel, plain: LoadedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mlx_engine.models.matrix.TILE_VALUES", 40 * HIDDEN)
    matrix = kept.model.heads[0].mtp_output.matrix
    tiles = list(dequantised_tiles(matrix, mx.float32))
    assert [len(tile) for tile in tiles] == [40] * 7 + [20]
    assert mx.array_equal(mx.concatenate(tiles), dequantised(matrix, mx.float32)).item()
    without = opened(file, every_kernel(EmulatorLauncher(check=False), off=NO_TILES))
    tiled, mine, wanted = (logits(model, TOKENS) for model in (without, kept, plain))
    assert mx.allclose(mine, wanted, rtol=1e-4, atol=1e-4).item()
    assert mx.allclose(tiled, wanted, rtol=1e-4, atol=1e-4).item()


@pytest.mark.parametrize("off", [True, False])
def test_without_the_kernel_values_are_unpacked(file: Path, plain: LoadedModel, off: bool) -> None:
    launcher = EmulatorLauncher(check=False)
    kernels = every_kernel(launcher, off={"products": "it is wrong"}) if off else NO_KERNELS
    model = opened(file, kernels)
    described, told = model.description, {one.code: one for one in model.description.declined}
    assert "kept" not in described.quantisation
    assert "Q6_K, unpacked" in described.quantisation
    assert set(told) >= {f"unpacked-{name}" for name in ("q6-k", "q2-k", "iq2-xs", "iq2-s")}
    assert "has to be unpacked" in told["unpacked-q6-k"].words
    mine, wanted = (logits(one, TOKENS[:9]) for one in (model, plain))
    assert mx.allclose(mine, wanted, rtol=1e-4, atol=1e-4).item()


def test_what_is_changed_and_heads_of_latents_do_not_stay(file: Path) -> None:
    headers, name = read_headers(locate_model(file, file)), "layers.0.mlp.down_proj.weight"
    part = headers.parts.trunk[name]
    assert isinstance(part, GgufPart)
    changed = replace(part.place, change="subtract one")
    latent = "layers.0.self_attn.kv_b_proj.weight"
    for other in (part, replace(part, place=changed), replace(part, name=latent)):
        headers.parts.trunk[name] = other
        kept = keep_gguf_blocks(headers, lambda kind, shape: True).parts.trunk
        assert (f"{name.removesuffix('weight')}scales" not in kept) == (other is part)
        assert (kept[name].dtype == "U8") == (other is part)


def test_a_scale_that_is_no_number_is_refused(tmp_path: Path) -> None:
    file = write_kept_gguf(tmp_path / "model.gguf", blocks=True, bad_scale=True)
    with pytest.raises(BadModelFile, match=r"ffn_down.*not numbers"):
        opened(file, every_kernel(EmulatorLauncher(check=False)))
