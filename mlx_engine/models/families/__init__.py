"""Model families on the engine's own layers: configs -> ModelSpec, and tensor names of the files.

To add a family, derive a class from NativeFamily (native_family.py), in a file of its own or beside
families that are built alike, and list its model types in registry.py. Its one abstract method,
`_read_spec`, turns the fields of a config.json into a ModelSpec (model_spec.py) and raises
UnsupportedModel for what cannot be run. Class attributes and optional overrides: `renames` (tensor
names of the files -> canonical names), `head_names` (MTP heads), `norms` (weights stored as w for
1 + w), `recipes` (fused or split matrices), `stored` (other layouts). llama.py is the plainest
example and holds the helpers that others use; qwen3_5.py uses nearly every option. Tests compare
logits with transformers on tiny random models: an entry in tests/helpers/tiny_published.py, and for
each variant of a config one in the table of tests/engine/models/test_plain_families.py.

| models | model_type | MTP heads | compared with |
|---|---|---|---|
| Qwen3.5 to 3.8, also with experts | qwen3_5, qwen3_8, ..._moe | 1, reused | transformers, mlx-lm |
| Qwen3-Next | qwen3_next | 1, reused | transformers, mlx-lm |
| Qwen3.8-Flash-Next | qwen4_exp | 1, reused | transformers, PyTorch (head) |
| GLM-4.5, 4.6, 4.7, Air | glm4_moe | 1, reused | transformers |
| GLM-4.7-Flash | glm4_moe_lite | 1, reused | transformers |
| DeepSeek-V3, R1, V3.1 | deepseek_v3 | 1, reused | transformers, mlx-lm |
| DeepSeek-V3.2; GLM-5, 5.1, 5.2 | deepseek_v32, glm_moe_dsa | 1, reused | transformers |
| DeepSeek-V4-Flash, Pro | deepseek_v4 | 1, reused, or DSpark | transformers, PyTorch (head) |
| DeepSeek-V4.1-Flash | deepseek_v41 | DSpark | mlx-lm, float64 (n-grams) |
| GLM-5.3-Flash | glm5_next | 1, reused | transformers, PyTorch (head) |
| Hy4, Hy4-flash | hy_v4 | 1, reused | transformers, PyTorch (head) |
| LongCat-Flash, -Lite | longcat_flash, longcat_flash_ngram | 1, reused | transformers, mlx-lm |
| Ling, Ring 1 and 2 | bailing_moe | 1, reused (2) | transformers, as GLM, mlx-lm |
| Ring, Ling linear 2.0 | bailing_moe_linear | none | mlx-lm |
| Ling 3.0; 2.5, 2.6 | bailing_hybrid | 1, reused | transformers; mlx-lm |
| DeepSeek-V2, Youtu | deepseek_v2, youtu | none | transformers |
| Kimi Linear | kimi_linear | none | transformers, mlx-lm |
| MiMo-7B | mimo | 1, reused | plain PyTorch, mlx-lm |
| MiMo-V2-Flash, V2.5, Pro | mimo_v2_flash, mimo_v2 | 3, one a token | transformers, plain PyTorch |
| Step-3.5-Flash, 3.7 | step3p5, step3p7 | 3, one a token | plain PyTorch, mlx-lm |
| Inkling, Inkling-Small | inkling_mm_model, inkling | 8, one a token | transformers |
| Llama, Mistral, Ministral, Ministral 3, Mixtral | their names | none | transformers |
| Qwen2, Qwen3, Qwen3 MoE, Qwen3-VL | their names | none | transformers |
| Gemma 1 to 3, gpt-oss, Phi-3, GLM-4 (`glm`, `glm4`), OLMo 2 | their names | none | transformers |
| Command R, R7B, A, OLMoE, Solar Open | cohere, cohere2, olmoe, solar_open | none | transformers |
| Trinity, nanochat | afmoe, nanochat | none | transformers, mlx-lm |
| StarCoder 1, 2, Pythia, Phi-2 | gpt_bigcode, starcoder2, gpt_neox, phi | none | transformers |
| GPT-2 | gpt2 | none | transformers |
| Nemotron 3, 4, Minitron, StableLM | nemotron, stablelm | none | transformers |
| Granite 3, MiniCPM 1, 2, 4 | granite, minicpm | none | transformers, as Granite |
| Hy3, EXAONE 4.5, K-EXAONE | hy_v3, exaone4_5, exaone_moe | 1, reused | transformers |
| ERNIE 4.5 with experts, Mellum 2 | ernie4_5_moe, mellum | 1, reused | transformers |
| MiniMax-M2 | minimax_m2 | none published | transformers |
| MiniMax-M3 | minimax_m3_vl | none published | transformers, PyTorch (heads) |
| LFM2, LFM2 with experts | lfm2, lfm2_moe | none | transformers, mlx-lm |
| Granite 3 with experts, Granite 4 | granitemoe, granitemoehybrid | none | transformers, mlx-lm |
| Falcon-H1 | falcon_h1 | none | transformers |
| OLMo Hybrid | olmo_hybrid | none | transformers, mlx-lm |
| Nemotron-H, Nemotron 3, 3.5 | nemotron_h | 1, reused | transformers, PyTorch (head), mlx-lm |

"Compared": logits and draft logits of tiny random checkpoints in the published layout agree in
float32, and each test fails when the hidden state, the order of the concatenation or the offset of
the norms is changed. "Reused": a single head drafts every further token from its own states. Of
published weights none has been run, apart from a trained toy of Qwen3.5.
"""
