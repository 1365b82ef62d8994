"""Saved prompts: caches of conversations on disk, restored also after a restart.

A prompt is one file that continues the file of a shorter prompt: of keys and values it holds only
the new rows. Where windows and recurrent states are large beside the new rows, no other file
continues it; the next prompt repeats these rows, and the file is removed two prompts later. File
names are hashes of the tokens and of all that rows depend on. The least recently used files are
removed first.

The files contain no text, but the conversation can be recovered from the files and the model.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from threading import Thread
from typing import NamedTuple

import numpy as np

from mlx_engine.cache.contract import WORTH_A_TOKEN, LayerCaches
from mlx_engine.cache.prompt_folder import PromptFolder, SavedPrompt, delete_files
from mlx_engine.cache.prompt_format import (
    UNFIT,
    CacheState,
    FileContents,
    NewFile,
    can_be_saved,
    collect_arrays,
    encode_safetensors,
    fill_caches,
    nbytes,
    read_prompt_file,
    read_unchecked,
)
from mlx_engine.values.errors import Reason
from mlx_engine.values.options import LoadOptions
from mlx_engine.values.words import Words, size_words

FORMAT = "headstart-prompt-4"
LEAST_NEW = 32
"""Tokens that a file must add to the file that it continues."""

SAMPLES, SAMPLE_BYTES = 16, 65536
"""Places of a model's file that `fingerprint` reads, and bytes at each."""


class SavedConversation(NamedTuple):
    """A conversation whose caches are saved to files or restored from them.

    kind: cache formats and drafter, on which the rows depend. tokens: those in the caches. caches:
    the main model's, then the drafter's. chat: the id of the chat, None for a raw prompt.
    """

    kind: str
    tokens: Sequence[int]
    caches: tuple[LayerCaches, ...]
    chat: str | None


