"""Joins the session panel with the chat on show and the model in use."""

from dataclasses import replace

from PySide6.QtCore import QObject

from app.library.machine import Machine
from app.library.model_card import make_card
from app.state.chat import ChatState
from app.state.drafting import DraftingFigures
from app.state.models import ModelState
from app.state.presets import Presets
from app.state.settings import KeptSettings
from app.values.chat_settings import THINKING, CacheChoice, ChatSettings
from app.values.models import ModelCard
from app.window.session_panel.abilities import ModelAbilities, SourceAbility
from app.window.session_panel.session_panel import SessionPanel
from mlx_engine.values.model_description import ModelDescription
from mlx_engine.values.options import MAX_DEPTH, UNQUANTISED, LoadOptions
from mlx_engine.values.words import Words

NO_HEADS = Words("This model has no MTP heads.")
NO_DRAFT_MODEL = Words("No draft model is chosen: take a small one of the same family.")

ABOUT_NUMERICS = ("rows-differ", "rows-pending", "exact-costs")
"""Codes of the engine's reasons for numerics that are not exact."""


def abilities(model: ModelDescription, options: LoadOptions | None = None) -> ModelAbilities:
    """options: how the model was loaded, None where that is not known.

    Prompt lookup needs nothing but a model that can take tokens back.
    """
    plain_only = next((r.words for r in model.declined if r.code == "plain-only"), "")
    heads = plain_only or _why_no_heads(model)
    has_small = options is not None and options.draft_model is not None
    lacks = "" if has_small or plain_only else NO_DRAFT_MODEL
    small = _deepest(plain_only or lacks)
    sources = (
        SourceAbility("mtp", _deepest(heads), heads),
        SourceAbility("prompt-lookup", _deepest(plain_only), plain_only),
        SourceAbility("model", small, plain_only, lacks),
        SourceAbility("prompt-lookup+mtp", _deepest(heads), heads),
        SourceAbility("prompt-lookup+model", small, plain_only, lacks),
        SourceAbility("none", 0),
    )
    numerics = next((r.words for r in model.declined if r.code in ABOUT_NUMERICS), "")
    return ModelAbilities(
        sources,
        model.numerics,
        numerics,
        model.sampling,
        model.can_switch_thinking,
        tuple(name for name in model.template_arguments if name != THINKING),
        model.packed_cache.words if model.packed_cache else "",
    )


def _why_no_heads(model: ModelDescription) -> str:
    if model.mtp is not None:
        return model.mtp.words
    return "" if model.mtp_heads else NO_HEADS


def _deepest(why_not: str) -> int:
    return 0 if why_not else MAX_DEPTH


class SessionController(QObject):
    """The panel shows the chat on show and nothing else; what it changes goes to that chat only."""

    def __init__(
        self,
        panel: SessionPanel,
        chat: ChatState,
        models: ModelState,
        figures: DraftingFigures,
        settings: KeptSettings,
        machine: Machine,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._panel, self._chat, self._models = panel, chat, models
        self._figures, self._settings, self._machine = figures, settings, machine
        self._own: ChatSettings | None = None
        self._cache = CacheChoice()
        panel.fields.changed.connect(lambda changes: self._change(**changes))
        panel.presets.watch(Presets(chat, settings))
        panel.fold_groups(settings.value.folded_groups)
        panel.groups_folded.connect(self._keep_folded)
        chat.settings_changed.connect(self._show_settings)
        chat.changed.connect(self._show_chat)
        models.changed.connect(self._follow_model)
        figures.changed.connect(self._show_drafting)
        self._show_model(None)

    def _show_drafting(self) -> None:
        """Show what drafting did in the last answers, and their speed by settings."""
        figures, draft = self._figures, self._panel.fields.draft
        draft.show_now(figures.history.state)
        draft.show_speeds(figures.speeds_by_probability, figures.speeds_by_output)
        draft.show_output(figures.output)

    def _change(self, **changes: object) -> None:
        settings = self._chat.settings
        self._own = replace(settings, **changes)  # type: ignore[arg-type]
        self._chat.change_settings(self._own)

    def _show_settings(self) -> None:
        """What the panel itself asked for is on show; what is typed wrong elsewhere in it stays."""
        settings = self._chat.settings
        if settings is not self._own:
            self._panel.fields.show_settings(settings)
        model = self._models.description
        if model is not None and settings.cache != self._cache:
            self._panel.show_facts(self._card(model))

    def _show_chat(self) -> None:
        stats = self._chat.last_stats
        self._panel.fields.sampling.show_last_seed(stats.seed if stats else None)

    def _follow_model(self) -> None:
        """Show the model in use, or the resting one, which the next question loads."""
        model = self._models.description
        if model is not self._shown and (model is not None or self._models.resting is None):
            self._show_model(model)

    def _show_model(self, model: ModelDescription | None) -> None:
        self._shown = model
        if model is None:
            self._panel.show_model(None, None)
        else:
            in_use = self._models.in_use
            known = abilities(model, in_use.options if in_use else None)
            self._panel.show_model(self._card(model), known)

    def _card(self, model: ModelDescription) -> ModelCard:
        """With the memory that this chat's keys and values take."""
        self._cache = self._chat.settings.cache
        usual = self._models.in_use.cache if self._models.in_use else UNQUANTISED
        cache = UNQUANTISED if model.packed_cache else self._cache.over(usual)
        return make_card(model, self._machine, cache)

    def _keep_folded(self, titles: tuple[str, ...]) -> None:
        self._settings.change(replace(self._settings.value, folded_groups=titles))
