"""Errors that the app tells its users.

Every message names the file, says what is wrong, and what to do. Together with EngineError these
are all the errors a user may see; anything else is a bug.
"""

from mlx_engine.values.words import ErrorInWords


class KnownError(ErrorInWords):
    """Base of errors that a user can understand and act on."""


class StoreError(KnownError):
    """Chats cannot be read or written."""


class StoreBusy(StoreError):
    """Another program holds the database."""


class StoreFull(StoreError):
    """The disk has no room for what was to be written; nothing was changed."""


class StoreReadOnly(StoreError):
    """The database is open read-only."""


class StoreDamaged(StoreError):
    """The file is not a sound database."""


class StoreTooNew(StoreError):
    """A newer program wrote the database in a shape this one cannot read."""


class StoreForeign(StoreError):
    """The database belongs to another program."""


class NoSuchChat(StoreError):
    """The chat or message is gone."""


class BadChatFile(StoreError):
    """A chat cannot be imported from or exported to this file."""


class ToolServerFailed(KnownError):
    """A tool server could not be started, reached or understood."""


class SettingsNotSaved(KnownError):
    """The settings file cannot be written."""
