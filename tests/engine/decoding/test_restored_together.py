"""Words do not depend on the cache's past, its company or drafts, in each of its formats."""

import itertools
from dataclasses import replace
from typing import NamedTuple

import pytest
from session_runs import PICKS, tiny_folder
from tiny_eagle3 import TinyEagle, write_tiny_eagle
from tiny_published import WHOLE_GROUPS, publish

import mlx_engine
from mlx_engine import CacheOptions, DraftOptions, LoadOptions, SamplingOptions

BEGINNINGS = [[(7 * n * step + 3) % 250 for n in range(40)] for step in (1, 2, 3)]
WAYS = {"greedy": SamplingOptions(temperature=0), "warm": replace(PICKS, temperature=1.2)}
OFF = DraftOptions(source="none")


class Subject(NamedTuple):
    """A model that begins anew at every answer, and the same with a folder of files; who drafts."""

    fresh: mlx_engine.Engine
    kept: mlx_engine.Engine
    source: str

    def draft(self, depth):
        return DraftOptions(self.source, depth=depth) if depth else OFF


@pytest.fixture(scope="module")
def subjects(tmp_path_factory):
    """Recurrent layers with a head; windows and sinks, and latents of whole groups, each with a
    draft model that reads its layers.
    """
    base = tmp_path_factory.mktemp("subjects")
    folders = {kind: base / kind for kind in ("windowed", "latent")}
    publish("gpt_oss", folders["windowed"])
    publish("deepseek_v3", folders["latent"], changes=WHOLE_GROUPS)
    drafters = {"recurrent": None}
    for kind, folder in folders.items():
        its = mlx_engine.inspect(folder)
        sizes = TinyEagle(its.hidden_size, its.vocabulary, size=32)
        drafters[kind] = write_tiny_eagle(base / f"{kind}-drafter", sizes)
    folders["recurrent"] = tiny_folder(base / "recurrent")
    made = {}
    for kind, folder in folders.items():
        more = {"draft_model": drafters[kind], "check_heads": False}
        never = LoadOptions(prompt_cache_bytes=0, **more)
        files = LoadOptions(prompt_files=base / f"{kind}-read", **more)
        engines = [mlx_engine.load(folder, options=options) for options in (never, files)]
        made[kind] = Subject(*engines, "model" if drafters[kind] else "mtp")
    yield made
    for engine in itertools.chain(*(subject[:2] for subject in made.values())):
        engine.close()


@pytest.mark.parametrize(
    ("kind", "bits"),
    [*itertools.product(["recurrent", "windowed"], [16, 8, 4]), ("latent", 8), ("latent", 4)],
)
def test_restored_or_fresh_alone_or_three_at_once(subjects, kind, bits):
    """Three depths on either engine, greedy or drawn by turns, against a chat that runs alone,
    begins anew and drafts nothing.
    """
    subject, cache = subjects[kind], CacheOptions(bits, bits)
    for draft in (OFF, subject.draft(1)):
        for beginning in BEGINNINGS:
            subject.kept.generate(beginning, 1, WAYS["greedy"], draft, ignore_eos=True, cache=cache)
    prompts = [[*beginning, 8, number, 9] for number, beginning in enumerate(BEGINNINGS)]
    for turn, way in enumerate(WAYS.values()):
        asked = {"max_tokens": 5, "sampling": way, "ignore_eos": True, "cache": cache}
        truth = [subject.fresh.generate(it, draft=OFF, **asked).tokens for it in prompts]
        for number, depth in enumerate((0, 1, 4)):
            engine = subject[(number + turn) % 2]
            more = {**asked, "draft": subject.draft(depth)}
            many = [restored(engine).generate(prompts[0], **more)]
            many += restored(engine).generate_many(prompts, **more)
            assert [its.tokens for its in many] == [truth[0], *truth], (depth, way)
            least = len(BEGINNINGS[0]) - 1 if engine is subject.kept else 0
            assert all(least <= its.stats.reused_tokens <= 2 * least for its in many)


def restored(engine):
    """The engine with nothing in memory, but for files all written."""
    engine.forget_conversations()
    if engine.parts.prompts.files is not None:
        engine.parts.prompts.files.wait()
    return engine
