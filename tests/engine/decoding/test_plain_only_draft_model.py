"""A draft model whose caches keep whole blocks only is refused with a reason; words stay."""

import torch
import transformers as hf
from session_runs import PLAIN, listen, session_of
from tiny_published import VOCABULARY, publish
from tiny_tokenizer import make_tiny_tokenizer

import mlx_engine
from mlx_engine.values.options import DraftOptions, LoadOptions, SamplingOptions

SAME_AGAIN = SamplingOptions(temperature=0, logit_bias={78: 100.0})
"""One token over and over."""


def test_a_draft_model_that_cannot_take_back(tmp_path):
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "state_size": 4, "num_hidden_layers": 2, "conv_kernel": 4}
    small = hf.MambaForCausalLM(hf.MambaConfig(vocab_size=VOCABULARY, **sizes)).float()
    small.save_pretrained(tmp_path / "small")
    make_tiny_tokenizer(tmp_path / "small", VOCABULARY)
    target = publish("llama", tmp_path / "target").folder
    engine = mlx_engine.load(target, options=LoadOptions(draft_model=tmp_path / "small"))
    session = session_of(engine, depth=0, max_tokens=6)
    plain = listen(session, session.send("The fox"))
    session.draft = DraftOptions(source="model", depth=2)
    said = listen(session, session.regenerate())
    assert said.tokens == plain.tokens
    assert {r.drafted for r in said.rounds} == {0}
    why = session.why_not_drafting
    assert why is not None
    assert why.code == "draft-unreadable"
    assert "Use another draft model" in why.words
    session.draft = DraftOptions(source="prompt-lookup+model", depth=2)
    said = listen(session, session.regenerate())
    assert said.tokens == plain.tokens
    assert session.why_not_drafting is None
    fresh = session_of(engine, SAME_AGAIN, depth=0, max_tokens=16)
    fresh.draft = session.draft
    copied = listen(fresh, fresh.send("The fox"))
    assert "prompt-lookup" in {r.source for r in copied.rounds}
    assert {r.why.code for r in copied.rounds if r.why} <= {"draft-unreadable"}
    session.draft = PLAIN
    engine.close()
