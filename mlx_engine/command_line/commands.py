"""The commands that print and exit: generate, inspect, doctor and bench."""

import json
import threading
from argparse import Namespace
from contextlib import closing
from dataclasses import asdict, replace
from functools import partial
from typing import Any, get_args

from rich.table import Table
from rich.text import Text

from mlx_engine.command_line.conversation import stopped_by_interrupt
from mlx_engine.command_line.options import (
    draft_options,
    given_options,
    sampling_options,
    session_options,
)
from mlx_engine.command_line.runtime import (
    DOWNLOADING,
    Runtime,
    load_model,
    percent_progress,
)
from mlx_engine.command_line.screen import (
    WARNING,
    Screen,
    make_screen,
    status_line,
)
from mlx_engine.values.conversation import Generation, GenerationFinished
from mlx_engine.values.environment import server_key
from mlx_engine.values.errors import BadOption, BadPrompt
from mlx_engine.values.memory_plan import SHORT_CONTEXT
from mlx_engine.values.model_description import ModelDescription, TensorGroup
from mlx_engine.values.options import CacheBits, CacheOptions, SamplingOptions
from mlx_engine.values.untrusted import without_controls
from mlx_engine.values.words import count_words, size_words, token_words

ENDED_AT_ONCE = (
    "The model ended at once: one made for chats often does after a raw prompt. --chat sends the "
    "prompt through its chat template, --ignore-eos goes on."
)


OF_RAW_PROMPTS = ("max_tokens", "stop", "ignore_eos", "schema", "regex", "grammar")
"""Generation options of a raw prompt, which opens no thought and calls no tool."""


def generate(arguments: Namespace, runtime: Runtime) -> int:
    """Run `headstart generate`: print the continuation, or with --chat the answer, to stdout.

    Figures go to stderr. The first Ctrl-C ends the text; the text is printed, then
    KeyboardInterrupt raised.
    """
    session_options(arguments, SamplingOptions())  # raises BadOption before the model is loaded
    screen = make_screen(runtime.stderr, runtime.stderr, is_plain=False)
    prompt = _read_prompt(runtime, screen) if arguments.prompt is None else arguments.prompt
    with closing(load_model(arguments, runtime, screen.show_status)) as engine:
        session = engine.session(**session_options(arguments, engine.description.sampling))
        draft, why_not = session.draft, session.why_not_drafting
        if why_not is not None and draft.source != "none" and draft.depth != 0:
            screen.print_note(why_not.words, WARNING)
        stopped = threading.Event()

        def should_stop() -> None:
            stopped.set()
            session.stop()

        with stopped_by_interrupt(should_stop):
            if arguments.chat:
                *_, last = session.send(prompt)
                assert isinstance(last, GenerationFinished)
                made = Generation(last.text, session.tokens, last.stats, last.reason)
            else:
                limits = asdict(session.generation)
                made = engine.generate(
                    prompt,
                    sampling=session.sampling,
                    draft=draft,
                    should_stop=stopped.is_set,
                    cache=session.cache,
                    **{name: limits[name] for name in OF_RAW_PROMPTS},
                )
        if arguments.json:
            stats = asdict(made.stats) | {"acceptance": made.stats.acceptance}
            report = asdict(made) | {"model": engine.description.name, "stats": stats}
            print(json.dumps(report), file=runtime.stdout)
        else:
            print(made.text, file=runtime.stdout)
            screen.print_note(status_line(made.stats))
        if made.finish_reason == "end" and made.stats.generated_tokens <= 1 and not arguments.chat:
            screen.print_note(ENDED_AT_ONCE, WARNING)
        if stopped.is_set():
            raise KeyboardInterrupt
    return 0


def _read_prompt(runtime: Runtime, screen: Screen) -> str:
    if runtime.stdin.isatty():
        screen.print_note("Type a prompt; Ctrl-D on an empty line ends it.")
    try:
        text = runtime.stdin.read()
    except UnicodeDecodeError as error:
        raise BadPrompt(f"The prompt on stdin is not UTF-8 (byte {error.start}).") from None
    if not text:
        raise BadPrompt("There is no prompt: give --prompt TEXT, or pipe it in.")
    return text


