"""Metal kernels for verify passes of a few rows, each with a reference in plain MLX operations.

A pass of a few rows reads each weight once, and a row has the same bits whatever stands beside it.
choice.py says which kernel a model goes through, by shape, format and chip. None has run on a GPU
yet: an emulator compiles the same source as C++ (tests/metal_emulator), finds races and bad
addresses, and counts. Of 4-bit weights, beside stock MLX:

| rows in a pass | 1 | 2 | 3 | 4 | 5 | 6 | 7 | 8 | 9 |
|---|---|---|---|---|---|---|---|---|---|
| times weights are read, stock, M1 and M2 | 1 | 2 | 3 | 4 | 5 | 6 | 7 | 8 | 9 |
| times weights are read, stock, M3 on | 1 | 1 | 1 | 1 | 1 | 2 | 2 | 2 | 2 |
| times weights are read, ours | 1 | 1 | 1 | 1 | 1 | 1 | 1 | 1 | 1 |
| arithmetic, ours to stock, M3 on | 0.81 | 0.52 | 0.50 | 0.48 | 0.48 | 0.41 | 0.37 | 0.44 | 0.40 |

Keys and values are read once for all rows and heads of a group; a recurrent state is read and
written once a round, whatever was accepted.
"""
