import json
import subprocess
import sys
from dataclasses import astuple
from pathlib import Path

import mlx.core as mx
import pytest
from model_edits import drop_tensors, edit_config, edit_tensors
from tiny_qwen3_5 import write_tiny_qwen3_5

import mlx_engine
from mlx_engine.loading.describe import describe, inspect_model
from mlx_engine.loading.find import locate_model
from mlx_engine.loading.headers import read_headers
from mlx_engine.values.errors import BadModelFile, BadTokenizer
from mlx_engine.values.memory_plan import GROWTH, SUM_ARRAYS
from mlx_engine.values.model_description import CHECKPOINTS
from mlx_engine.values.options import LoadOptions, SamplingOptions

REPOSITORY = Path(__file__).parents[3]
TOY = REPOSITORY.parent / "shared" / "data" / "qwen35" / "hf"


@pytest.mark.skipif(not TOY.is_dir(), reason="the toy checkpoint is not beside the repository")
def test_figures_of_the_toy_checkpoint() -> None:
    """Against sums done by hand from its config: hidden 256, vocabulary 2048, 3 + 1 + 1 layers."""
    d = inspect_model(TOY, TOY)
    embedding = 2048 * 256
    mlp = 3 * 256 * 512
    attention = (2 * 256 + 128 + 128 + 256) * 256
    recurrent = (512 + 256 + 4 + 4 + 256) * 256 + 512 * 4 + 4 + 4
    norms = 4 * 2 * 256 + 2 * 64 + 3 * 64 + 256
    head = 256 * 512 + attention + mlp + 5 * 256 + 2 * 64
    groups = {group.name: (group.tensors, group.parameters, group.nbytes) for group in d.groups}
    assert groups == {
        "embedding": (1, embedding, 2 * embedding),
        "linear attention": (3 * 8, 3 * recurrent, 6 * recurrent),
        "attention": (4, attention, 2 * attention),
        "mlp": (12, 4 * mlp, 8 * mlp),
        "norms": (14, norms, 2 * norms),
        "MTP head": (15, head, 2 * head),
    }
    parameters = embedding + 3 * recurrent + attention + 4 * mlp + norms + head
    assert (d.parameters, d.nbytes) == (parameters, 2 * parameters)
    assert (d.architecture, d.quantisation) == ("qwen3_5", "bfloat16")
    assert (d.layers, d.hidden_size, d.vocabulary, d.context_length) == (4, 256, 2048, 4096)
    assert (d.mtp_heads, d.mtp, d.declined) == (1, None, ())
    assert d.cache_bytes_per_token == 2 * (2 * 2 * 64) * 2
    assert d.state_bytes == 3 * (4 * 64 * 64 * 4 + 3 * 512 * 2)
    plan = d.memory_plan(100)
    assert (plan.weights, plan.states, plan.others) == (d.nbytes, d.state_bytes, 0)
    assert plan.checkpoints == CHECKPOINTS * d.state_bytes
    assert plan.cache == GROWTH * d.cache_bytes_per_token
    on_a_gpu = d.memory_plan(100, gpu_bytes=2**40)
    assert on_a_gpu.states == 2 * d.state_bytes, "a round is begun before the last is read"
    assert on_a_gpu.checkpoints == plan.checkpoints
    assert d.memory_needed(100) == plan.total_bytes == sum(astuple(plan)) - 100


def test_float32_elements_double_the_cache_but_not_the_state(tmp_path: Path) -> None:
    folder = write_tiny_qwen3_5(tmp_path / "m")
    headers = read_headers(locate_model(folder, folder))
    half, full = (describe(headers, LoadOptions(), has_metal=metal) for metal in (True, False))
    assert full.cache_bytes_per_token == 2 * half.cache_bytes_per_token == 2 * (2 * 2 * 2 * 32) * 2
    window = 3 * 3 * (2 * 32 + 64)
    assert (half.state_bytes, full.state_bytes) == (
        3 * 4 * 16 * 16 * 4 + window * 2,
        3 * 4 * 16 * 16 * 4 + window * 4,
    )


@pytest.mark.parametrize("bits", [3, 4, 6, 8])
def test_packed_weights_are_counted_unpacked(tmp_path: Path, bits: int) -> None:
    dense = inspect_model(write_tiny_qwen3_5(tmp_path / "d", tied=False), tmp_path)
    packed = write_tiny_qwen3_5(tmp_path / "p", tied=False, bits=bits)
    d = inspect_model(packed, tmp_path)
    assert d.parameters == dense.parameters
    assert d.quantisation == f"{bits}-bit affine, groups of 32"
    embedding = next(group for group in d.groups if group.name == "embedding")
    assert (embedding.tensors, embedding.parameters) == (1, 300 * 64)
    assert embedding.nbytes == 300 * 64 * bits // 8 + 2 * 300 * 2 * 4
    assert d.nbytes == sum(group.nbytes for group in d.groups)


