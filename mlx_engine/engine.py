"""The engine: a loaded model, sessions with it, raw generation, tokens and logits."""

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from weakref import WeakSet

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from mlx_engine.built_in_model import built_in_model
from mlx_engine.cache.prompt_files import prompt_files
from mlx_engine.decoding.answer import answer_raw_prompt, generate_raw_prompts
from mlx_engine.decoding.config import (
    ModelParts,
    gpu_bytes,
    most_bytes,
    prompt_cache_bytes_of,
    translate_oom,
)
from mlx_engine.decoding.pictures import KEPT_SHARE, MOST_KEPT, PictureEncoder, PictureMemory
from mlx_engine.decoding.prompt import check_prompt_fits, check_token_ids, tokenize_raw_prompt
from mlx_engine.decoding.prompt_cache import PromptCache
from mlx_engine.decoding.scheduler import BatchScheduler, outcome_reader
from mlx_engine.decoding.session import EngineOwner, Session
from mlx_engine.drafting.depth import DepthPolicy
from mlx_engine.drafting.output_head import SharedOutputHeads
from mlx_engine.drafting.record import DraftRecords, PassCosts
from mlx_engine.drafting.sources import DrafterFactory
from mlx_engine.loading.find import HubAccess
from mlx_engine.loading.load import LoadedModel, load_model
from mlx_engine.sampling.sampler import SamplerKernels
from mlx_engine.self_check.between_answers import SelfCheck
from mlx_engine.self_check.kernel_record import KernelRecord, open_kernel_record, rows_origin
from mlx_engine.self_check.kernel_trials import make_kernels, metal_launcher
from mlx_engine.self_check.teacher_forced import (
    TokenLogprobs,
    head_logits,
    hidden_states,
    token_logprobs,
    trunk_logits,
)
from mlx_engine.text.chat_template import PLAIN_STOP, fallback_template
from mlx_engine.text.grammar import GrammarTokens
from mlx_engine.values.conversation import Event, Generation, Settings, Tool
from mlx_engine.values.environment import use_private_temporary_folder
from mlx_engine.values.errors import OutOfMemory, Reason
from mlx_engine.values.memory_plan import MemoryPlan, chunk_rows
from mlx_engine.values.model_description import ModelDescription
from mlx_engine.values.options import (
    UNQUANTISED,
    CacheOptions,
    DraftOptions,
    GenerationOptions,
    LoadOptions,
    SamplingOptions,
    TemplateValue,
    require,
    stop_strings,
)
from mlx_engine.values.picture import Picture

if TYPE_CHECKING:
    from mlx_engine.models.drafters.target import SmallModel


def open_engine(
    path: str | Path | None,
    options: LoadOptions,
    on_progress: Callable[[int, int], None] | None = None,
    stop: Callable[[], bool] | None = None,
    kernel_verdict: Path | None = None,
    on_download: Callable[[int, int], None] | None = None,
) -> "Engine":
    """Load a model and choose kernels and numerics for this machine. Raises EngineError.

    kernel_verdict: the file of verdicts on kernels, None for one in the user's caches.
    """
    use_private_temporary_folder()
    launcher, most = metal_launcher(), most_bytes(options)
    record = None if launcher is None else open_kernel_record(kernel_verdict)
    kernels = make_kernels(launcher, options.numerics, record, options.activations)
    hub, built_in = HubAccess(None, on_download or on_progress, stop), built_in_model()
    loaded = load_model(path, options, built_in, on_progress, stop, kernels, hub, most, gpu_bytes())
    small = None
    if options.draft_model is not None:
        from mlx_engine.loading.draft_model import open_draft_model  # with every kind of drafter

        small = open_draft_model(options.draft_model, options, loaded, hub)
    return Engine(loaded, options, small, record)


