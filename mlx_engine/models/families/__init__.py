"""One family of models a file: what its config means, and how its files name and store tensors.

To add one: write a file here with a class derived from SpecFamily (spec_family.py), and name its
model types in registry.py. The class has one method that must be there, `read`: a config's fields
to a ModelSpec (specs.py). Where files differ from our names, `renames` says so; `head_names` where
there are MTP heads; `norms` where weights are stored zero-centred; `recipes` where matrices are
stored joined, and `stored` where they are turned. What cannot be run raises UnsupportedModel in
`read`. llama.py is the plainest example and has the plain layer for others to differ from;
qwen3_5.py has a bit of all. The tests compare logits with transformers on tiny random models:
entries in tests/helpers/tiny_published.py and, for every variant of a config, in the table of
tests/engine/models/test_plain_families.py.
"""
