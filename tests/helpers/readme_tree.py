"""The developers' tree of README.md, made from the modules' own first sentences.

`python tests/helpers/readme_tree.py` prints the block to paste between two fences.
"""

from pathlib import Path

from layout_rules import Module, first_sentence, modules

INDENT = "  "
REPOSITORY = Path(__file__).parents[2]


def expected_tree(root: Path) -> str:
    """One line a module, a package's line first, two blanks of indent a level."""
    rows = [_row(module) for module in sorted(modules(root), key=_order)]
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"{name.ljust(width)}  {sentence}" for name, sentence in rows)


def _order(module: Module) -> tuple[str, ...]:
    """Folders in place of their names: a package before what is in it, files before rooms."""
    *folders, file = module.path.parts
    keys = [f"1{folder}" for folder in folders]
    return (*keys, "" if module.is_package else f"0{file}")


def _row(module: Module) -> tuple[str, str]:
    level = module.name.count(".")
    label = module.path.parent.name + "/" if module.is_package else module.path.name
    return INDENT * level + label, first_sentence(module) or "(no first sentence)"


if __name__ == "__main__":
    print(expected_tree(REPOSITORY))
