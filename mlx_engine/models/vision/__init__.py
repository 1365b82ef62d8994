"""Vision towers: pictures -> rows that stand for tokens in a prompt of the language model.

A tower is one file: a spec that is read from `vision_config` and preprocessor_config.json, with the
shapes of all weights, and a class derived from contract.VisionTower. loading/vision.py lists the
types of models that have it, and how their files name its tensors. Tests compare pixels, embeddings
and logits with transformers on tiny random models (tests/helpers/tiny_vision.py and the like).
Towers: Qwen3-VL to Qwen3.8 (qwen3.py), Gemma 3 (gemma3.py), Gemma 4 (gemma4.py, that of
the 12B gemma4_unified.py).
"""
