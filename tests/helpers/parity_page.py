"""Writes assets/readme/parity.md: which types and drafters equal which reference, and how nearly.

    PYTHONPATH=.:tests:tests/helpers python tests/helpers/parity_page.py             # all
    PYTHONPATH=.:tests:tests/helpers python tests/helpers/parity_page.py llama gpt2  # some rows

Rows that are not asked for stay as they are on the page, but for types that are no longer ours. A
type of the registry is compared where transformers has a class of it; its heads where
parity_sweep.py writes them (a line of PUBLISHED there), its GGUF where converted_gguf.py does.
"""

import argparse
import json
import re
import sys
import tempfile
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import mlx.core as mx
import numpy as np
import tiny_deepseek4
import tiny_deepseek41
import tiny_ling
import tiny_nextn
import torch
import transformers as hf
from converted_gguf import ARCHITECTURES as CONVERTED
from converted_gguf import convert
from drafter_gguf import convert_assistant, convert_drafter
from gguf_blocks import tensor
from looked_into import Target, opened
from model_edits import all_logits, edit_config, logits
from parity_sweep import (
    QWEN,
    WITH_HEADS,
    Figures,
    Moves,
    Outcome,
    Part,
    moves_of,
    of_head,
    of_text,
    outcome,
    types,
    with_head,
)
from tiny_dflash import write_tiny_dflash
from tiny_eagle3 import write_tiny_eagle
from tiny_gemma4 import drafted, write_pair
from tiny_gguf import write_model, write_tiny_gguf_experts
from tiny_published import ARCHITECTURES as TINY
from tiny_published import sizes_of
from tiny_qwen3_5 import tiny_config
from tiny_stacks import HEADS

import mlx_engine
from mlx_engine.models.registry import FAMILIES
from tests.engine.drafting import test_dflash, test_eagle3, test_gemma4_assistant
from tests.engine.loading.gguf import test_architectures, test_heads, test_hybrid_architectures
from tests.engine.models import (
    test_compressed_attention,
    test_shared_entries,
    test_text_parts,
)

PAGE = Path(__file__).parents[2] / "assets" / "readme" / "parity.md"
NOTHING = "-"
INTRO = """# Parity

Written by `tests/helpers/parity_page.py`: tiny random models in float32, most with options drawn
anew for each seed, against references that share no code with the engine. A cell is the largest
difference of logits over the largest logit and, in brackets, the number of models; `-` is not
compared here. The reference of folders and GGUFs is transformers' class of the type, but for the
types whose last column names PyTorch in float64 or mlx-lm. GGUFs are written as llama.cpp's
converter writes them, with the heads inside. The column of drafters has draft logits of EAGLE-3,
which reads three layers of the model; what each drafter itself yields stands below.
"""
NAMES = ("type", "folder", "GGUF", "heads", "drafters", "heads against")
RENAMED = {
    "qwen3_5": "qwen3_5_text",
    "qwen3_5_moe": "qwen3_5_moe_text",
    "qwen3_8": "qwen3_5_text",
    "qwen3_8_moe": "qwen3_5_moe_text",
    "gemma3": "gemma3_text",
    "gemma4": "gemma4_text",
    "gemma4_unified": "gemma4_unified_text",
    "xverse": "llama",
    "kimi_k2": "deepseek_v3",
    "joyai_llm_flash": "deepseek_v3",
    "youtu_llm": "youtu",
    "minimax": "minimax_m2",
    "mimo_v2": "mimo_v2_flash",
    "step3p7": "step3p5",
    "exaone4_5": "exaone4",
}
"""Types that are written as another one, whose name in config.json is then changed."""
SAVED_OTHERWISE = (
    "deepseek_v4",
    "hy_v4",
    "inkling",
    "inkling_mm_model",
    "longcat_flash",
    "minimax_m3_vl",
)
"""Types that transformers does not save as they are published."""
GGUF_OF = {
    "xverse": "xverse",
    "qwen2_vl": "qwen2vl",
    "qwen3_vl": "qwen3vl",
    "qwen3_vl_moe": "qwen3vlmoe",
    "bailing_moe": "bailingmoe2",
}
"""Types whose architecture of GGUF test_architectures.py writes from another type's folder."""
HEADS_IN_GGUF = {
    *QWEN,
    *test_heads.FAMILIES,
    "bailing_hybrid",
    "bailing_moe_v3",
    "deepseek_v32",
    "glm5_next",
}
"""Types whose heads are written into GGUFs with them."""
FORMS: dict[str, tuple[str, dict[str, object]]] = {
    name: form
    for name, form in (test_architectures.KINDS | test_hybrid_architectures.KINDS).items()
    if name not in test_architectures.AS
}


