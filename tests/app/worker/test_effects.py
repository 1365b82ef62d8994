"""What is found out inside an answer is told: heads that do not fit, the output head in use."""

from scripted_models import MISFIT, Doubting, ScriptedModels, described
from served import ask, served

from app.values.chat_settings import ChatSettings
from app.worker.replies import DraftOutputInUse, ModelChanged
from app.worker.requests import ChangeSettings, LoadModel
from mlx_engine.values.options import DraftOptions


def with_output(output: str) -> ChatSettings:
    return ChatSettings(draft=DraftOptions(output=output))  # type: ignore[arg-type]


def test_each_change_is_told_once():
    source = ScriptedModels({"None": Doubting([], described("doubting", 1000))})
    with served(source) as room:
        room.put(LoadModel(None), ask("Why?", "a", "a 1", with_output("4-bit")))
        room.until_a(DraftOutputInUse)
        room.put(ChangeSettings("a", with_output("frequent")))
        room.until_answered("a 1")
        room.put(ask("And?", "b", "b 1", with_output("full")))
        room.until_answered("b 1")
        changed = [reply for reply in room.replies if isinstance(reply, ModelChanged)]
        assert [reply.description.declined for reply in changed] == [(MISFIT,)]
        outputs = [reply for reply in room.replies if isinstance(reply, DraftOutputInUse)]
        assert [(reply.chat_id, reply.output) for reply in outputs] == [
            ("a", "4-bit"),
            ("a", "frequent"),
            ("b", "full"),
        ]