def test_mixed_packings_are_listed_largest_first(tmp_path: Path) -> None:
    """4 bits in groups of 64 and 8 bits in groups of 32 have equal widths but for the inputs."""
    folder = write_tiny_qwen3_5(tmp_path / "m")
    name = "model.language_model.embed_tokens"
    names = (f"{name}.weight", f"{name}.scales", f"{name}.biases")
    edit_tensors(
        folder, lambda a: a | dict(zip(names, mx.quantize(a[names[0]], 64, 4), strict=True))
    )
    assert inspect_model(folder, tmp_path).quantisation == "float32 + 4-bit affine, groups of 64"


def test_heads_that_cannot_be_used_are_shown_but_not_counted(tmp_path: Path) -> None:
    folder = write_tiny_qwen3_5(tmp_path / "m")
    plain = inspect_model(write_tiny_qwen3_5(tmp_path / "n", heads="none"), tmp_path)
    drop_tensors(folder, "mtp.fc.weight")
    d = inspect_model(folder, tmp_path)
    assert (d.parameters, d.nbytes) == (plain.parameters, plain.nbytes)
    assert (d.mtp_heads, d.cache_bytes_per_token) == (0, plain.cache_bytes_per_token)
    assert "MTP head" in [group.name for group in d.groups]


def test_what_is_skipped_is_listed(tmp_path: Path) -> None:
    folder = write_tiny_qwen3_5(tmp_path / "m")
    vision = {"model.visual.patch.weight": mx.zeros((2, 3)), "lm_head.weight": mx.zeros((300, 64))}
    vision |= {f"{name}.weight": mx.zeros((5,)) for name in ("audio_tower.x", "embed_audio.y")}
    mx.save_safetensors(str(folder / "model-vision.safetensors"), vision)
    d = inspect_model(folder, tmp_path)
    skipped = [group for group in d.groups if group.name == "skipped"]
    assert [(group.tensors, group.nbytes, group.words) for group in skipped] == [
        (1, 4 * 300 * 64, "not loaded: a copy of the embedding"),
        (1, 24, "not loaded: for pictures, which are not read"),
        (2, 4 * 10, "not loaded: for sound, which is not read"),
    ]
    assert d.nbytes == sum(group.nbytes for group in d.groups if not group.why_not)


@pytest.mark.parametrize(
    ("config", "wanted"),
    [
        (None, SamplingOptions()),
        ("{}", SamplingOptions()),
        (
            {"temperature": 0.6, "top_k": 20, "top_p": 0.95, "min_p": 0.1, "do_sample": True},
            SamplingOptions(temperature=0.6, top_k=20, top_p=0.95, min_p=0.1),
        ),
        ({"do_sample": False, "temperature": 0.6}, SamplingOptions(temperature=0.0)),
        ({"repetition_penalty": 1.1, "top_k": None}, SamplingOptions(repetition_penalty=1.1)),
        ({"top_k": -1}, SamplingOptions(top_k=0)),
    ],
)
def test_recommended_sampling(tmp_path: Path, config: object, wanted: SamplingOptions) -> None:
    folder = write_tiny_qwen3_5(tmp_path / "m")
    if config is not None:
        text = config if isinstance(config, str) else json.dumps(config)
        (folder / "generation_config.json").write_text(text)
    d = inspect_model(folder, tmp_path)
    assert (d.sampling, d.declined) == (wanted, ())


@pytest.mark.parametrize(
    "config",
    ["{", "[]", '{"temperature": "hot"}', '{"top_p": 7}', '{"top_k": NaN}', '{"min_p": true}'],
)
def test_bad_advice_is_ignored_with_a_reason(tmp_path: Path, config: str) -> None:
    folder = write_tiny_qwen3_5(tmp_path / "m")
    (folder / "generation_config.json").write_text(config)
    d = inspect_model(folder, tmp_path)
    assert d.sampling == SamplingOptions()
    assert [reason.code for reason in d.declined] == ["bad-generation-config"]
    assert "generation_config.json" in d.declined[0].words


def test_context_is_the_smaller_of_model_and_options(tmp_path: Path) -> None:
    headers = read_headers(locate_model(write_tiny_qwen3_5(tmp_path / "m"), tmp_path))
    assert describe(headers, LoadOptions(context_length=100)).context_length == 100
    assert describe(headers, LoadOptions(context_length=1000)).context_length == 512
    assert describe(headers, LoadOptions(numerics="fast")).numerics == "fast"


