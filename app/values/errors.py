"""What the app tells its user instead of crashing.

Every message names the file, says what is wrong, and what to do. Together with EngineError this is
all a user may see; anything else is a bug of ours.
"""

from mlx_engine.values.words import ErrorInWords


class KnownError(ErrorInWords):
    """Something the user can understand and act on."""


class StoreError(KnownError):
    """Chats cannot be read or written."""


class StoreBusy(StoreError):
    """Another program holds the database."""


class StoreFull(StoreError):
    """The disk has no room for what was to be written; nothing was changed."""


class StoreReadOnly(StoreError):
    """The database was opened to be read only."""


class StoreDamaged(StoreError):
    """The file is not a sound database."""


class StoreTooNew(StoreError):
    """A newer program wrote the database in a shape this one cannot read."""


class StoreForeign(StoreError):
    """The database belongs to another program."""


class NoSuchChat(StoreError):
    """The chat or message is gone."""


class BadChatFile(StoreError):
    """A file to import or export that cannot be."""


class ToolServerFailed(KnownError):
    """A tool server could not be started, reached or understood."""


class SettingsNotSaved(KnownError):
    """The settings file cannot be written."""
