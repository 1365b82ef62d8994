"""A process that writes an answer is killed; what it had shown for long enough must be there. So
must every change that another one said it had made: chats moved, an answer edited, a file imported.
"""

import random
import time
from dataclasses import dataclass
from pathlib import Path

from chat_stores import python

from app.store.session_store import open_store

WRITER = """
import sys, time
from pathlib import Path
from app.store.session_store import open_store
from app.values.chat_settings import ChatSettings
from app.values.chats import AnswerSoFar

store = open_store(Path(sys.argv[1]))
chat = store.chats.create(ChatSettings())
question = store.messages.add(chat, None, "user", "Tell me a story.").id
answer = store.messages.begin_answer(chat, question, "Tiny")
text, saved_at = "", time.monotonic()
number = 0
while True:
    text += f"word{number} "
    number += 1
    if time.monotonic() - saved_at > 0.5:
        store.messages.save_partial(answer, AnswerSoFar(text))
        saved_at = time.monotonic()
    print(len(text), time.time(), flush=True)
    time.sleep(0.003)
"""


CHANGER = """
import sys
from pathlib import Path
from app.store.session_store import open_store
from app.store.transfer import export_chat, insert_chat, read_chat
from app.values.chat_settings import ChatSettings

store, file = open_store(Path(sys.argv[1])), Path(sys.argv[1]).with_name("chat.json")
chats = sorted(chat.id for chat in store.chats.listed())
if not chats:
    for title in ("one", "two"):
        chats.append(store.chats.create(ChatSettings(), title))
        question = store.messages.add(chats[-1], None, "user", "Tell me a story.").id
        store.messages.add(chats[-1], question, "assistant", "edit 0")
    folders = [store.folders.create(name).id for name in ("Work", "Play")]
chats, folders = chats[:2], [folder.id for folder in store.folders.listed()]
answer = store.messages.path(chats[0])[-1].message
number = int(answer.text.split()[1])
print(number, flush=True)
while True:
    number += 1
    store.folders.move(chats, folders[number % 2])
    answer = store.messages.rewrite(answer.id, f"edit {number}")
    export_chat(store, chats[1], file)
    imported = insert_chat(store, read_chat(file, ChatSettings()))
    store.chats.delete_for_ever(imported)
    print(number, flush=True)
"""


@dataclass(frozen=True, slots=True)
class Kill:
    """One kill: characters on the screen, of them 2 s old, and found again; newest_lost_s old."""

    shown: int
    old_enough: int
    found: int
    lost_s: float
    sound: bool

    @property
    def promise_kept(self) -> bool:
        return self.sound and self.found >= self.old_enough


def kill_once(path: Path, chance: random.Random, longest_s: float) -> Kill:
    """Let a new process write into `path` for a while, kill -9 it, and open what it left."""
    shown = []
    with python(WRITER, str(path)) as child:
        assert child.stdout is not None
        first = child.stdout.readline()
        end = time.time() + chance.uniform(0, longest_s)
        shown.append(first)
        while time.time() < end:
            shown.append(child.stdout.readline())
        child.kill()
        killed_at = time.time()
        rest = child.stdout.read()
    lines = [line.split() for line in [*shown, *rest.splitlines()]]
    pairs = [(int(line[0]), float(line[1])) for line in lines if len(line) == 2]
    store = open_store(path)
    message = store.messages.path(store.chats.listed()[0].id)[-1].message
    sound = message.interrupted and store.notices == ()
    sound = sound and store.database.rows("PRAGMA integrity_check")[0][0] == "ok"
    store.close()
    found = len(message.text)
    lost = [at for length, at in pairs if length > found]
    return Kill(
        shown=pairs[-1][0],
        old_enough=max((length for length, at in pairs if at <= killed_at - 2), default=0),
        found=found,
        lost_s=killed_at - lost[0] if lost else 0.0,
        sound=sound,
    )


def kill_changes_once(path: Path, chance: random.Random, longest_s: float) -> Kill:
    """The same with a process that changes chats; characters are changes here."""
    with python(CHANGER, str(path)) as child:
        assert child.stdout is not None
        said = [child.stdout.readline()]
        time.sleep(chance.uniform(0, longest_s))
        child.kill()
        said += child.stdout.read().splitlines()
    told = max(int(line) for line in said)
    store = open_store(path)
    chats = sorted(store.chats.listed(), key=lambda chat: chat.id)
    one, two = chats[:2]
    texts = [turn.message.text for turn in store.messages.path(one.id)]
    whole = all(len(store.messages.path(chat.id)) == 2 for chat in chats)
    sound = store.notices == () and whole and one.folder == two.folder and len(chats) <= 3
    sound = sound and store.database.rows("PRAGMA integrity_check")[0][0] == "ok"
    for left_over in chats[2:]:
        store.chats.delete_for_ever(left_over.id)
    store.close()
    found = int(texts[-1].split()[1])
    return Kill(told, told, found, 0.0, sound)
