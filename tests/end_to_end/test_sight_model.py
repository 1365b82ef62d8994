"""The sight model: answers follow the picture, and drafts with pictures are accepted as without."""

from collections.abc import Iterator
from random import Random
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from session_runs import listen
from sight_scenes import SIGHT, painted, scenes

import mlx_engine
from mlx_engine.cache.attention import shift_positions
from mlx_engine.decoding.prompt import EMPTY_ANSWER, ChatPrompts
from mlx_engine.drafting.contract import ROWS_OF_A_PROMPT, DraftRequest, TargetRows
from mlx_engine.drafting.mtp import MtpDraft, _run_passes
from mlx_engine.engine import Engine
from mlx_engine.sampling.sampler import Sampler
from mlx_engine.values.conversation import Message
from mlx_engine.values.options import DraftOptions, GenerationOptions, SamplingOptions
from mlx_engine.values.picture import read_picture

SHORT = GenerationOptions(max_tokens=40)
LARGEST_BYTES = 3_000_000


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with mlx_engine.load(SIGHT) as opened:
        yield opened


def ask(engine: Engine, text: str, images: list, depth: int = 3, **sampling: Any) -> Any:
    session = engine.session(
        sampling=SamplingOptions(**{"temperature": 0} | sampling),
        draft=DraftOptions(depth=depth),
        generation=SHORT,
    )
    return listen(session, session.send(text, images=images)), session.stats


def test_answers_follow_the_picture_and_drafts_are_accepted_as_without(engine: Engine) -> None:
    draw, asked = Random(5), "What do you see?"
    right, drafted, accepted = [0, 0], [0, 0], [0, 0]
    for _ in range(14):
        scene = scenes.draw_scene(draw)
        image, told = scenes.paint(scene, draw), scenes.described(scene)
        for kind, (text, images) in enumerate(
            ((asked, [image]), (f"A picture shows {told}. {asked}", []))
        ):
            answer, stats = ask(engine, text, images)
            right[kind] += answer.text == f"I see {told}."
            drafted[kind] += stats.drafted
            accepted[kind] += stats.accepted
    assert min(right) >= 12
    with_pictures, without = (a / d for a, d in zip(accepted, drafted, strict=True))
    assert abs(with_pictures - without) <= 0.05
    assert min(with_pictures, without) > 0.7


@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_same_words_with_drafts(engine: Engine, temperature: float) -> None:
    images = [painted(seed) for seed in range(3)]
    for shown in (images[:1], images[1:]):
        plain, fast = (
            ask(engine, "What do you see?", shown, depth, temperature=temperature, seed=5)
            for depth in (0, 4)
        )
        assert fast[0].tokens == plain[0].tokens
        assert fast[1].accepted


def test_a_picture_that_begins_far_before_the_answer_is_read_whole(engine: Engine) -> None:
    """A head reads 256 rows of a prompt, and here 14 more of the second picture."""
    engine.forget_conversations()
    session = engine.session(
        generation=GenerationOptions(max_tokens=1), draft=DraftOptions(depth=1)
    )
    text = "red " * (ROWS_OF_A_PROMPT - 25)
    list(session.send(text, images=[painted(0), painted(1)]))
    (caches,) = session._sequence.drafter.caches
    assert caches.length == ROWS_OF_A_PROMPT + 15


def test_the_folder_stays_small() -> None:
    kept = (p for p in SIGHT.rglob("*") if p.is_file() and "__pycache__" not in p.parts)
    assert sum(p.stat().st_size for p in kept) <= LARGEST_BYTES


def trained() -> Any:
    """The shipped weights in the training code, in float32."""
    from shipped_weights import restore
    from sight import Sight
    from torch import from_numpy

    weights, stored = {}, mx.load(str(SIGHT / "model.safetensors"))
    arrays = {
        name: array if array.dtype == mx.uint32 else array.astype(mx.float32)
        for name, array in stored.items()
    }
    for name, array in arrays.items():
        if name.startswith("vision_tower."):
            value = np.array(array)
            if value.ndim == 5:
                value = value.sum(axis=1).transpose(0, 3, 1, 2).reshape(len(value), -1)
            weights[f"model.visual.{name.removeprefix('vision_tower.')}"] = from_numpy(value)
        elif not name.endswith((".scales", ".biases")):
            inner = name.removeprefix("language_model.")
            inner = inner.replace("model.", "model.language_model.", 1)
            weights[inner] = from_numpy(restore(name, array, arrays))
    sight = Sight(weights["model.language_model.embed_tokens.weight"].shape[0])
    sight.load_state_dict(weights)
    return sight.eval()


def test_the_head_reads_pictures_as_it_was_trained(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Logits of a draft behind two pictures, of which the head reads the second."""
    pocket = SIGHT.parents[1] / "assets" / "pocket_model"
    for folder in (SIGHT, pocket):
        monkeypatch.syspath_prepend(folder / "training")
    import torch
    from sight import cut, place

    images = [painted(seed) for seed in range(2)]
    asked = [Message("user", "What do you see?", images=tuple(map(read_picture, images)))]
    settings = engine.session()._settings
    prompt = ChatPrompts(engine.parts, settings).make_prompt(asked, EMPTY_ANSWER)
    ids, pictures = prompt.ids_with_placeholders, prompt.pictures
    pad, sight = pictures.placeholder_id, trained()
    tokens = torch.tensor([ids])
    with torch.no_grad():
        patches = torch.from_numpy(np.stack([cut(image) for image in images]))
        embedded = sight.embed_all(tokens, patches, pad)
        angles = sight.angles(torch.from_numpy(place(tokens[0].numpy() == pad))[None])
        hidden = sight.model["language_model"].read(embedded, angles)
        start = ids.index(pad) + 40
        unread = torch.full((1, len(ids) - 1, 1), start)
        rows = sight.mtp.chain(embedded[:, 1:], hidden[:, :-1], 1, angles[:, :, :-1], unread)
        wanted = sight.logits(rows[0][0, -1]).numpy()
    model = engine.parts.model
    source = MtpDraft(model.heads, DraftOptions())
    caches = model.make_caches()
    list(pictures.encode(0, len(ids)))
    for begin, end in ((0, start), (start, pictures.end_index), (pictures.end_index, len(ids) - 1)):
        shift_positions(caches, pictures.position_shift(begin))
        source.shift_positions(pictures.position_shift(begin))
        part, shown = mx.array(ids[begin:end]), pictures.embeddings(begin, end)
        made = TargetRows(part, model.forward(part[None], caches, shown), pictures=shown)
        caches.commit(end - begin)
        source.commit(made, end - begin) if begin else source.skip_prompt_rows(made)
    request = DraftRequest(1, mx.array(ids[-1:]), len(ids))
    passes = source.head_passes(
        request, Sampler(SamplingOptions(temperature=0), model.vocabulary, 0)
    )
    found = np.array(_run_passes([next(passes)])[0].logits[0].astype(mx.float32))
    assert np.abs(found - wanted).max() < 1e-5 * np.abs(wanted).max()
