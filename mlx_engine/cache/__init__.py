"""What the layers remember between passes, and how a prefix of a block is kept."""