class Drafts(NamedTuple):
    """A row of the second table: a drafter, the form of its files, worst errors, reference.

    gguf: of its GGUF file, None where llama.cpp's converter does not write one.
    """

    name: str
    form: str
    error: float
    gguf: float | None
    against: str


def written_of(kind: str) -> str:
    """The type that a row's models are written as."""
    return RENAMED.get(kind, kind)


def renamed(part: Part, kind: str) -> Part:
    """The same models with the name of `kind` in their config.json."""

    def figures(written: str, moves: Moves, folder: Path, seed: int) -> Figures:
        made = part(written, moves, folder, seed)
        path = made.folder / "config.json"
        config = json.loads(path.read_text(encoding="utf-8"))
        if str(config["model_type"]).removesuffix("_text") != kind:
            config["model_type"] = kind
            if "text_config" in config:
                config["text_config"]["model_type"] = f"{kind}_text"
            path.write_text(json.dumps(config), encoding="utf-8")
        return made

    return figures


def of_text_part(kind: str, moves: Moves, folder: Path, seed: int) -> Figures:
    """Of the text part of a model that also sees."""
    del moves, seed
    wanted, tokens = test_text_parts.publish(kind, folder), test_text_parts._TOKENS
    size = wanted.shape[1]
    return Figures(wanted, folder, lambda files: logits(files, tokens)[:, :size])


def of_deepseek41(kind: str, moves: Moves, folder: Path, seed: int) -> Figures:
    """Of DeepSeek-V4.1, which mlx-lm runs without n-grams, with them in float64."""
    del kind, moves
    every = list(test_shared_entries.VARIANTS.values())
    tiny = tiny_deepseek41.publish(folder / "m", seed, **every[seed % len(every)])
    return Figures(tiny.logits, tiny.folder, lambda files: logits(files, tiny.tokens))


def of_ling(kind: str, moves: Moves, folder: Path, seed: int) -> Figures:
    """Of Ling 2.0, which transformers runs as GLM-4.5, and its head."""
    del kind, moves, seed
    tiny = tiny_nextn.publish_ling(folder)
    wanted = np.concatenate([tiny.logits, tiny.draft_logits])
    return Figures(wanted, folder, lambda files: with_head(files, tiny.tokens))


def of_deepseek4_gguf(kind: str, moves: Moves, folder: Path, seed: int) -> Figures:
    """Of DeepSeek-V4 in a GGUF, and its head in another."""
    del kind, moves
    tiny = test_compressed_attention.publish_for_gguf(folder / "m", seed)
    trunk = convert(tiny.folder, folder / "trunk.gguf", heads="dropped")
    heads = convert(tiny.folder, folder / "mtp.gguf", heads="only")
    wanted = np.concatenate([tiny.logits, tiny.draft_logits])
    return Figures(wanted, trunk, lambda files: all_logits(files, tiny.tokens, heads))


def of_ring(kind: str, moves: Moves, folder: Path, seed: int) -> Figures:
    """Of Ring linear 2.0, which mlx-lm alone runs."""
    del kind, moves
    tiny = tiny_ling.publish_linear(folder, tiny_ling.RING, seed)
    return Figures(tiny.logits, folder, lambda files: logits(files, tiny.tokens))


def of_gguf(part: Part, architecture: str | None) -> Part:
    """The same models in a GGUF, of another architecture than the usual one if it is given."""

    def figures(written: str, moves: Moves, folder: Path, seed: int) -> Figures:
        made = part(written, moves, folder, seed)
        file = folder / "converted.gguf"
        if written == "qwen3_5_text":
            write_model(file, tiny_config(tied=False), tensor, seed=seed)
        elif written in QWEN:
            write_tiny_gguf_experts(file, written.removesuffix("_text"), seed=seed)
        else:
            kinds = sizes_of(written).get("layer_types", ()) if written in TINY else ()
            if "mamba" in kinds:  # as published, where transformers 5 writes another word
                edit_config(made.folder, layer_types=kinds)
            convert(made.folder, file, architecture=architecture)
        return made._replace(folder=file)

    return figures


def folder_part(kind: str) -> Part | None:
    """What compares folders of a type, heads aside where it can."""
    if kind in test_text_parts.CASES:
        return of_text_part
    if kind == "bailing_moe_linear":
        return of_ring
    if kind == "deepseek_v41":
        return of_deepseek41
    if kind not in SAVED_OTHERWISE and written_of(kind) in types(classes=False):
        return renamed(of_text, kind)
    return head_part(kind)


