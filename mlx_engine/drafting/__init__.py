"""Draft sources: MTP heads, prompt lookup, draft models; and which of them drafts in a chat.

| source | for | tested by |
|---|---|---|
| mtp | families with heads (models/families) | same words, acceptance of trained models |
| prompt-lookup | any model whose caches keep a prefix | same words, hit rates by properties |
| model: a small one | tokenizers equal, token by token | same words |
| model: EAGLE-3, DFlash and kin | targets of our own layers | plain PyTorch, tiny checkpoints |
| model: Gemma 4's assistant | Gemma 4 | transformers, tiny checkpoints |

Accepting (shared noise): first drafts accepted at temperature 0.8 on the trained toy are 0.597;
greedy drafts there 0.197, the bound of rejection sampling 0.644.
"""
