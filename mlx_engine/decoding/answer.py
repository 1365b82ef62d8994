"""Answers: read the prompt, run rounds until something ends the answer, report events."""

from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import replace
from functools import partial
from time import perf_counter
from typing import NamedTuple

import mlx.core as mx

from mlx_engine.decoding.config import DecodeConfig, ModelParts, translate_oom
from mlx_engine.decoding.prompt import EMPTY_ANSWER, Prompt, prefill, tokenize_raw_prompt
from mlx_engine.decoding.round import AnswerLimits
from mlx_engine.decoding.scheduler import Lookahead
from mlx_engine.decoding.state import SequenceState
from mlx_engine.drafting.depth import DepthPolicy
from mlx_engine.drafting.sources import Drafting
from mlx_engine.sampling.sampler import Sampler, TokenScores, fresh_seed
from mlx_engine.text.grammar import AnswerGrammar
from mlx_engine.text.streaming_text import AddedText, StreamingText
from mlx_engine.values.conversation import (
    TURN_ENDS,
    Event,
    FinishReason,
    Generation,
    GenerationFinished,
    PromptProgress,
    RoundFinished,
    Settings,
    TextPiece,
    TokenLogprob,
)
from mlx_engine.values.errors import BadPrompt
from mlx_engine.values.options import require
from mlx_engine.values.stats import AnswerTally, RoundStats


