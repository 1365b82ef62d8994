"""The training code's trunk and chained head give the reference numbers of a toy checkpoint."""

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

REPO = Path(__file__).parents[2]
TOY = REPO.parent / "shared" / "data" / "qwen35"

torch = pytest.importorskip("torch", reason="the training code needs torch")
pytestmark = pytest.mark.skipif(not TOY.is_dir(), reason="no toy checkpoint beside the repository")


@pytest.fixture(scope="module", autouse=True)
def training_code() -> Iterator[None]:
    folder = str(REPO / "assets" / "pocket_model" / "training")
    sys.path.insert(0, folder)
    yield
    sys.path.remove(folder)


@pytest.fixture(scope="module")
def toy(training_code: None) -> object:
    from model import Config
    from pocket import Pocket
    from safetensors.torch import load_file

    pocket = Pocket(Config(vocab_size=2048, num_hidden_layers=4, rope_theta=1e7))
    weights = load_file(TOY / "hf" / "model.safetensors")
    pocket.load_state_dict({name: weight.float() for name, weight in weights.items()})
    return pocket.eval()


def test_trunk_and_head_match_the_reference(toy: object) -> None:
    reference = np.load(TOY / "ref_torch.npz")
    tokens = torch.from_numpy(reference["tokens"]).long()[None]
    with torch.no_grad():
        hidden = toy.trunk(tokens)
        first = toy.mtp.chain(toy.embed(tokens)[:, 1:], hidden[:, :-1], 1)[0]
        logits, drafted = toy.logits(hidden)[0].numpy(), toy.logits(first)[0].numpy()
    assert np.abs(logits - reference["logits"]).max() < 1e-4
    assert np.abs(drafted - reference["mtp_noz"][1:]).max() < 1e-4


def test_three_chained_drafts_match_the_reference(toy: object) -> None:
    from evaluate import Picker, draft

    reference = np.load(TOY / "ref_torch.npz")
    tokens = reference["tokens"].tolist()
    with torch.no_grad():
        hidden = toy.trunk(torch.tensor([tokens]))
        tokens.append(int(toy.logits(hidden)[0, -1].argmax()))
        guesses = draft(toy, tokens, hidden, Picker(0.0, 0))
        row = torch.tensor([[*tokens, *guesses[:2]]])
        states = torch.cat([hidden, torch.zeros(1, 2, hidden.shape[2])], 1)
        chained = toy.mtp.chain(toy.embed(row)[:, 1:], states, 3)
        # Step j's own draft stands at the j-th of the last three rows.
        logits = torch.stack([toy.logits(chained[j])[0, j - 3] for j in range(3)]).numpy()
    assert guesses == reference["draft_tok_noz"].tolist()
    assert np.abs(logits - reference["draft_noz"]).max() < 1e-4
