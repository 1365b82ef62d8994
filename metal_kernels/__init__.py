"""Metal kernels for verify passes of a few rows, each with a reference in plain MLX operations.

A pass of a few rows reads each weight once, and a row has the same bits whatever stands beside it.
choice.py says which kernel a model goes through, by shape, format and chip. None has run on a GPU
yet: an emulator compiles the same source as C++ (tests/metal_emulator), finds races and bad
addresses, and counts. The table compares 4-bit products with stock MLX's. Instructions are counted
per weight, integer ones included, in code of a compiler for another GPU (instructions.py), with
bfloat16 activations from M3 on and float16 before:

| rows in a pass | 1 | 2 | 3 | 4 | 5 | 6 | 7 | 8 | 9 |
|---|---|---|---|---|---|---|---|---|---|
| times weights are read, stock, M1 and M2 | 1 | 2 | 3 | 4 | 5 | 6 | 7 | 8 | 9 |
| times weights are read, stock, M3 on | 1 | 1 | 1 | 1 | 1 | 2 | 2 | 2 | 2 |
| times weights are read, ours | 1 | 1 | 1 | 1 | 1 | 1 | 1 | 1 | 1 |
| instructions, ours, M3 on | 5.2 | 6.6 | 8.1 | 9.5 | 11.2 | 12.7 | 15.1 | 16.6 | 18.2 |
| instructions, stock, M3 on | 4.9 | 8.0 | 10.3 | 12.5 | 14.8 | 20.5 | 25.1 | 25.1 | 29.7 |
| instructions, ours, M1, M2 | 4.8 | 6.0 | 7.2 | 8.4 | 9.9 | 11.1 | 12.6 | 13.9 | 15.1 |
| instructions, stock, M1, M2 | 4.5 | 9.0 | 13.5 | 18.0 | 22.5 | 27.0 | 31.5 | 36.0 | 40.5 |

Keys and values are read once for all rows and heads of a group; a recurrent state is read and
written once a round, whatever was accepted.
"""