class Answer:
    """One answer, which runs once. tokens: of the answer so far, without the end token.

    settings: sampling and draft may change while the answer runs; the seed stays. text: turns
    tokens into text. stopped: called before every round. grammar: constrains the answer. After an
    error that can be retried everything is read again, because the rows written last may have come
    from what failed. If the answer is stopped, or its events are not read to the end, the state
    holds the emitted tokens; after an error the state is empty.
    """

    def __init__(
        self,
        config: DecodeConfig,
        sequence: SequenceState,
        drafting: Drafting,
        prompt: Prompt,
        limits: AnswerLimits,
        text: StreamingText,
        settings: Settings,
        stopped: Callable[[], bool] = lambda: False,
        grammar: AnswerGrammar | None = None,
    ) -> None:
        tokens, seed = prompt.tokens, settings.sampling.seed
        self.tokens = list(prompt.answered)
        self.tally = AnswerTally(fresh_seed() if seed is None else seed, len(tokens))
        self._config = config
        self.sequence = sequence
        self._drafting = drafting
        self._prompt = prompt
        self._limits = limits
        self._text = text
        self._settings = settings
        self._stopped = stopped
        self._grammar = grammar
        self._was_stopped = False
        self._scored: list[TokenLogprob] = []
        self._pending_events: list[TextPiece | RoundFinished] = []
        self._generated = 0
        self._finish: FinishReason | None = None
        self.rounds = self._new_lookahead()
        text.add(prompt.answered)

    def events(self) -> Generator[Event, None, None]:
        """Yield the answer's events as it runs. Raises NumericsError, OutOfMemory."""
        config = self._config
        with (
            translate_oom(),
            config.limits.during_generation(),
            self.sequence.during_answer(),
            config.batch.during_answer(lambda: self.rounds),
        ):
            while self._finish is None:
                try:
                    yield from self._prefill_prompt()
                    yield from self._run_rounds()
                except Exception as error:
                    if not config.can_retry(error):
                        raise
                    self._reread_conversation()
                yield from self._pop_events()
            yield from self._text.finish()

    def finished(self) -> GenerationFinished:
        """Return the answer's last event; to be called when `events` has ended."""
        assert self._finish is not None
        stop = self._text.stop_string
        return GenerationFinished(
            self._finish,
            self.tally.stats(),
            self._text.text,
            self._text.thinking,
            tokens=tuple(self.tokens),
            stop_string=stop if stop in self._settings.generation.stop else "",
            logprobs=tuple(self._scored),
        )

    def _run_rounds(self) -> Iterator[Event]:
        """Run decoding rounds until something ends the answer, and yield their events."""
        try:
            while self._finish is None:
                if self.rounds.has_begun_successor or self._may_begin_next_round():
                    self._run_round()
                    yield from self._pop_events()
        except GeneratorExit:
            self.rounds.roll_back_rounds()
            raise
        self.rounds.roll_back_rounds()
        self.sequence.evaluate()

    def _may_begin_next_round(self) -> bool:
        """Whether the answer may begin another round; if not, sets the reason for its end."""
        if self._must_stop():
            self._finish = "stopped"
        elif not self._free_memory():
            self._finish = "memory-full"
        return self._finish is None

    def _reread_conversation(self) -> None:
        """Empty the caches; prompt and answer so far are read again, and the answer goes on."""
        reset_conversation(self.sequence, self._drafting, self._settings)
        self._prompt = self._prompt._replace(answered=tuple(self.tokens))
        self.rounds = self._new_lookahead()

    def _pop_events(self) -> list[TextPiece | RoundFinished]:
        """Return and clear the events of rounds that have not been yielded yet."""
        said, self._pending_events = self._pending_events, []
        return said

    def _prefill_prompt(self) -> Iterator[PromptProgress]:
        steps = prefill(self.sequence, self._prompt, self._config.chunk, self._must_end)
        while True:
            started = perf_counter()
            progress = next(steps, None)
            head_rows = 0 if progress is None else progress.head_rows
            self.tally.add_prompt_time(perf_counter() - started, head_rows, mx.get_peak_memory())
            if progress is None:
                return
            self.tally.reused_tokens = progress.reused
            yield progress

    def _must_end(self) -> bool:
        """Whether the answer was stopped, or there is no memory to go on."""
        return self._must_stop() or not self._free_memory()

    def _free_memory(self) -> bool:
        """Whether there is memory to go on; if not, first drops tokens of other conversations."""
        most = self._config.batch.most_bytes
        if most and mx.get_active_memory() > most:
            self._config.free_memory()
            return mx.get_active_memory() <= most
        return True

    def _must_stop(self) -> bool:
        """Whether the answer was stopped; once True it stays True."""
        self._was_stopped = self._was_stopped or self._stopped()
        return self._was_stopped

    def _run_round(self) -> None:
        rounds, source = self.rounds, None
        found = rounds.run()
        position, accepted = len(self.sequence.tokens) + 1, len(found.tokens) - 1
        end = self._limits.answer_end(found.tokens, self._generated, position)
        rows, finish = (len(found.tokens), None) if end is None else end
        if found.drafted:
            source = found.choice.by
        tokens = found.tokens[: rows - (finish == "end")]
        added = self._text.add(tokens, accepted, source)
        if tokens and self._text.ended_by_stop:
            rows, finish = added.taken, "stop-string"
        self._generated += rows
        self.tokens += tokens[: added.taken]
        is_followed = rounds.has_begun_successor
        try:
            rounds.commit(found.tokens[:rows], answer_continues=finish is None)
        finally:
            total_s = rounds.ended_at - found.began_at
            accept_s = rounds.ended_at - found.read_at
            if found.idle_s is None:
                host_s = max(0.0, total_s - found.device_s - accept_s)
            else:  # what the device has to do next, it does meanwhile
                host_s, accept_s = found.idle_s, 0.0 if is_followed else accept_s
            stats = RoundStats(
                position=position,
                depth=found.choice.depth,
                drafted=found.drafted,
                accepted=min(accepted, rows),
                emitted=rows,
                draft_ms=found.draft_ms,
                verify_ms=1000 * found.device_s - found.draft_ms,
                host_ms=1000 * host_s,
                why=found.choice.why,
                auto_depth=found.choice.auto,
                accept_ms=1000 * accept_s,
                source=source,
                draft_passes=found.draft_passes,
            )
            self.tally.add(stats, total_s, mx.get_peak_memory())
            logprobs = (
                () if found.scores is None else self._token_logprobs(tokens, added, found.scores)
            )
            self._scored += logprobs
            self._pending_events += [*added.pieces, RoundFinished(stats, logprobs)]
            self._finish = finish
        took_ms, others = 1000 * (found.device_s + host_s + accept_s), found.others
        self._drafting.policy.learn_round(found.choice, found.tried, accepted, took_ms, others)

    def _token_logprobs(
        self, tokens: Sequence[int], added_text: AddedText, scores: TokenScores
    ) -> tuple[TokenLogprob, ...]:
        """Make the log-probabilities of the tokens that a round adds; waits for the device."""
        data, rows = self._text.bytes_of, zip(*(array.tolist() for array in scores), strict=True)
        return tuple(
            TokenLogprob(
                token,
                data(token),
                chosen,
                channel,
                tuple(TokenLogprob(i, data(i), v) for i, v in zip(ids, values, strict=True)),
            )
            for token, channel, (chosen, ids, values) in zip(tokens, added_text.channels, rows)  # noqa: B905
        )

    def _new_lookahead(self) -> Lookahead:
        """Make a Lookahead whose rounds go on after the newest token."""
        return Lookahead(
            self._config.batch,
            self.sequence,
            self._drafting,
            self._settings,
            self._limits,
            self._new_sampler,
            self._prompt.tokens[-1],
            self._generated,
        )

    def _new_sampler(self) -> Sampler:
        """Make a sampler that has counted the tokens of the prompt and the answer so far."""
        sampler = Sampler(
            self._settings.sampling,
            self.sequence.model.vocabulary,
            self.tally.seed,
            self._config.sampling,
            self._config.suppressed,
            self._config.first_suppressed if self._prompt.said is EMPTY_ANSWER else (),
            None if self._grammar is None else self._grammar.reset_copy(),
            self._settings.generation.logprobs,
            self._config.breaking,
        )
        sampler.begin(self._prompt.ids_with_placeholders)
        sampler.commit(mx.array(self.tokens, dtype=mx.int32), len(self.tokens))
        return sampler