def head_part(kind: str) -> Part | None:
    """What compares heads of a type."""
    if kind == "bailing_moe":
        return of_ling
    return renamed(of_head, kind) if written_of(kind) in WITH_HEADS else None


def gguf_outcomes(kind: str, count: int) -> list[Outcome]:
    """Of models with the heads inside, or of each form that tests convert of a type without."""
    written, architecture = written_of(kind), GGUF_OF.get(kind)
    if architecture is not None:
        written, changes = test_architectures.KINDS[architecture]
        forms = [changes]
    elif kind not in (written, written.removesuffix("_text")):
        return []
    elif written == "deepseek_v4":
        return [outcome(written, {}, seed, of_deepseek4_gguf) for seed in range(count)]
    elif written in HEADS_IN_GGUF:
        return [outcome(written, {}, seed, of_gguf(of_head, None)) for seed in range(count)]
    else:
        forms = [changes for name, changes in FORMS.values() if name == written]
        forms = forms or [{}] * (written in CONVERTED and written not in WITH_HEADS)
    sizes = sizes_of(written) if written in TINY else {}
    head = {name: sizes[name] for name in ("head_dim",) if name in sizes}  # no field of all configs
    part = of_gguf(of_text, architecture)
    return [outcome(written, head | changes, 0, part) for changes in forms]


def eagle_error(kind: str) -> float | None:
    """Of EAGLE-3's draft logits on a model of this type; None where transformers cannot tell."""
    name = next((name for name in (kind, f"{kind}_text") if name in TINY), None)
    if name is None or sizes_of(name)["hidden_size"] != 64:
        return None
    with tempfile.TemporaryDirectory(prefix="parity-") as place:
        try:
            target = Target(name, Path(place) / "t")
        except AttributeError:  # its layers have other names in transformers' class
            return None
        tiny = replace(test_eagle3.TINY, own_embedding=True)
        drafter = opened(write_tiny_eagle(Path(place) / "d", tiny), target.model)
        found = test_eagle3.found(drafter, target.tokens)
        return test_eagle3.relative(found, test_eagle3.wanted(tiny, target))


def drafters() -> Iterator[Drafts]:
    """Each form of a draft model that tests know."""
    with tempfile.TemporaryDirectory(prefix="parity-") as name:
        place = Path(name)
        llama, qwen = Target("llama", place / "llama"), Target("qwen3", place / "qwen3")
        for form, eagle in test_eagle3.FORMS.items():
            wanted = test_eagle3.wanted(eagle, llama)
            folder = write_tiny_eagle(place / form, eagle)
            test_eagle3.name_layers_by_input(folder, eagle)
            errors = [
                test_eagle3.relative(
                    test_eagle3.found(opened(path, llama.model), llama.tokens), wanted
                )
                for path in (folder, convert_drafter(folder, place / f"{form}.gguf"))
            ]
            yield Drafts("EAGLE-3", form, *errors, "PyTorch, float64")
        names = {
            "dflash": "DFlash",
            "dflash2": "DFlash 2",
            "dspark": "DSpark",
            "lilicorr": "LiLiCorr",
        }
        for form, block in test_dflash.FORMS.items():
            wanted = test_dflash.wanted(block, qwen)
            folder = write_tiny_dflash(place / form, block)
            edit_config(folder, use_sliding_window=True)
            paths = [folder]
            if form not in test_dflash.NOT_CONVERTED:
                paths.append(convert_drafter(folder, place / f"{form}.gguf"))
            drafters = (opened(path, qwen.model) for path in paths)
            errors = [test_dflash.relative(test_dflash.found(d, qwen), wanted) for d in drafters]
            yield Drafts(
                names[block.kind], form, errors[0], *errors[1:] or [None], "PyTorch, float64"
            )
        for form, changes in test_compressed_attention.SPARKS.items():
            spark = tiny_deepseek4.publish_spark(place / form, **changes)
            with mlx_engine.load(spark.folder) as engine:
                found = test_compressed_attention.drafted_block(spark, engine.parts.model)
            error = test_compressed_attention.relative(found.logits, spark.logits)
            yield Drafts("DSpark of DeepSeek-V4", form, error, None, "PyTorch")
        changes = test_shared_entries.VARIANTS[test_shared_entries.FULL]
        later = tiny_deepseek41.publish(place / "staggered", **changes)
        with mlx_engine.load(later.folder) as engine:
            block = test_shared_entries.drafted_block(later, engine.parts.model)
        error = test_compressed_attention.relative(block.logits, later.drafted.logits)
        yield Drafts("DSpark of DeepSeek-V4.1", "staggered stages", error, None, "mlx-lm's layers")
        for form, changes in test_gemma4_assistant.FORMS.items():
            pair = write_pair(place / f"gemma {form}", **changes)
            tokens, after = test_gemma4_assistant.TOKENS, test_gemma4_assistant.AFTER
            with mlx_engine.load(pair.target) as engine:
                wanted, paths = drafted(pair, tokens, after), [pair.assistant]
                if not changes.get("ordered", True):
                    paths.append(convert_assistant(pair.assistant, place / f"{form}.gguf"))
                drafters = [opened(path, engine.parts.model) for path in paths]
                made = [test_gemma4_assistant.found(drafter, tokens) for drafter in drafters]
                errors = [test_gemma4_assistant.relative(found, wanted) for found in made]
            yield Drafts(
                "assistant of Gemma 4", form, errors[0], *errors[1:] or [None], "transformers"
            )


