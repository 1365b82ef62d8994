"""GGUF files as models: read, named as Hugging Face does, and repacked for MLX.

A file becomes what a Hugging Face folder of the model would say (model.py): a config, and tensors
under published names that are still unread (part.py). Families know nothing of GGUF.

- header: what is in the file or its numbered parts, checked before any use. metadata looks it up.
- architecture, llama_like, nextn, qwen35: metadata to config, names to names, and rows or columns
  back in Hugging Face's order.
- part: what each tensor becomes. blocks and lattice open blocks, bits moves their codes into MLX's
  order, rounded fits to 8 bits what MLX cannot hold, weights does it for whole tensors and files.

| architecture | model | heads |
|---|---|---|
| qwen35, qwen35moe, qwen3next | Qwen3.5, Qwen3.6, Qwen3-Next | inside, or a file of their own |
| glm4moe | GLM-4.5 to 4.7 | inside |
| deepseek2 | DeepSeek-V2, V3, R1, Kimi K2, GLM-4.7-Flash | inside, but V2 |
| mimo2, step35 | MiMo-V2, Step-3.5 | three, inside |
| llama | Llama, Mistral, Mixtral | |
| qwen2, qwen3, qwen3moe, gemma3, gpt-oss | of the same names | |

All block types open but Q8_1 and Q1_0. Q2_K, Q6_K, Q8_K, IQ2_XS and IQ2_S, whose groups of 16 MLX
does not have, are rounded to 8 bits (0.2 to 0.5 % of the values' RMS), unless a kernel of ours
reads the block as it is (Q6_K, Q3_K, Q2_K, IQ4_NL, IQ4_XS). All others keep their values bit for
bit where scales are float32, and to 2^-11 where they are float16, as with Metal.
"""
