"""Families of models: what their configs mean, and how their files name and store tensors.

To add one: write a class here, derived from SpecFamily (spec_family.py), in the file of those that
are built alike or in its own, and name its model types in registry.py. The class has one method
that must be there, `read`: a config's fields to a ModelSpec (specs.py). Where files differ from our
names, `renames` says so; `head_names` where there are MTP heads; `norms` where weights are stored
zero-centred; `recipes` where matrices are stored joined, and `stored` where they are turned. What
cannot be run raises UnsupportedModel in `read`. llama.py is the plainest example and has the plain
layer for others to differ from; qwen3_5.py has a bit of all. The tests compare logits with
transformers on tiny random models: entries in tests/helpers/tiny_published.py and, for every
variant of a config, in the table of tests/engine/models/test_plain_families.py.

| models | model_type | their heads | compared with |
|---|---|---|---|
| Qwen3.5, 3.6, dense and with experts | qwen3_5, qwen3_5_moe | 1, looped | transformers, mlx-lm |
| Qwen3-Next | qwen3_next | 1, looped | transformers, mlx-lm |
| GLM-4.5, 4.6, 4.7, Air | glm4_moe | 1, looped | transformers |
| GLM-4.7-Flash | glm4_moe_lite | 1, looped | transformers |
| DeepSeek-V3, R1, V3.1 | deepseek_v3 | 1, looped | transformers, mlx-lm |
| DeepSeek-V2, Youtu | deepseek_v2, youtu | none | transformers |
| MiMo-7B | mimo | 1, looped | plain PyTorch, mlx-lm |
| MiMo-V2-Flash, V2.5, Pro | mimo_v2_flash, mimo_v2 | 3, in turns | transformers, plain PyTorch |
| Step-3.5-Flash, 3.7 | step3p5 | 3, in turns | plain PyTorch, mlx-lm |
| Llama, Mistral, Ministral, Ministral 3, Mixtral | their names | none | transformers |
| Qwen2, Qwen3, Qwen3 MoE, Qwen3-VL | their names | none | transformers |
| Gemma 1 to 3, gpt-oss, Phi-3, GLM-4 (`glm`, `glm4`), OLMo 2 | their names | none | transformers |
| Command R, R7B, A, OLMoE, Solar Open | cohere, cohere2, olmoe, solar_open | none | transformers |
| Trinity, nanochat | afmoe, nanochat | none | transformers, mlx-lm |
| StarCoder 1, 2, Pythia, Phi-2 | gpt_bigcode, starcoder2, gpt_neox, phi | none | transformers |
| GPT-2 | gpt2 | none | transformers |
| Nemotron 3, 4, Minitron, StableLM | nemotron, stablelm | none | transformers |
| Granite 3, MiniCPM 1, 2, 4 | granite, minicpm | none | transformers, as Granite |
| Hy3, EXAONE 4.5, K-EXAONE | hy_v3, exaone4_5, exaone_moe | 1, looped | transformers |
| ERNIE 4.5 with experts, Mellum 2 | ernie4_5_moe, mellum | 1, looped | transformers |
| MiniMax-M2 | minimax_m2 | none published | transformers |
| LFM2, LFM2 with experts | lfm2, lfm2_moe | none | transformers, mlx-lm |
| Granite 3 with experts, Granite 4 | granitemoe, granitemoehybrid | none | transformers, mlx-lm |
| Falcon-H1 | falcon_h1 | none | transformers |

"Compared" means logits and draft logits of tiny random checkpoints in the published layout, in
float32; flipping the hidden state, the order of the join or the norms' offset fails each test. No
published weights of any of them have been tried, but for a trained toy of Qwen3.5.
"""