def inspect(arguments: Namespace, runtime: Runtime) -> int:
    """Run `headstart inspect`: print a model's description as tables, or with --json as JSON."""
    screen = make_screen(runtime.stdout, runtime.stderr, is_plain=False)
    fetched = percent_progress(screen.show_status, DOWNLOADING)
    try:
        places = {"heads": arguments.heads, "vision": arguments.vision}
        model = runtime.inspect(arguments.model, **places, on_download=fetched, text=True)
    finally:
        screen.show_status("")
    gpu_bytes = runtime.machine().gpu_bytes or ROOMY
    if arguments.json:
        print(json.dumps(description_report(model, gpu_bytes)), file=runtime.stdout)
    else:
        _print_description(model, gpu_bytes, screen)
    return 0


def serve(arguments: Namespace, runtime: Runtime) -> int:
    """Run `headstart serve` until Ctrl-C or SIGTERM: answer requests over HTTP."""
    from mlx_engine.server.run import ServerOptions
    from mlx_engine.server.run import serve as serve_until_stopped

    draft = draft_options(arguments)
    options = ServerOptions(**given_options(arguments, ServerOptions))
    options = replace(options, key=options.key or server_key())
    screen = make_screen(runtime.stderr, runtime.stderr, is_plain=False)

    def print_address(name: str, address: str) -> None:
        print(f"{name} at {address} (Ctrl-C ends)", file=runtime.stdout, flush=True)

    load = partial(load_model, arguments, runtime, screen.show_status)
    serve_until_stopped(load, options, draft, print_address)
    return 0


ROOMY = 2**50
"""GPU memory that memory plans assume where there is no GPU: enough for any model."""


def description_report(model: ModelDescription, gpu_bytes: int) -> dict[str, Any]:
    """Make the JSON of a model: all fields of ModelDescription, and memory by context length.

    memory_needed: bytes on a GPU of gpu_bytes. memory_plan: the same bytes by use.
    """
    plans = [model.memory_plan(context, gpu_bytes=gpu_bytes) for context in _context_lengths(model)]
    return asdict(model) | {
        "cache_bytes_per_token": model.cache_bytes_per_token,
        "state_bytes": model.state_bytes,
        "memory_needed": {str(plan.context): plan.total_bytes for plan in plans},
        "memory_plan": {str(plan.context): asdict(plan) for plan in plans},
    }


def _context_lengths(model: ModelDescription) -> list[int]:
    return sorted({min(SHORT_CONTEXT, model.context_length), model.context_length})


def _print_description(model: ModelDescription, gpu_bytes: int, screen: Screen) -> None:
    facts = Table(show_header=False, box=None, pad_edge=False)
    facts.add_column(style="dim", no_wrap=True)
    facts.add_column(overflow="fold")
    for name, value in _model_facts(model, gpu_bytes):
        facts.add_row(name, Text(without_controls(value)))
    groups = Table(box=None, pad_edge=False, header_style="dim")
    for header in ("weights", "tensors", "parameters", "size", "stored as"):
        groups.add_column(header, justify="left" if header in ("weights", "stored as") else "right")
    for group in model.groups:
        groups.add_row(
            Text(without_controls(group.name)),
            str(group.tensors),
            count_words(group.parameters),
            _size_text(group),
            Text(without_controls(group.words)),
        )
    screen.answers.print(Text(without_controls(model.name), style="bold"), soft_wrap=True)
    screen.answers.print(facts)
    if model.groups:
        screen.answers.print()
        screen.answers.print(groups)
    for reason in (*((model.mtp,) if model.mtp else ()), *model.declined):
        text = f"Declined ({reason.code}): {reason.words}"
        screen.answers.print(Text(without_controls(text), style=WARNING), soft_wrap=True)


def _size_text(group: TensorGroup) -> str:
    """Words on the size of a model's weights in memory, after that in the file if it differs."""
    size = size_words(group.nbytes)
    if group.file_nbytes in (None, group.nbytes):
        return size
    return f"{size_words(group.file_nbytes or 0)} -> {size}"


def _memory_words(model: ModelDescription, context: int, gpu_bytes: int) -> str:
    """Words on the memory a model needs with Metal, and without Metal where that differs."""
    words = f"{size_words(model.memory_needed(context, gpu_bytes=gpu_bytes))} with Metal"
    if model.without_metal is None:
        return words
    return (
        f"{words}, {size_words(model.with_machine(has_metal=False).memory_needed(context))} without"
    )


