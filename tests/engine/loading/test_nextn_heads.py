"""NextN heads that are dropped, incomplete, another model's, or elsewhere: reasons in words."""

import shutil
from functools import cache

import mlx.core as mx
import pytest
from model_edits import drop_tensors, edit_config, edit_tensors
from tiny_nextn import LAYER, TYPES, publish

import mlx_engine
from mlx_engine.loading.describe import inspect_model
from mlx_engine.loading.load import load_model
from mlx_engine.values.errors import BadModelFile
from mlx_engine.values.options import LoadOptions

HEAD = f"model.layers.{LAYER}."


@pytest.fixture(scope="module")
def originals(tmp_path_factory):
    place = tmp_path_factory.mktemp("heads")
    return cache(lambda name: publish(name, place / name, own=True))


@pytest.fixture
def folder(originals, tmp_path):
    """A copy of one to spoil."""

    def get(name=TYPES[0], place="m"):
        shutil.copytree(originals(name).folder, tmp_path / place)
        return tmp_path / place

    return get


def why(folder, heads=None):
    reason = inspect_model(folder, folder, heads).mtp
    assert reason is not None
    return reason.code, reason.words


@pytest.mark.parametrize("name", [TYPES[0], TYPES[2]])
def test_dropped_heads(folder, name):
    place = folder(name)
    drop_tensors(place, HEAD)
    code, words = why(place)
    assert code == "heads-dropped"
    assert f"this copy of it has none (layer {LAYER} has no eh_proj)" in words
    engine = mlx_engine.load(place)
    assert engine.generate([1, 2, 3], max_tokens=2).tokens
    engine.close()


@pytest.mark.parametrize(
    ("name", "part"),
    [(TYPES[0], "eh_proj"), (TYPES[1], "hnorm"), (TYPES[2], "shared_head.norm"),
     (TYPES[0], "mlp.experts.1.up_proj"), (TYPES[1], "mlp.experts.3.down_proj"),
     (TYPES[2], "mlp.gate.e_score_correction_bias"), (TYPES[0], "self_attn.o_proj")],
)  # fmt: skip
def test_incomplete_heads(folder, name, part):
    place = folder(name)
    drop_tensors(place, f"{HEAD}{part}")
    code, _ = why(place)
    assert code in ("heads-incomplete", "heads-do-not-fit")
    engine = mlx_engine.load(place)
    assert engine.description.mtp_heads == 0
    engine.close()


@pytest.mark.parametrize("name", TYPES[1:])
def test_latents_that_nothing_unpacks(folder, name):
    place = folder(name)
    drop_tensors(place, f"{HEAD}self_attn.kv_b_proj")
    code, words = why(place)
    assert code == "heads-incomplete"
    assert "kv_b_proj" in words


def test_copies_of_the_trunks_may_be_absent(folder):
    place = folder()
    drop_tensors(place, f"{HEAD}embed_tokens")
    drop_tensors(place, f"{HEAD}shared_head.head")
    assert inspect_model(place, place, None).mtp is None


def repeated(arrays):
    return arrays | {
        f"{HEAD}embed_tokens.weight": arrays["model.embed_tokens.weight"],
        f"{HEAD}shared_head.head.weight": arrays["lm_head.weight"],
    }


def changed(arrays):
    """One number of the copy is another."""
    name = f"{HEAD}shared_head.head.weight"
    made = repeated(arrays)
    return made | {name: made[name].at[-1, -1].add(1)}


@pytest.mark.parametrize("change", [repeated, changed])
def test_copies_of_the_trunks_are_not_kept_twice(folder, change):
    place = folder()
    edit_tensors(place, change)
    loaded = load_model(place, LoadOptions(), place)
    whole = loaded.model.vocabulary * loaded.model.hidden_size
    held = [array for array in loaded.head_arrays if array.size == whole]
    assert len(held) == (0 if change is repeated else 1)
    loaded.read_heads()


def test_more_heads_promised_than_present(folder):
    place = folder()
    edit_config(place, num_nextn_predict_layers=3)
    described = inspect_model(place, place, None)
    assert described.mtp_heads == 1
    assert [reason.words for reason in described.declined] == [
        "This model was made with 3 drafting heads; this copy of it has 1."
    ]


def test_further_heads_are_left_out(folder):
    place = folder()
    edit_tensors(
        place,
        lambda arrays: (
            arrays
            | {
                n.replace(HEAD, f"model.layers.{LAYER + 1}."): a
                for n, a in arrays.items()
                if HEAD in n
            }
        ),
    )
    engine = mlx_engine.load(place)
    assert engine.description.mtp_heads == 1
    assert len(engine.draft_logits([1, 2, 3])) == 1
    engine.close()


@pytest.mark.parametrize(
    ("prefix", "number"),
    [("model.layers.{}.", 0), ("model.layers.{}.", 61), ("mtp.layers.{}.", 0), ("mtp.{}.", 0),
     ("", 0)],
)  # fmt: skip
def test_heads_in_a_file_of_their_own(folder, originals, tmp_path, number, prefix):
    """Under whatever layer they are; given by name, they are taken instead of those inside."""
    arrays = mx.load(str(originals(TYPES[0]).folder / "model.safetensors"))
    heads = {n.replace(HEAD, prefix.format(number)): a for n, a in arrays.items() if HEAD in n}
    mx.save_safetensors(str(tmp_path / "heads.safetensors"), heads)
    place = folder()
    drop_tensors(place, HEAD)
    engine = mlx_engine.load(place, heads=tmp_path / "heads.safetensors")
    assert engine.description.mtp_heads == 1
    assert engine.draft_logits([1, 2, 3])[0].shape == (2, engine.description.vocabulary)
    engine.close()


def test_a_whole_model_given_for_its_heads(folder, originals):
    place = folder()
    drop_tensors(place, HEAD)
    assert inspect_model(place, place, originals(TYPES[0]).folder).mtp is None
    code, words = why(place, originals(TYPES[1]).folder)
    assert code == "heads-incomplete"
    assert "self_attn.q_proj" in words


@pytest.mark.parametrize("size", [{"hidden_size": 96}, {"vocab_size": 320}, {"head_dim": 16}])
@pytest.mark.parametrize("where", ["inside", "sibling"])
def test_heads_of_another_model(folder, tmp_path, where, size):
    place = folder()
    other = publish(TYPES[0], tmp_path / "m-MTP", own=True, **size).folder
    foreign = {n: a for n, a in mx.load(str(other / "model.safetensors")).items() if HEAD in n}
    mx.eval(foreign)
    drop_tensors(place, HEAD)
    if where == "inside":
        shutil.rmtree(other)
        edit_tensors(place, lambda arrays: arrays | foreign)
    code, words = why(place)
    assert code == "heads-do-not-fit"
    assert "belong to another model" in words
    mlx_engine.load(place).close()
    if where == "sibling":
        with pytest.raises(BadModelFile, match="another model"):
            mlx_engine.load(place, heads=other)


def test_a_dense_config_over_heads_with_experts(folder):
    """Sizes that are no numbers are refused before anything is read."""
    place = folder()
    edit_config(place, n_routed_experts="many")
    with pytest.raises(BadModelFile, match="n_routed_experts"):
        mlx_engine.load(place)
