"""Writes what conversations have read to files, in a thread of its own: nobody waits for the disk.

What is to be written is computed and copied before. What waits is dropped once a later place of the
same conversation takes its place; what is written ends when its chat is forgotten. Of what could
not be written nothing is left on the disk, and what comes later is tried again.
"""

import hashlib
import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, wait
from contextlib import suppress
from errno import ENOSPC
from functools import partial
from itertools import takewhile
from pathlib import Path
from queue import SimpleQueue
from shutil import disk_usage
from threading import Event, Thread
from typing import NamedTuple
from weakref import ReferenceType, finalize, ref

import mlx.core as mx

from mlx_engine.decoding.prompt_folder import Piece, PromptFolder
from mlx_engine.decoding.sequence import TokenSequence
from mlx_engine.values.errors import Reason

AT_THE_END_S, TO_LEAVE_S = 2.0, 0.5
"""Seconds that closing waits for what is still being written, and then for it to be given up."""


AT_ONCE = 2**20
"""Bytes written between two looks at whether they are still wanted."""


class _Unwanted(Exception):
    """Nobody wants what is being written any more."""


class _Summed:
    """A file that is written once, from its beginning, and summed up as it is.

    enough: from then on nothing more is written.
    """

    closed = False

    def __init__(self, path: Path, enough: Event) -> None:
        self._file = os.fdopen(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600), "wb")
        self._enough = enough
        self.sum = hashlib.sha256()

    def write(self, data: bytes) -> int:
        for start in range(0, len(data), AT_ONCE):
            if self._enough.is_set():
                raise _Unwanted
            piece = memoryview(data)[start : start + AT_ONCE]
            self.sum.update(piece)
            self._file.write(piece)
        return len(data)

    def seek(self, place: int, whence: int = 0) -> int:
        return self._file.seek(place, whence)

    def tell(self) -> int:
        return self._file.tell()

    def finish(self) -> str:
        """The checksum, once all is on the disk."""
        self._file.flush()
        os.fsync(self._file.fileno())
        return self.sum.hexdigest()[:40]

    def close(self) -> None:
        with suppress(OSError):
            self._file.close()


class Content(NamedTuple):
    """Of a file that is to be written; the arrays are computed."""

    piece: Piece
    arrays: dict[str, mx.array]
    told: dict[str, str]


class _Job(NamedTuple):
    """Files that are written, or wait for it; done: whether they are whole, or why not."""

    of: ReferenceType[object]
    pieces: tuple[Piece, ...]
    done: Future[bool | Reason]
    write: Callable[[], bool | Reason]


class PromptWriter:
    """trouble: why the newest could not be written. most_bytes: of all files together."""

    def __init__(self, folder: PromptFolder, most_bytes: int) -> None:
        self._trouble: Reason | None = None
        self._folder = folder
        self._most = most_bytes
        self._jobs: list[_Job] = []
        self._enough = Event()
        self._waiting: SimpleQueue[_Job | None] = SimpleQueue()
        thread = Thread(target=_serve, args=(self._waiting,), name="prompt-files", daemon=True)
        thread.start()
        self._end = finalize(self, _end, thread, self._waiting, self._enough)

    @property
    def coming(self) -> list[Piece]:
        """What waits, is being written, or has ended since `look`."""
        return [piece for job in self._jobs for piece in job.pieces]

    def drop(self, sequence: TokenSequence) -> None:
        """What waits of a conversation, unless it is being written."""
        self._jobs = [
            job for job in self._jobs if job.of() is not sequence or not job.done.cancel()
        ]

    def write(
        self,
        sequence: TokenSequence,
        contents: Sequence[Content],
        left: Iterable[Piece],
        before: Iterable[Piece],
    ) -> None:
        """Files of a place of the conversation, after all others. left: what is not needed any more
        once they are there. before: what they build on.
        """
        write = partial(self._write, tuple(contents), tuple(left), tuple(before), sequence.chat)
        job = _Job(ref(sequence), tuple(its.piece for its in contents), Future(), write)
        self._jobs.append(job)
        self._waiting.put(job)

    @property
    def trouble(self) -> Reason | None:
        """Why the newest could not be written, of what has ended by now."""
        self.look()
        return self._trouble

    def look(self) -> None:
        """What has ended by now."""
        ended = [job.done for job in takewhile(lambda job: job.done.done(), self._jobs)]
        del self._jobs[: len(ended)]
        for outcome in (its.result() for its in ended if not its.cancelled()):
            if outcome:
                self._trouble = outcome if isinstance(outcome, Reason) else None

    def refused(self, why: Reason) -> None:
        """Something was not even tried; it is told behind what waits."""
        done = Future[bool | Reason]()
        done.set_result(why)
        self._jobs.append(_Job(ref(self), (), done, lambda: why))

    def check_room(self, size: int) -> None:
        """OSError where the disk has no room for so many bytes: it is not filled up in vain."""
        if disk_usage(self._folder.path).free < size:
            raise OSError(ENOSPC, os.strerror(ENOSPC))

    def wait(self, seconds: float | None = None) -> None:
        """Until all is written, or for so long."""
        wait([job.done for job in self._jobs], seconds)

    def close(self) -> None:
        """Write what can be written in a little while, and no more. The thread of a disk that hangs
        is left alone: a program that ends does not wait for it.
        """
        self.wait(AT_THE_END_S)
        for job in self._jobs:
            job.done.cancel()
        self._end()

    def _write(
        self,
        contents: Sequence[Content],
        left: Iterable[Piece],
        before: Iterable[Piece],
        chat: str | None,
    ) -> bool | Reason:
        """In the thread: whether all is there, or why not. chat: whose this is, who may have been
        forgotten by now.
        """
        path = self._folder.path
        file = None
        try:
            for its in contents:
                unfinished = path / its.piece.name
                if chat is not None and not self._folder.knows(chat, its.piece.place):
                    raise _Unwanted
                try:
                    unfinished.unlink(missing_ok=True)
                    file = _Summed(unfinished, self._enough)
                    mx.save_safetensors(file, its.arrays, its.told)  # type: ignore[arg-type]
                    whole = its.piece._replace(checksum=file.finish())
                    unfinished.replace(path / whole.name)
                except FileNotFoundError as error:
                    raise _Unwanted from error
                except BaseException:
                    self._folder.remove([its.piece])
                    raise
                finally:
                    if file is not None:
                        file.close()
        except _Unwanted:
            return False
        except (OSError, RuntimeError) as error:
            return self.unwritten(error)
        self._folder.remove(left)
        self._folder.touch(before)
        self._folder.keep_within(self._most)
        return True

    def unwritten(self, error: Exception) -> Reason:
        """The folder takes no more, as this error tells."""
        why = error.strerror if isinstance(error, OSError) else None
        words = f"{self._folder.path} takes no more ({why or error})"
        return kept_in_memory("prompt-files-unwritten", words)


def _end(thread: Thread, waiting: "SimpleQueue[_Job | None]", enough: Event) -> None:
    """Also of a program that ends without closing: Python may not go while MLX writes."""
    enough.set()
    waiting.put(None)
    thread.join(TO_LEAVE_S)


def _serve(waiting: "SimpleQueue[_Job | None]") -> None:
    """The thread: one job after the other; None is the last."""
    while (job := waiting.get()) is not None:
        if not job.done.set_running_or_notify_cancel():
            continue
        try:
            job.done.set_result(job.write())
        except BaseException as error:
            job.done.set_exception(error)


def kept_in_memory(code: str, words: str) -> Reason:
    """Why something is in no file, or was not read from one."""
    return Reason(code, f"{words}: what was read is kept in memory only.")
