"""More programs: models of language of other kinds: state spaces, windows, sparse blocks, recurrences, experts."""

from __future__ import annotations

from table import _HEADS, _STILL, _language

_language(
    "Mamba 2",
    "Mamba2ForCausalLM",
    {
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_heads": 4,
        "head_dim": 16,
        "n_groups": 1,
        "chunk_size": 8,
        "state_size": 8,
    },
)
_language(
    "DeBERTa v2",
    "DebertaV2ForMaskedLM",
    {
        **_HEADS,
        **_STILL,
        "relative_attention": True,
        "pos_att_type": ["p2c", "c2p"],
        "position_buckets": 8,
    },
)
_language(
    "Longformer",
    "LongformerForMaskedLM",
    {
        **_HEADS,
        **_STILL,
        "attention_window": [4, 4],
        "max_position_embeddings": 64,
        "pad_token_id": 0,
    },
)
_language(
    "XLNet",
    "XLNetLMHeadModel",
    {"d_model": 32, "n_layer": 2, "n_head": 2, "d_inner": 64, "dropout": 0.0},
)
_language(
    "BigBird, sparse blocks",
    "BigBirdForMaskedLM",
    {
        **_HEADS,
        **_STILL,
        "attention_type": "block_sparse",
        "block_size": 4,
        "num_random_blocks": 1,
        "max_position_embeddings": 128,
    },
    length=64,
)
_language(
    "Gemma 3",
    "Gemma3ForCausalLM",
    {
        **_HEADS,
        "num_key_value_heads": 1,
        "head_dim": 16,
        "sliding_window": 4,
        "query_pre_attn_scalar": 16,
        "max_position_embeddings": 64,
    },
    configured="Gemma3TextConfig",
)
_language(
    "RWKV",
    "RwkvForCausalLM",
    {
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "attention_hidden_size": 32,
        "intermediate_size": 64,
        "context_length": 32,
    },
)
_language(
    "RecurrentGemma",
    "RecurrentGemmaForCausalLM",
    {
        **_HEADS,
        "num_key_value_heads": 1,
        "head_dim": 16,
        "lru_width": 32,
        "attention_window_size": 4,
        "block_types": ("recurrent", "attention"),
        "attention_dropout": 0.0,
    },
)
_language(
    "DeepSeek v3",
    "DeepseekV3ForCausalLM",
    {
        **_HEADS,
        "kv_lora_rank": 8,
        "q_lora_rank": 8,
        "qk_rope_head_dim": 8,
        "qk_nope_head_dim": 8,
        "v_head_dim": 16,
        "n_routed_experts": 4,
        "n_group": 2,
        "topk_group": 1,
        "num_experts_per_tok": 2,
        "n_shared_experts": 1,
        "first_k_dense_replace": 1,
        "moe_intermediate_size": 32,
        "num_key_value_heads": 2,
    },
)
_language(
    "ModernBERT", "ModernBertForMaskedLM", {**_HEADS, "local_attention": 4, "pad_token_id": 0}
)
