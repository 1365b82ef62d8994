"""Where blocks of keys begin: by the absolute key index alone, so no pass can move them.

Short blocks at first, for enough threads in short chats; long ones later, for few partial results.
"""

SHORT, LONG, CHANGE = 128, 1024, 4096
"""Keys of a block below and above the absolute index CHANGE."""

BLOCK_START = """
inline int block_start(int block) {
  return block <= 32 ? block * 128 : 4096 + (block - 32) * 1024;
}
"""


def block_of(key: int) -> int:
    """The block an absolute key index lies in."""
    return key // SHORT if key < CHANGE else CHANGE // SHORT + (key - CHANGE) // LONG


def block_start(block: int) -> int:
    """The first absolute key index of a block."""
    return SHORT * block if block <= CHANGE // SHORT else CHANGE + (block - CHANGE // SHORT) * LONG