def open_answer(
    parts: ModelParts,
    settings: Settings,
    sequence: SequenceState,
    drafting: Drafting,
    prompt: Prompt,
    text: StreamingText,
    stopped: Callable[[], bool] = lambda: False,
    calls: str | None = None,
) -> Answer:
    """Prepare an answer to a prompt that fits the context. Raises OutOfMemory, BadOption.

    calls: grammar of an answer with tool calls.
    """
    began = perf_counter()
    with translate_oom():
        try:
            drafting.begin(sequence, settings.draft)  # may read heads, and try them
        except Exception as error:
            if not parts.can_retry(error):
                raise
            reset_conversation(sequence, drafting, settings)
    waited = perf_counter() - began
    generation = settings.generation
    limits = AnswerLimits(
        end_ids=frozenset() if generation.ignore_eos else parts.tokenizer.end_ids,
        max_tokens=generation.max_tokens,
        context_length=parts.context_length,
    )
    thought, is_thinking = text.thought_markers, prompt.thinking_open
    grammar = parts.grammars.bind_grammar(generation, thought, is_thinking, calls)
    answer = Answer(parts, sequence, drafting, prompt, limits, text, settings, stopped, grammar)
    answer.tally.waited_seconds = waited
    return answer


def reset_conversation(sequence: SequenceState, drafting: Drafting, settings: Settings) -> None:
    """Empty a conversation's caches after an error, and have a new drafter made."""
    sequence.reset_state()
    drafting.forget_drafter()
    drafting.begin(sequence, settings.draft)


def answer_raw_prompt(
    parts: ModelParts,
    settings: Settings,
    prompt: Sequence[int],
    depth_policy: DepthPolicy,
    stopped: Callable[[], bool] = lambda: False,
) -> Answer:
    """Prepare an answer to a raw prompt in a new conversation. Raises OutOfMemory."""
    return open_answer(
        parts,
        settings,
        parts.prompts.new_sequence(cache=settings.cache),
        Drafting(parts.drafting, depth_policy),
        Prompt(tuple(prompt), len(prompt) - 1),
        StreamingText(parts.tokenizer, settings.generation.stop, split_thinking=False),
        stopped,
    )


class _NumberedAnswer(NamedTuple):
    """One of several running answers, with the number of its prompt."""

    number: int
    answer: Answer
    events: Generator[Event, None, None]


def generate_raw_prompts(
    parts: ModelParts,
    settings: Settings,
    prompts: Sequence[str | Sequence[int]],
    new_policy: Callable[[], DepthPolicy],
    stopped: Callable[[int], bool],
) -> list[Generation]:
    """Generate answers to several prompts, as many at once as a pass has rows.

    new_policy: called once per prompt. stopped: asked with the number of a prompt before its every
    round. Raises BadPrompt, BadOption, PromptTooLong.
    """
    require("should_stop", stopped, "a function", callable)
    if isinstance(prompts, str):
        raise BadPrompt("Several prompts are wanted: give a list of texts or of token ids.")
    asked = deque(enumerate([tokenize_raw_prompt(parts, prompt) for prompt in prompts]))
    running: deque[_NumberedAnswer] = deque()
    found: dict[int, Generation] = {}
    try:
        while asked or running:
            while asked and len(running) < parts.batch.most_rows():
                number, prompt = asked.popleft()
                is_stopped = partial(stopped, number)
                answer = answer_raw_prompt(
                    parts, replace(settings), prompt, new_policy(), is_stopped
                )
                running.append(_NumberedAnswer(number, answer, answer.events()))
            current = running.popleft()
            if any(isinstance(event, TURN_ENDS) for event in current.events):
                running.append(current)
            else:
                ended = current.answer.finished()
                tokens = tuple(current.answer.tokens)
                found[current.number] = Generation(ended.text, tokens, ended.stats, ended.reason)
    finally:  # after an error, which keeps them alive: their rows would stay in the passes
        for other in running:
            other.events.close()
    return [found[number] for number in sorted(found)]