class PromptFiles:
    """Saved prompts of one model in a folder.

    model: fingerprint of the model. kernel_provenance: returns by name what else rows depend on
    (kernels, numerics), which may change while the model is in use. No method raises OSError:
    `trouble` says what is wrong. A thread that runs no MLX writes the files; all methods are for
    the engine's thread.
    """

    def __init__(
        self,
        folder: Path,
        model: str,
        most_bytes: int,
        kernel_provenance: Callable[[], Mapping[str, str]] = dict,
    ) -> None:
        self._folder = PromptFolder(folder)
        self._model = model
        self._most_bytes = most_bytes
        self._computed_by = kernel_provenance
        self._unread: Reason | None = None
        self._unwritten: Reason | None = None
        self._writer = Thread()
        try:
            self._folder.make_root_folder()
        except OSError as error:
            self._cannot_write(error)
        self._folder.delete_oldest(most_bytes)

    @property
    def newest_failure(self) -> Reason | None:
        """Why the newest prompt file was not written, or the last one not read; or None."""
        return self._unwritten or self._unread

    @property
    def provenance_tag(self) -> str:
        """Hash of the kernels and numerics that would compute cache rows now."""
        return hashlib.sha256(self._provenance_json.encode()).hexdigest()[:16]

    @property
    def _provenance_json(self) -> str:
        return json.dumps({"format": FORMAT, **self._computed_by()}, sort_keys=True)

    # reading

    def restore(
        self,
        conversation: SavedConversation,
        prompt_tokens: Sequence[int],
        shortest_prefix: int,
        empty_caches: Callable[[], None],
    ) -> CacheState | None:
        """Fill a conversation's caches from files, for the longest saved prefix of `prompt_tokens`.

        Returns the state, or None where no prefix of `shortest_prefix` tokens or more is saved.
        empty_caches: called before filling them. Damaged files are removed.
        """
        self._unread, tag = None, self.provenance_tag
        while True:
            saved = self._saved_prefixes(conversation.kind, prompt_tokens)
            long = [prompt for prompt in saved if prompt.end >= shortest_prefix]
            own = [prompt for prompt in long if prompt.tag == tag]
            others = [prompt for prompt in long if prompt.tag != tag]
            if others and (not own or others[-1].end >= own[-1].end + LEAST_NEW):
                self._unread = _provenance_difference(saved[others[-1]][0], self._provenance_json)
            if not own:
                return None
            try:
                chain = [saved[prompt][0] for prompt in _file_chain(own[-1], saved)]
                files = [read_prompt_file(path) for path in chain]
                empty_caches()
                restored = fill_caches(conversation.caches, files)
            except UNFIT as error:
                empty_caches()
                delete_files(saved[own[-1]])
                self._unread = Reason(
                    "prompt-file-damaged",
                    Words(
                        "A file of what was read of chats was of no use and is removed: {error}. "
                        "The text is read again.",
                        error=str(error),
                    ),
                )
            else:
                self._folder.mark_used(chain, conversation.chat)
                return restored

    # writing

    @property
    def is_writing(self) -> bool:
        """Whether a thread is writing prompt files; `save` may not be called then."""
        return self._writer.is_alive()

    def save_states(self, read: Iterable[tuple[SavedConversation, Sequence[CacheState]]]) -> None:
        """Start a thread that writes those cache states of conversations that no file holds yet."""
        assert not self.is_writing
        try:
            jobs = [
                job
                for conversation, states in read
                for job in self._writing_jobs(conversation, states)
            ]
        except OSError as error:
            self._cannot_write(error)
            return
        self._writer = Thread(
            target=_write_queued_files, args=(jobs,), name="saved-prompts", daemon=True
        )
        self._writer.start()

    def wait(self, seconds: float | None = None) -> None:
        """Wait until the prompt files are written, or for at most so many seconds."""
        if self.is_writing:
            self._writer.join(seconds)

    def _writing_jobs(
        self, conversation: SavedConversation, states: Sequence[CacheState]
    ) -> Iterator[Callable[[], None]]:
        """Make a writing job for the cache states that add enough tokens. Raises OSError."""
        if not self._most_bytes or not all(map(can_be_saved, conversation.caches)):
            return
        folder, tag = self._folder.make_chat_folder(conversation.chat), self.provenance_tag
        found = self._saved_prefixes(conversation.kind, conversation.tokens)
        there = {prompt: links[0] for prompt, links in found.items() if prompt.tag == tag}
        self._folder.mark_used(there.values(), conversation.chat)
        chain, files = list(there), list[NewFile]()
        keys = self._prefix_hashes(
            conversation.kind, conversation.tokens, (state.length for state in states)
        )
        for state in sorted(states, key=lambda state: state.length):
            end, before = state.length, [saved for saved in chain if saved.end <= state.length]
            if end - max((saved.end for saved in before), default=0) < LEAST_NEW:
                continue
            start = max((saved.end for saved in before if saved.is_base), default=0)
            rows, end_arrays = collect_arrays(conversation.caches, state, start)
            if nbytes(rows) + nbytes(end_arrays) > self._most_bytes:
                self._unwritten = _too_large(nbytes(rows) + nbytes(end_arrays))
                return
            is_base = start == 0 or nbytes(end_arrays) <= WORTH_A_TOKEN * (end - start)
            chain.append(SavedPrompt(end, start, keys[end], tag, is_base))
            lengths = json.dumps([places.length for places in state.places])
            told = {"computed": self._provenance_json, "lengths": lengths}
            files.append(
                NewFile(chain[-1], encode_safetensors(FileContents(rows | end_arrays, told)))
            )
        if files:
            replaced = [folder / prompt.name for prompt in there if not prompt.is_base][:-1]
            yield partial(self._write_files, folder, files, list(there.values()), replaced)

    def _write_files(
        self,
        folder: Path,
        files: Sequence[NewFile],
        continued_files: list[Path],
        replaced_files: list[Path],
    ) -> None:
        """Write prompt files, in the writing thread; they continue `continued_files`."""
        try:
            new = [file.write_file(folder) for file in files]
        except OSError as error:
            if folder.is_dir():  # else the chat was forgotten
                self._cannot_write(error)
            return
        self._unwritten = None
        delete_files(replaced_files)
        self._folder.mark_used([*continued_files, *new], None)
        self._folder.delete_oldest(self._most_bytes)

    def _cannot_write(self, error: OSError) -> None:
        words = Words(
            "{folder} takes no more ({error}): what was read of chats is kept in memory only.",
            folder=self._folder.path,
            error=error.strerror,
        )
        self._unwritten = Reason("prompt-files-unwritten", words)

    def _saved_prefixes(self, kind: str, tokens: Sequence[int]) -> dict[SavedPrompt, list[Path]]:
        """Find prompt files of prefixes of these tokens, shortest first, each with its links."""
        saved = self._folder.saved_files()
        keys = self._prefix_hashes(kind, tokens, (prompt.end for prompt in saved))
        found = sorted(prompt for prompt in saved if keys.get(prompt.end) == prompt.key)
        return {prompt: saved[prompt] for prompt in found}

    def _prefix_hashes(
        self, kind: str, tokens: Sequence[int], prefix_lengths: Iterable[int]
    ) -> dict[int, str]:
        """Hash the first `end` tokens for each `end` of `prefix_lengths`; returns {end: hash}."""
        digest = hashlib.sha256(f"{self._model} {kind} ".encode())
        data, done, keys = np.array(tokens, dtype=np.int32), 0, dict[int, str]()
        for end in sorted({end for end in prefix_lengths if end <= len(tokens)}):
            digest.update(data[done:end].tobytes())
            keys[end], done = digest.hexdigest()[:40], end
        return keys


