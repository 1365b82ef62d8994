"""GGUF files as models: read, named as Hugging Face does, and repacked for MLX.

A file becomes what its Hugging Face folder would be (model.py): a config, and unread tensors under
published names (part.py). Model families know nothing of GGUF.

- header: one file, checked before any use; file: with its numbered parts; metadata: typed lookups.
- architecture: metadata to config, tensor names to Hugging Face names, rows and columns back in
  their order; llama, standard, qwen, gemma, hybrid and nextn: by family.
- drafters: draft models that read their target (`eagle3`, `dflash`, `gemma4-assistant`).
- part: headers of arrays a tensor becomes; repack: blocks to MLX's packed arrays; weights: files.

| architecture | model | MTP heads |
|---|---|---|
| qwen35, qwen35moe, qwen3next | Qwen3.5, Qwen3.6, Qwen3-Next | inside, or a file of their own |
| glm4moe, bailingmoe2, hy_v3 | GLM-4.5 to 4.7, Ling and Ring 2.0, Hy3 | inside |
| exaone-moe | K-EXAONE | inside |
| deepseek2 | DeepSeek-V2, V3, R1, Kimi K2, GLM-4.7-Flash | inside, but V2 |
| deepseek32, glm-dsa | DeepSeek-V3.2, GLM-5 to 5.2 | inside |
| bailingmoe3 | Ling 3.0 | inside |
| glm5-next | GLM-5.3-Flash | inside |
| hyv4, hy_v4 | Hy4 | |
| deepseek4 | DeepSeek-V4 | in a file of its own |
| kimi-linear | Kimi Linear | |
| mimo2, step35 | MiMo-V2, Step-3.5 | three, inside |
| llama | Llama, Mistral, Mixtral | |
| mistral3, granite, granitemoe, minicpm | Mistral Small 3, Ministral 3; Granite 3; MiniCPM | |
| xverse, internlm2, smollm3, exaone, seed_oss, pangu-embedded | Llamas by other names | |
| qwen2, qwen3, qwen3moe, gemma3, gpt-oss | of the same names | |
| qwen2vl | Qwen2-VL and 2.5-VL, text only | |
| qwen3vl, qwen3vlmoe | Qwen3-VL | |
| phi3, glm4, chatglm | Phi-3 and 4, GLM-4 | |
| olmo2, olmoe, exaone4 | OLMo 2 and 3, OLMoE, EXAONE 4 | |
| qwen2moe, gemma2 | Qwen2 with experts, Gemma 2 | |
| gemma4 | Gemma 4 | its assistant's, beside |
| granitehybrid | Granite 4 | |
| nemotron_h, nemotron_h_moe | Nemotron-H, Nemotron 3 and 3.5 | inside |
| gemma3n, falcon-h1, hunyuan-moe | Gemma 3n, Falcon-H1, Hunyuan-A13B | |
| phi2, starcoder2, stablelm, nemotron | Phi-2, StarCoder 2, StableLM, Nemotron 3 and 4 | |
| lfm2, lfm2moe, cohere2, hunyuan-dense, hunyuan_vl | of the same names | |
| dots1, ernie4_5 | dots.llm1, ERNIE 4.5 without experts | |
| ernie4_5-moe, minimax-m2 | ERNIE 4.5 with experts, MiniMax-M2 | not run |
| minimax-m3 | MiniMax-M3 | |

All block types but Q8_1 are read, none is rounded: with float32 scales values equal the file's bit
for bit (Q8_K's to 2^-24). With Metal scales are bfloat16, or float16 on M1 and M2 and where all
matrices of the file are. Q6_K, Q3_K, Q2_K, IQ4 and IQ2 stay in the file's blocks where our kernels
read them, in matrices and stacks of experts; elsewhere IQ4, IQ2_XXS and Q3_K take 8 bits a weight,
and types with groups of 16, which MLX lacks, become plain floats.
"""
