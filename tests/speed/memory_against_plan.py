"""Peak memory of whole chats against the plan made before the load, a child process for each model.

    python tests/speed/memory_against_plan.py [FOLDER ...]

Without folders: the built-in model, and random ones written here. A line each: what the allocator
of MLX had at most while a conversation of several turns ran, what `memory_plan` told from headers
alone, their ratio, and the most the process had resident, Python and
libraries with it.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "helpers"))

TURNS, ANSWER = 4, 40
GROUND = "The quick brown fox jumps over the lazy dog, and then it sleeps. "


def child(model: str, draft_model: str, context: int, bits: int, head_bits: int) -> None:
    import mlx.core as mx

    import mlx_engine
    from mlx_engine import CacheOptions, DraftOptions, GenerationOptions, SamplingOptions

    path, drafter = (None if name == "-" else name for name in (model, draft_model))
    small = (
        mlx_engine.inspect(drafter).with_machine(has_metal=mx.metal.is_available())
        if drafter
        else None
    )
    told = mlx_engine.inspect(path).with_machine(has_metal=mx.metal.is_available())
    cache = CacheOptions(bits, head_bits)  # type: ignore[arg-type]
    engine = mlx_engine.load(path, draft_model=drafter)
    mx.clear_cache()
    source = "model" if drafter else "mtp" if told.mtp_heads else "none"
    session = engine.session(
        sampling=SamplingOptions(temperature=0.8, seed=1),
        draft=DraftOptions(source, depth=3),  # type: ignore[arg-type]
        generation=GenerationOptions(max_tokens=ANSWER, ignore_eos=True),
        cache=cache,
    )
    words = engine.tokenize(GROUND * 40)
    share = int(40 * (context / TURNS - ANSWER) / len(words))
    peak, tokens = 0, 0
    for _ in range(TURNS):
        for _event in session.send(GROUND * share):
            pass
        stats = session.stats
        peak = max(peak, stats.peak_memory_bytes)
        tokens = stats.prompt_tokens + stats.generated_tokens
    plan = told.memory_plan(tokens, cache, draft=small)
    print(
        json.dumps(
            {"tokens": tokens, "peak": peak, "plan": plan.total_bytes, "rss": most_resident()}
        )
    )


def most_resident() -> int:
    """Bytes of this process at most, Python and libraries with them; 0 where Linux is not asked."""
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    return next((1024 * int(line.split()[1]) for line in lines if line.startswith("VmHWM")), 0)


def written(folder: Path) -> dict[str, tuple[str, str, int, int, int]]:
    """Configurations: model, draft model, context, bits, bits of heads."""
    import mlx.core as mx
    from tiny_gguf import write_tiny_gguf
    from tiny_published import publish
    from tiny_qwen3_5 import write_tiny_qwen3_5

    write_tiny_qwen3_5(folder / "bf16", dtype=mx.bfloat16)
    write_tiny_qwen3_5(folder / "4-bit", bits=4)
    write_tiny_gguf(folder / "m.gguf", form="packed")
    publish("gpt_oss", folder / "windows")
    return {
        "pocket, 16 bits": ("-", "-", 2000, 16, 16),
        "pocket, 8 and 4 bits": ("-", "-", 2000, 8, 4),
        "pocket, 4 bits, 6k": ("-", "-", 6000, 4, 4),
        "pocket drafts for itself": ("-", "-draft", 2000, 16, 16),
        "toy, bfloat16": (str(folder / "bf16"), "-", 400, 16, 16),
        "toy, 4-bit weights": (str(folder / "4-bit"), "-", 400, 16, 16),
        "toy, GGUF": (str(folder / "m.gguf"), "-", 400, 16, 16),
        "toy, windows": (str(folder / "windows"), "-", 400, 8, 16),
    }


def main() -> None:
    if len(sys.argv) == 7 and sys.argv[1] == "child":
        child(sys.argv[2], sys.argv[3], *map(int, sys.argv[4:]))
        return
    with tempfile.TemporaryDirectory() as folder:
        pocket = str(Path(__file__).parents[2] / "assets" / "pocket_model")
        cases = written(Path(folder))
        for given in sys.argv[1:]:
            cases[given] = (given, "-", 2000, 16, 16)
        for name, (model, drafter, *numbers) in cases.items():
            drafts = pocket if drafter == "-draft" else drafter
            words = [sys.executable, __file__, "child", model, drafts, *map(str, numbers)]
            ran = subprocess.run(words, capture_output=True, text=True, check=False)
            if ran.returncode:
                print(f"{name}: {ran.stderr.splitlines()[-1]}")
                continue
            found = json.loads(ran.stdout.splitlines()[-1])
            print(
                f"{name:26} {found['tokens']:6} tokens  peak {found['peak'] / 1e6:8.2f} MB  plan "
                f"{found['plan'] / 1e6:8.2f} MB  {found['peak'] / found['plan']:5.2f}  RSS "
                f"{found['rss'] / 1e6:.0f} MB",
                flush=True,
            )


if __name__ == "__main__":
    main()
