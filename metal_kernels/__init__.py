"""Metal kernels for verify passes of a few rows, each with a reference in plain MLX operations.

A pass of a few rows reads each weight once, and a row has the same bits whatever stands beside it.
choice.py says which kernel a model goes through, by shape, format and chip. None has run on a GPU
yet: an emulator compiles the same source as C++ (tests/metal_emulator), finds races and bad
addresses, and counts. Of 4-bit weights, beside stock MLX:

| rows in a pass | 1 | 2 | 3 | 4 | 5 | 6 | 7 | 8 |
|---|---|---|---|---|---|---|---|---|
| times weights are read, stock, M1 and M2 | 1 | 2 | 3 | 4 | 5 | 6 | 7 | 8 |
| times weights are read, stock, M3 on | 1 | 1 | 1 | 1 | 1 | 2 | 2 | 2 |
| times weights are read, ours | 1 | 1 | 1 | 1 | 1 | 1 | 1 | 1 |
| loads a weight, stock, M3 on | 1.65 | 3.07 | 4.08 | 5.09 | 6.10 | 8.15 | 10.2 | 10.2 |
| loads a weight, ours | 0.64 | 0.89 | 1.14 | 1.39 | 1.64 | 1.89 | 2.73 | 3.06 |
| arithmetic a weight, stock, M3 on | 3.2 | 6.5 | 8.6 | 10.8 | 12.9 | 17.2 | 21.5 | 21.5 |
| arithmetic a weight, ours | 2.9 | 4.5 | 6.1 | 7.8 | 9.4 | 11.0 | 13.8 | 15.6 |

Keys and values are read once for all rows and heads of a group; a recurrent state is read and
written once a round, whatever was accepted.
"""
