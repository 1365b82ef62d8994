"""Recent chats keep their sessions; of dropped ones nothing stays in memory."""

from dataclasses import replace

from scripted_engine import Answer, ScriptedEngine
from scripted_models import WorkerEngine, described

from app.values.chat_settings import ChatSettings, SamplingChoice
from app.worker.model_in_use import MOST_CHATS, KeptChats
from mlx_engine.values.errors import Reason
from mlx_engine.values.options import CacheOptions, DraftOptions, SamplingOptions

TOKENS = 100
SETTINGS = ChatSettings()


def engine_of(answers: int) -> ScriptedEngine:
    """Chats of a hundred tokens and three words take about a hundred kilobytes each."""
    model = described("small", 1_000_000)
    return WorkerEngine([Answer("a b c", prompt_tokens=TOKENS)] * answers, model)


def use(chats: KeptChats, chat_id: str) -> None:
    session = chats.open(chat_id, SETTINGS)
    list(session.send("Why?"))


def test_the_least_recently_used_of_many_chats_goes_and_what_it_holds():
    chats = KeptChats(engine_of(MOST_CHATS + 2))
    ids = [str(number) for number in range(MOST_CHATS)]
    for chat_id in [*ids, ids[0], "new"]:
        use(chats, chat_id)
    assert chats.ids == (*ids[2:], ids[0], "new")
    one = chats.nbytes / MOST_CHATS
    chats.forget("new")
    assert chats.nbytes == (MOST_CHATS - 1) * one > 0


def test_all_are_forgotten_at_once():
    chats = KeptChats(engine_of(2))
    for chat_id in ("a", "b"):
        use(chats, chat_id)
    assert chats.nbytes > 0
    chats.forget_all()
    assert (chats.ids, chats.nbytes) == ((), 0)


def test_settings_change_on_the_session_at_hand():
    engine = engine_of(0)
    chats = KeptChats(engine)
    session = chats.open("a", SETTINGS)
    assert (session.system, session.sampling) == (None, engine.description.sampling)
    changed = ChatSettings(
        system=" Be brief.", sampling=SamplingChoice(0.1), draft=DraftOptions(depth=2)
    )
    assert chats.open("a", changed) is session
    assert (session.system, session.sampling, session.draft) == (
        "Be brief.",
        SamplingOptions(0.1, top_k=20, top_p=0.95),
        DraftOptions(depth=2),
    )


def test_a_cache_is_the_models_or_the_one_it_can_have():
    engine = engine_of(0)
    chats = KeptChats(engine, CacheOptions(8, 4))
    session = chats.open("a", SETTINGS)
    assert session.cache == CacheOptions(8, 4)
    why = Reason("cache-head-size", "Keys and values stay in 16 bits.")
    engine.description = replace(engine.description, packed_cache=why)
    assert chats.open("b", SETTINGS).cache == CacheOptions()


def test_the_template_is_given_thinking_and_its_other_arguments():
    engine = engine_of(0)
    chats = KeptChats(engine)
    chats.open("a", SETTINGS)
    (session,) = engine.sessions
    assert session.template_arguments == {}
    chats.open("a", ChatSettings(thinking=False, template_arguments={"reasoning_effort": "low"}))
    assert engine.sessions == [session]
    assert session.template_arguments == {"reasoning_effort": "low", "enable_thinking": False}
    chats.change("a", SETTINGS)
    assert session.template_arguments == {}


def test_a_chat_that_is_gone_takes_its_files_along():
    engine, gone = engine_of(2), []
    chats = KeptChats(engine, forget_files=gone.append)
    for chat_id in ("a", "b"):
        use(chats, chat_id)
    assert engine.names == ["a", "b"]
    chats.forget("b")
    assert gone == [], "one that was not used for long is read again from them"
    chats.close("a")
    assert (chats.ids, gone) == ((), ["a"])
