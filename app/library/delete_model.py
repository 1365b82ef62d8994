"""What on the disk belongs to a model, and to nothing else, so that it can be thrown away."""

from pathlib import Path

from mlx_engine.hub.weight_files import GGUF, shard_of


def files_of(model: Path) -> tuple[Path, ...]:
    """Files and folders to be moved to the trash: those of the model at this path.

    A GGUF goes with its shards. In the hub's cache a repository goes as a whole, but for a GGUF
    beside others, of which the data goes that no other one leads to. Raises OSError.
    """
    parts = _parts(model)
    repository = next((p for p in (model, *model.parents) if p.name.startswith("models--")), None)
    if repository is None:
        return parts
    links = [p for p in repository.glob("snapshots/**/*") if p.is_symlink()]
    others = {p.resolve() for p in links if p not in parts}
    if model.is_dir() or not any(other.suffix.lower() == GGUF for other in set(links) - set(parts)):
        return (repository,)
    data = {p.resolve() for p in parts} - others
    return (*parts, *sorted(path for path in data if path.exists()))


def _parts(model: Path) -> tuple[Path, ...]:
    """The model itself, or all of its shards that are there."""
    shard = shard_of(model.name)
    if model.is_dir() or shard is None:
        return (model,)
    named = (model.with_name(shard.name(number)) for number in range(1, shard.total + 1))
    return tuple(path for path in named if path.exists() or path.is_symlink())