class Engine:
    """A loaded model and its sessions.

    Belongs to the thread that made it; only `Session.stop` may be called from other threads.
    """

    def __init__(
        self,
        loaded: LoadedModel,
        options: LoadOptions,
        small_model: "SmallModel | None" = None,
        record: KernelRecord | None = None,
    ) -> None:
        """Make an engine of a loaded model; record: verdicts on kernels, None without kernels."""
        self._owner = EngineOwner()
        self._check = self._owner.check_usable
        self._sessions = WeakSet[Session]()
        self._loaded = loaded
        told, tokenizer = loaded.description, loaded.tokenizer
        self._self_check = SelfCheck(loaded, options, record)
        origin = rows_origin(loaded.kernels)
        cache_bytes = prompt_cache_bytes_of(options, told.nbytes)
        files = prompt_files(options, told.path, lambda: origin(self.description))
        prompts = PromptCache(loaded.model, cache_bytes, files)
        self._parts = ModelParts(
            model=loaded.model,
            tokenizer=tokenizer,
            template=loaded.template or fallback_template(tokenizer.opening_text),
            stop=() if loaded.template else (PLAIN_STOP,),
            context_length=min(options.context_length or told.context_length, told.context_length),
            drafting=DrafterFactory(
                model=loaded.model,
                heads=told.mtp,
                read_heads=self._self_check.use_heads,
                small=small_model,
                outputs=SharedOutputHeads(loaded.model, tokenizer.special_ids, tokenizer.encode),
                go_deep=self._self_check.go_deep,
            ),
            chunk=chunk_rows(told.nbytes, told.active_parameters or told.parameters, gpu_bytes()),
            prompts=prompts,
            grammars=GrammarTokens(tokenizer, loaded.model.vocabulary),
            pictures=PictureEncoder(
                loaded.vision.tower,
                told.vision,
                PictureMemory(
                    told.pictures,
                    most_bytes(options),
                    told.nbytes,
                    min(MOST_KEPT, cache_bytes // KEPT_SHARE),
                    prompts.drop_idle_chats,
                ),
                loaded.read_tower,
            ),
            sampling=SamplerKernels.for_kernels(loaded.kernels, loaded.model.vocabulary),
            suppressed=tokenizer.suppressed_ids,
            breaking=tokenizer.tokens_with,
            first_suppressed=tokenizer.first_suppressed_ids,
            after_answer=self._after_answer,
            can_retry=self._can_retry,
            batch=BatchScheduler(
                self._self_check.most_shared_rows, outcome_reader(), most_bytes(options)
            ),
        )
        self._self_check.update_description()  # the kernels that the layers have asked for
        misfit = small_model.why_not if small_model is not None else None
        self._self_check.description = replace(
            self._self_check.description,
            declined=(*self._self_check.description.declined, *filter(None, (misfit,))),
            context_length=self._parts.context_length,
            can_switch_thinking=self._parts.template.can_switch_thinking,
            template_arguments=self._parts.template.arguments,
        )
        if options.heads is not None:
            self._self_check.use_heads()
        self._draft_records: DraftRecords = {}
        self._generated = self.new_depth_policy()

    @property
    def description(self) -> ModelDescription:
        """Description of the loaded model, with numerics, kernels and what is off now."""
        described = self._self_check.description
        trouble = None if self._owner.is_closed else self.prompt_files_trouble
        if trouble is None:
            return described
        return replace(described, declined=(*described.declined, trouble))

    @property
    def parts(self) -> ModelParts:
        """Model, tokenizer, chat template and all else that an answer needs, for bench/."""
        self._check()
        return self._parts

    @property
    def pass_costs(self) -> PassCosts:
        """Milliseconds of forward passes of 1 to 9 rows and of MTP heads; measured at first use."""
        self._check()
        costs = None
        with self._parts.limits.during_generation():
            while costs is None:
                costs = self._self_check.measure(lambda: False, heads=True)
        return costs

    def measure_costs(self, stop: Callable[[], bool]) -> PassCosts | None:
        """Time the model's forward passes; None where stop(), asked before each, ended it.

        A later call goes on. Kernels that this machine has not tried are tried first, and the
        description is updated. Heads that were not used yet are not loaded: their cost is presumed.
        """
        self._check()
        with self._parts.limits.during_generation():
            return self._self_check.measure(stop)

    def warm_up(self, stop: Callable[[], bool], cache: CacheOptions = UNQUANTISED) -> bool:
        """Compile the Metal kernels that an answer may run, so that none is compiled in an answer.

        For the time before the first question. Loads the MTP heads, tries kernels that this machine
        has not tried, and times passes. cache: bits of the conversations' KV caches. Return whether
        there is no more to do; stop() is asked before every pass, and a later call goes on. Without
        Metal, and where memory is short, nothing is left to do.
        """
        self._check()
        bits = cache if self.description.packed_cache is None else UNQUANTISED
        with suppress(OutOfMemory), self._parts.limits.during_generation():
            return self._self_check.warm_up(stop, bits)
        return True

    def give_way_to(self, is_awaited: Callable[[], bool]) -> None:
        """Make the measurements between answers (up to 0.5 s) end early when other work waits.

        is_awaited: asked before every pass whether other work waits for this thread.
        """
        self._self_check.is_awaited = is_awaited

    def _can_retry(self, error: Exception) -> bool:
        """Whether to retry after an error; conversations at rest in another type are read again."""
        before = self.description.activations
        can_retry = self._self_check.can_retry(error)
        if self.description.activations != before:
            self._parts.prompts.drop_idle_chats()
        return can_retry

    def _after_answer(self) -> None:
        """Check kernels and time passes a while after an answer, and save prompts."""
        if self._owner.is_closed or self._parts.batch.running_answers:
            return
        with suppress(OutOfMemory), translate_oom():  # the answer stands; it is tried again
            with self._parts.limits.during_generation():
                self._self_check.run_a_while()
            self._parts.prompts.save_prompts()

    def session(
        self,
        system: str | None = None,
        sampling: SamplingOptions | None = None,
        draft: DraftOptions | None = None,
        generation: GenerationOptions | None = None,
        thinking: bool | None = None,
        template_arguments: Mapping[str, TemplateValue] | None = None,
        cache: CacheOptions = UNQUANTISED,
        name: str | None = None,
        tools: Sequence[Tool] = (),
    ) -> Session:
        """Begin a conversation; sampling defaults to what the model recommends.

        template_arguments: variables of the chat template by name, such as "preserve_thinking" or
        "reasoning_effort"; the description lists the template's. thinking: sets the variable
        "enable_thinking". name: an id for `PromptFolder.forget`, where LoadOptions.prompt_files
        saves prompts. tools: functions that the model may ask for. Raises BadOption,
        also for a cache that this model cannot have (`description.packed_cache`).
        """
        self._check()
        self._parts.check_cache(cache)
        arguments = dict(template_arguments or {})
        if thinking is not None:
            arguments["enable_thinking"] = thinking
        self._parts.template.check_arguments(arguments)
        settings = Settings(
            sampling=sampling or self.description.sampling,
            draft=draft or DraftOptions(),
            generation=generation or GenerationOptions(),
            system=system,
            template_arguments=arguments,
            cache=cache,
        )
        session = Session(self._parts, settings, self.new_depth_policy(), self._owner, name)
        session.tools = tools
        self._sessions.add(session)
        return session

    def generate(
        self,
        prompt: str | Sequence[int],
        max_tokens: int | None = None,
        sampling: SamplingOptions | None = None,
        draft: DraftOptions | None = None,
        stop: Sequence[str] = (),
        ignore_eos: bool = False,
        should_stop: Callable[[], bool] = lambda: False,
        cache: CacheOptions = UNQUANTISED,
        schema: Mapping[str, Any] | None = None,
        regex: str | None = None,
        grammar: str | None = None,
    ) -> Generation:
        """Continue a raw prompt (text or token ids), without a chat template.

        Text gets the begin token that the tokenizer adds; ids are used as they are. should_stop:
        asked before every round and every chunk of the prompt; where it ends the generation, the
        text so far is returned with finish_reason "stopped". schema, regex, grammar: as in
        GenerationOptions.
        """
        self._check()
        limits = GenerationOptions(
            max_tokens, stop_strings(stop), ignore_eos, schema, regex, grammar
        )
        settings = self._raw_settings(limits, sampling, draft, cache)
        require("should_stop", should_stop, "a function", callable)
        policy, stopped = self._generated, lambda _: should_stop()
        (found,) = generate_raw_prompts(self._parts, settings, [prompt], lambda: policy, stopped)
        self._after_answer()
        return found

    def stream(
        self,
        prompt: str | Sequence[int],
        sampling: SamplingOptions | None = None,
        draft: DraftOptions | None = None,
        generation: GenerationOptions | None = None,
        cache: CacheOptions = UNQUANTISED,
    ) -> Generator[Event, None, None]:
        """Continue a raw prompt as `generate` does; return the events of the continuation.

        Raises BadPrompt, PromptTooLong, BadOption, before anything is read.
        """
        self._check()
        limits = generation or GenerationOptions()
        settings = self._raw_settings(limits, sampling, draft, cache)
        tokens = tokenize_raw_prompt(self._parts, prompt)
        answer = answer_raw_prompt(self._parts, settings, tokens, self.new_depth_policy())

        def events() -> Generator[Event, None, None]:
            yield from answer.events()
            yield answer.finished()
            self._after_answer()

        return events()

    def generate_many(
        self,
        prompts: Sequence[str | Sequence[int]],
        max_tokens: int | None = None,
        sampling: SamplingOptions | None = None,
        draft: DraftOptions | None = None,
        stop: Sequence[str] = (),
        ignore_eos: bool = False,
        should_stop: Callable[[int], bool] = lambda number: False,  # noqa: ARG005
        cache: CacheOptions = UNQUANTISED,
    ) -> list[Generation]:
        """Continue several raw prompts, each as `generate` does, in shared passes.

        As many prompts run at once as rows fit into a pass; the others follow. should_stop: called
        with the number of a prompt. Raises what `generate` raises, for the first that fails.
        """
        self._check()
        limits = GenerationOptions(max_tokens, stop_strings(stop), ignore_eos)
        settings = self._raw_settings(limits, sampling, draft, cache)
        found = generate_raw_prompts(
            self._parts, settings, prompts, self.new_depth_policy, should_stop
        )
        self._after_answer()
        return found

    def _raw_settings(
        self,
        generation: GenerationOptions,
        sampling: SamplingOptions | None,
        draft: DraftOptions | None,
        cache: CacheOptions,
    ) -> Settings:
        self._parts.check_cache(cache)
        return Settings(
            sampling=sampling or self.description.sampling,
            draft=draft or DraftOptions(),
            generation=generation,
            cache=cache,
        )

    def memory_plan(
        self, context: int | None = None, cache: CacheOptions = UNQUANTISED
    ) -> MemoryPlan:
        """Plan the memory of one more chat beside the present conversations. Raises BadOption.

        context: tokens of that chat, None for a full context.
        """
        self._check()
        self._parts.check_cache(cache)
        length = self._parts.context_length
        return self.description.memory_plan(
            length if context is None else min(context, length),
            cache,
            others=self._parts.prompts.nbytes,
            gpu_bytes=gpu_bytes(),
        )

    def tokenize(self, text: str, add_special: bool = False) -> list[int]:
        """Encode text, special tokens included, as token ids. Raises BadPrompt.

        add_special: begin with the tokens (BOS) that the tokenizer opens a text with.
        """
        self._check()
        return self._parts.tokenizer.encode(text, add_special)

    def picture_tokens(self, picture: Picture) -> int:
        """Count the tokens that a picture takes in a prompt. Raises BadPicture, also if blind."""
        self._check()
        return self._parts.pictures.require_tower().token_grid(picture).tokens

    def detokenize(self, tokens: Sequence[int]) -> str:
        """Decode token ids, special tokens included. Raises BadPrompt for unknown ids."""
        self._check()
        return self._parts.tokenizer.decode(check_token_ids(self._parts, tokens), keep_special=True)

    def logits(
        self, tokens: Sequence[int], cache: CacheOptions = UNQUANTISED
    ) -> NDArray[np.float32]:
        """Compute the model's teacher-forced logits [T, V]; row t scores token t+1.

        Raises BadPrompt, BadOption, OutOfMemory.
        """
        self._check()
        self._parts.check_cache(cache)
        parts, ids = self._parts, check_prompt_fits(self._parts, tokens)
        with translate_oom():
            hidden = hidden_states(parts.model, ids, parts.chunk, cache.bits)
            return trunk_logits(parts.model, hidden)

    def logprobs(
        self, tokens: Sequence[int], top: int = 0, cache: CacheOptions = UNQUANTISED
    ) -> TokenLogprobs:
        """Compute the log-probabilities of a text's tokens, and of the `top` likeliest at each.

        Raises BadPrompt, BadOption, OutOfMemory.
        """
        self._check()
        self._parts.check_cache(cache)
        require("top", top, "0 to 20", lambda count: 0 <= count <= 20)
        parts, ids = self._parts, check_prompt_fits(self._parts, tokens)
        with translate_oom():
            hidden = hidden_states(parts.model, ids, parts.chunk, cache.bits)
            return token_logprobs(parts.model, ids, hidden, top)

    def draft_logits(
        self, tokens: Sequence[int], cache: CacheOptions = UNQUANTISED
    ) -> NDArray[np.float32]:
        """Compute MTP heads' logits [heads, T-1, V]; row t of head h scores token t+2+h.

        For head h tokens t+2 to t+1+h count as drafted (teacher_forced.py); the last h rows lack
        such tokens and are NaN. Raises BadPrompt, BadOption, OutOfMemory.
        """
        self._check()
        self._parts.check_cache(cache)
        parts, ids = self._parts, check_prompt_fits(self._parts, tokens)
        if parts.model.heads:
            self._loaded.read_heads()
        with translate_oom():
            hidden = hidden_states(parts.model, ids, parts.chunk, cache.bits)
            return head_logits(parts.model, mx.array(ids), hidden, cache.head_bits)

    @property
    def prompt_files_trouble(self) -> Reason | None:
        """Why a saved prompt could not be used, or the newest not be saved; None for no trouble.

        A thread writes the files, so that trouble shows a little later.
        """
        files = self._parts.prompts.files
        return None if files is None else files.newest_failure

    @property
    def conversations_nbytes(self) -> int:
        """Bytes of all conversations: caches, checkpoints, states of drafters, encoded pictures."""
        self._check()
        return self._parts.prompts.nbytes + self._parts.pictures.nbytes

    def forget_conversations(self) -> None:
        """Free the memory of all conversations except running answers.

        Messages stay, and are read again when a conversation goes on.
        """
        self._check()
        self._parts.free_memory()
        mx.clear_cache()

    def __enter__(self) -> Self:
        """Return the engine, which is closed at the end of the `with` block."""
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def close(self) -> None:
        """Free the model; later calls raise EngineMisuse. A second call has no effect.

        Waits a few seconds for prompts that are being saved.
        """
        if self._owner.is_closed:
            return
        self._check()
        with suppress(OutOfMemory, RuntimeError), translate_oom():  # closing never fails
            self._parts.prompts.close()
        self._owner.is_closed = True
        for session in self._sessions:
            session.drop_model()
        self._self_check.drop_model()
        del self._loaded, self._parts, self._generated
        mx.synchronize()  # so that what the device still reads is freed, too
        mx.clear_cache()

    def new_depth_policy(self) -> DepthPolicy:
        """Make a policy that chooses draft depths, with earlier conversations' measurements."""
        share = self._parts.drafting.draft_model_cost
        return DepthPolicy(self._self_check.current_costs, share, self._draft_records)