def test_a_folder_of_the_hub_cache_has_the_name_of_the_hub(tmp_path: Path) -> None:
    folder = tmp_path / "models--Qwen--Qwen3.5-0.8B" / "snapshots" / "c0ffee"
    assert inspect_model(write_tiny_qwen3_5(folder), tmp_path).name == "Qwen/Qwen3.5-0.8B"
    assert inspect_model(write_tiny_qwen3_5(tmp_path / "x--y"), tmp_path).name == "x--y"


def test_a_folder_that_says_only_the_form_has_the_name_of_the_folder_around_it(
    tmp_path: Path,
) -> None:
    for form in ("hf", "MLX"):
        folder = write_tiny_qwen3_5(tmp_path / "Qwen3.5-0.8B" / form)
        assert inspect_model(folder, tmp_path).name == "Qwen3.5-0.8B"


def test_inspecting_needs_no_mlx(tmp_path: Path) -> None:
    folder = write_tiny_qwen3_5(tmp_path / "m", bits=4)
    program = (
        "import sys; from pathlib import Path; "
        "from mlx_engine.loading.describe import inspect_model; "
        "inspect_model(sys.argv[1], Path()); sys.exit('mlx.core' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program, folder], cwd=REPOSITORY, check=False)
    assert done.returncode == 0


@pytest.mark.skipif(mx.metal.is_available(), reason="what is inspected is then what is loaded")
@pytest.mark.parametrize("dtype", [mx.bfloat16, mx.float32])
@pytest.mark.parametrize("bits", [None, 4])
def test_what_is_told_before_loading_is_told_after(
    tmp_path: Path, dtype: mx.Dtype, bits: int | None
) -> None:
    folder = write_tiny_qwen3_5(tmp_path / "m", dtype=dtype, bits=bits)
    edit_config(folder, dtype=str(dtype).removeprefix("mlx.core."))
    inspected = mlx_engine.inspect(folder)
    engine = mlx_engine.load(folder)
    told, caches = engine.description, engine.parts.model.make_caches()
    here = inspected.with_machine(has_metal=False)
    for context in (1, 500):
        assert told.memory_needed(context) == here.memory_needed(context)
    assert inspected.with_machine(has_metal=True) == inspected
    assert (here.nbytes > inspected.nbytes) == (dtype == mx.bfloat16 or bits is not None)
    engine.parts.model.forward(mx.array([[1]]), caches)
    held = sum(array.nbytes // array.shape[2] for array in caches.layers[3].arrays())
    assert told.cache_bytes_per_token == 2 * held  # the one attention layer, and the head's
    engine.close()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_hidden_layers": 5}, r"the tensor layers\.4\.\S+ is missing"),
        ({"vocab_size": 310}, r"embed_tokens\.weight has the shape \[300, 64\], .* \[310, 64\]"),
        ({"intermediate_size": 64}, r"mlp\.\S+ has the shape"),
    ],
)
def test_tensors_that_a_config_has_no_place_for_are_no_model(
    tmp_path: Path, changes: dict[str, int], message: str
) -> None:
    """What would fail at its load is not described as if it ran."""
    folder = write_tiny_qwen3_5(tmp_path / "m")
    edit_config(folder, **changes)
    with pytest.raises(BadModelFile, match=message):
        inspect_model(folder, folder)


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda file: file.unlink(), "tokenizer.json is missing"),
        (lambda file: file.write_bytes(file.read_bytes()[:-9]), "not JSON"),
        (
            lambda file: file.write_text('{"model": {"type": "Unheard"}}'),
            "is not a tokenizer|the tokenizer fails",
        ),
    ],
)
def test_a_tokenizer_that_does_not_load(tmp_path, spoil, says):
    folder = write_tiny_qwen3_5(tmp_path / "m")
    spoil(folder / "tokenizer.json")
    assert mlx_engine.inspect(folder).layers  # from headers alone
    for attempt in (lambda: mlx_engine.inspect(folder, text=True), lambda: mlx_engine.load(folder)):
        with pytest.raises(BadTokenizer, match=says):
            attempt()


def test_a_processor_takes_room_for_sums_over_groups(tmp_path: Path) -> None:
    """Of the largest product of a layer: two joined matrices of 64 inputs in groups of 32."""
    packed = inspect_model(write_tiny_qwen3_5(tmp_path / "packed", bits=4), tmp_path)
    plain = inspect_model(write_tiny_qwen3_5(tmp_path / "plain"), tmp_path)
    there = packed.with_machine(has_metal=False).work
    assert packed.work.group_sums == plain.with_machine(has_metal=False).work.group_sums == 0
    assert there.group_sums == 2 * 2 * there.widest
    more = there.nbytes(64, 100, 4, is_packed=False) - packed.work.nbytes(
        64, 100, 4, is_packed=False
    )
    assert more == 64 * there.group_sums * 4 * SUM_ARRAYS