def cell(outcomes: list[Outcome]) -> str:
    """Worst error and number of models, "wrong" where any is; what nobody runs does not count."""
    wrong = [
        found
        for found in outcomes
        if found.what in ("wrong", "crashed") or found.words.startswith("BadModelFile")
    ]
    equal = [found.error for found in outcomes if found.what == "equal"]
    for found in outcomes:
        print("", *found, flush=True) if found.words or found in wrong else None
    if wrong:
        return f"**wrong** in {len(wrong)} of {len(wrong) + len(equal)}"
    return f"{max(equal):.0e} ({len(equal)})" if equal else NOTHING


def against(kind: str) -> str:
    """What the heads of a type are compared with."""
    written = written_of(kind)
    if folder_part(kind) is of_deepseek41:
        return "mlx-lm's class (folder)"
    if head_part(kind) is None:
        return NOTHING
    if written in HEADS:
        return "PyTorch, float64"
    if written == "bailing_moe_v3":
        return "mlx-lm's layers"
    by_model = written in (*tiny_nextn.TYPES, *tiny_nextn.OTHERS, "bailing_moe")
    return "transformers' MtpModel" if by_model else "PyTorch around transformers' layers"


def row_of(kind: str, count: int) -> str:
    """A line of the first table."""
    seeds = range(count)

    def compared(part: Part | None) -> str:
        if part is None:
            return NOTHING
        written, once = written_of(kind), part in (of_ling, of_ring, of_text_part)
        drawn = seeds[:1] if once else seeds
        is_fixed = once or part is of_deepseek41
        moves = [{} if is_fixed else moves_of(written, seed) for seed in drawn]
        return cell([outcome(written, own, n, part) for n, own in zip(drawn, moves, strict=True)])

    error = eagle_error(kind)
    told = NOTHING if error is None else f"{error:.0e}"
    cells = (compared(folder_part(kind)), cell(gguf_outcomes(kind, count)))
    return line(f"`{kind}`", *cells, compared(head_part(kind)), told, against(kind))


def line(*cells: str) -> str:
    """A line of a table in Markdown."""
    return f"| {' | '.join(cells)} |"


def listed(page: str) -> dict[str, str]:
    """Lines of the page's first table by type."""
    return {found[1]: found[0] for found in re.finditer(r"^\| `(\w+)` \|.*$", page, re.MULTILINE)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("types", nargs="*")
    parser.add_argument("--count", type=int, default=5, help="models of a type")
    asked = parser.parse_args()
    warnings.filterwarnings("ignore")
    mx.disable_compile()
    hf.logging.set_verbosity_error()
    hf.logging.disable_progress_bar()
    torch.set_num_threads(1)
    known = listed(PAGE.read_text(encoding="utf-8")) if PAGE.exists() else {}
    for kind in asked.types or FAMILIES:
        known[kind] = row_of(kind, asked.count)
        print(known[kind], flush=True)
    rows = [known.get(kind, line(f"`{kind}`", *[NOTHING] * (len(NAMES) - 1))) for kind in FAMILIES]
    first = [line(*NAMES), line(*["---"] * len(NAMES)), *rows]
    second = [line("drafter", "form", "folder", "GGUF", "against"), line(*["---"] * 5)]
    for name, form, error, packed, reference in drafters():
        in_gguf = NOTHING if packed is None else f"{packed:.0e}"
        second.append(line(name, form, f"{error:.0e}", in_gguf, reference))
    PAGE.write_text("\n".join([INTRO, *first, "", *second, ""]), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