def _write_queued_files(jobs: list[Callable[[], None]]) -> None:
    while jobs:
        jobs.pop(0)()  # popped, so that the job's bytes are freed


def _file_chain(last: SavedPrompt, saved: Iterable[SavedPrompt]) -> list[SavedPrompt]:
    """List the prompt files that `last` continues, in order, then `last`. Raises ValueError."""
    chain = [last]
    while chain[0].start:
        before = (p for p in saved if p.end == chain[0].start and p.is_base and p.tag == last.tag)
        first = next(before, None)
        if first is None:
            raise ValueError(f"the file that {last.name} continues is gone")
        chain.insert(0, first)
    return chain


def _too_large(size: int) -> Reason:
    words = Words(
        "What was read of a chat takes {size}, more than all files of it may: it is kept in memory "
        "only.",
        size=size_words(size),
    )
    return Reason("prompt-files-small", words)


def _provenance_difference(path: Path, provenance_json: str) -> Reason | None:
    """Explain how the kernels or numerics that computed a prompt file differ from today's."""
    with suppress(*UNFIT):
        there, now = (
            json.loads(read_unchecked(path).metadata["computed"]),
            json.loads(provenance_json),
        )
        differ = [name for name in now if there.get(name) != now[name]]
        told = ", ".join(f"{name} {there.get(name)} (now {now[name]})" for name in differ)
        words = Words(
            "What files have of this text was computed differently: {told}. It is read again.",
            told=told,
        )
        return Reason("prompt-file-other", words)
    return None


def fingerprint(path: Path) -> str:
    """Hash a model's weights and config; the path itself does not count. Raises OSError.

    Hashes names and sizes of the files of a folder (of a single file the size), and bytes from the
    beginning, where headers are, and from SAMPLES places. Other files of a folder do not count.
    """
    kinds = ("*.safetensors", "*.gguf", "config.json")
    is_folder = path.is_dir()
    there = sorted(file for kind in kinds for file in path.glob(kind) if file.is_file())
    files = there if is_folder else [path]
    known = hashlib.sha256()
    for file in files:
        size = file.stat().st_size
        known.update(f"{file.name if is_folder else ''} {size} ".encode())
        with file.open("rb") as opened:
            for number in range(SAMPLES):
                opened.seek(size * number // SAMPLES)
                known.update(opened.read(SAMPLE_BYTES))
    return known.hexdigest()


def prompt_files(
    options: LoadOptions, path: str, kernel_provenance: Callable[[], Mapping[str, str]]
) -> PromptFiles | None:
    """Open the saved prompts of a model that was loaded from `path`.

    None where the options want no saved prompts, or the model's files are gone.
    """
    if options.prompt_files is None:
        return None
    try:
        places = map(_model_identity, (path, options.heads, options.draft_model))
        model = " ".join([*places, str(options.head_bits)])
    except OSError:
        return None
    return PromptFiles(options.prompt_files, model, options.prompt_files_bytes, kernel_provenance)


def _model_identity(path_or_id: str | Path | None) -> str:
    """Fingerprint of a model's file or folder, or the id of a model of the Hugging Face hub."""
    here = Path("" if path_or_id is None else path_or_id).expanduser()
    return fingerprint(here) if path_or_id is not None and here.exists() else str(path_or_id)