def _cache_words(model: ModelDescription) -> str:
    """Bytes of a token's keys and values in 16, 8 and 4 bits, or why only 16 are possible."""
    if model.packed_cache is not None:
        return (
            f"{size_words(model.cache_bytes_per_token)} for each token. {model.packed_cache.words}"
        )
    formats = [CacheOptions(bits, bits) for bits in get_args(CacheBits)]
    sizes = [f"{size_words(model.cache_bytes(bits))} in {bits.bits} bits" for bits in formats]
    return f"{', '.join(sizes)}, for each token"


def _model_facts(model: ModelDescription, gpu_bytes: int) -> list[tuple[str, str]]:
    active, heads = model.active_parameters, f"{model.mtp_heads}"
    for_each = "" if active is None else f", {count_words(active)} for each token"
    heads += "" if model.mtp is None else ", not in use"
    heads += f", from {model.heads_from}" if model.heads_from else ""
    drafters = [("draft model beside", path) for path in model.draft_models]
    memory = [
        (f"memory at {token_words(context)}", _memory_words(model, context, gpu_bytes))
        for context in _context_lengths(model)
    ]
    return [
        ("file", model.path),
        ("architecture", model.architecture),
        ("parameters", f"{count_words(model.parameters)}{for_each}"),
        ("size", f"{size_words(model.nbytes)} with Metal"),
        ("quantisation", model.quantisation),
        ("shape", f"{model.layers} layers, {model.hidden_size} wide"),
        ("vocabulary", f"{model.vocabulary} tokens"),
        ("context", f"{token_words(model.context_length)} tokens"),
        ("MTP heads", heads),
        *drafters,
        ("keys and values", _cache_words(model)),
        *memory,
        ("pictures", model.picture_words or "memory not known"),
    ]


STYLES = {"ok": "green", "warn": "yellow", "fail": "bold red"}


def doctor(arguments: Namespace, runtime: Runtime) -> int:
    """Run `headstart doctor`: print a line a finding, or JSON; return 1 when a check failed."""
    findings = []
    screen = make_screen(runtime.stdout, runtime.stderr, is_plain=False)
    for finding in runtime.examine(arguments.model):
        findings.append(finding)
        if not arguments.json:
            line = Text.assemble(
                (f"{finding.state:<5}", STYLES[finding.state]),
                (f"{finding.name:<20}", "bold"),
                without_controls(finding.words),
            )
            screen.answers.print(line, soft_wrap=True)
    is_ok = all(finding.state != "fail" for finding in findings)
    if arguments.json:
        report = {"ok": is_ok, "checks": [asdict(finding) for finding in findings]}
        print(json.dumps(report), file=runtime.stdout)
    return 0 if is_ok else 1


def bench(arguments: Namespace, runtime: Runtime) -> int:
    """Run `headstart bench`: print tables of figures; return 1 if drafting changed a text.

    With --json one JSON line too; tables then go to stderr. After Ctrl-C the figures so far are
    printed and KeyboardInterrupt raised.
    """
    from mlx_engine.bench.report import BenchPlan, quick_plan
    from mlx_engine.bench.run_bench import bench_progress, run_bench
    from mlx_engine.bench.tables import WIDEST, write_picture

    plan = quick_plan() if arguments.quick else BenchPlan()
    sampling = sampling_options(arguments, plan.sampling)
    plan = replace(plan, **given_options(arguments, BenchPlan), sampling=sampling)
    picture = arguments.svg
    if picture is not None and (picture.is_dir() or not picture.parent.is_dir()):
        raise BadOption(f"--svg {picture} is not possible: name a file in a folder that exists.")
    screen = make_screen(runtime.stdout, runtime.stderr, is_plain=False)
    console = screen.notes if arguments.json else screen.answers
    console.width = max(console.width, WIDEST)
    with closing(load_model(arguments, runtime, screen.show_status)) as engine:
        report = run_bench(
            engine,
            plan,
            heads=arguments.heads,
            show=console.print,
            progress=bench_progress(screen.notes),
        )
    if arguments.json:
        print(report.as_json(), file=runtime.stdout)
    if picture is not None:
        try:
            write_picture(report, picture)
        except OSError as error:
            raise BadOption(f"--svg {picture} cannot be written: {error.strerror}.") from error
    if report.is_interrupted:
        raise KeyboardInterrupt
    return 0 if report.text_difference is None else 1
