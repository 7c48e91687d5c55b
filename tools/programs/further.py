"""More programs: transformers of many kinds, of images and sound too, and packages with types of their own."""

from __future__ import annotations

from typing import Any

from table import _HEADS, _STILL, _language, program

_language(
    "DistilBERT",
    "DistilBertForMaskedLM",
    {
        "dim": 32,
        "n_layers": 2,
        "n_heads": 2,
        "hidden_dim": 64,
        "dropout": 0.0,
        "attention_dropout": 0.0,
    },
)
_language("ALBERT", "AlbertForMaskedLM", {**_HEADS, **_STILL, "embedding_size": 16})
_language(
    "OPT",
    "OPTForCausalLM",
    {
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "ffn_dim": 64,
        "word_embed_proj_dim": 32,
        "dropout": 0.0,
    },
)
_language("Gemma", "GemmaForCausalLM", {**_HEADS, "num_key_value_heads": 1, "head_dim": 16})

_language(
    "BART",
    "BartForConditionalGeneration",
    {
        "d_model": 32,
        "encoder_layers": 1,
        "decoder_layers": 1,
        "encoder_attention_heads": 2,
        "decoder_attention_heads": 2,
        "encoder_ffn_dim": 64,
        "decoder_ffn_dim": 64,
        "dropout": 0.0,
        "forced_eos_token_id": 0,
    },
)


def _pictures(name: str, model: str, size: dict[str, Any], pixels: int = 32) -> None:
    """A classifier of images from transformers."""

    @program(f"transformers: {name}", "transformers")
    def trained(source: Any) -> Any:
        import transformers

        config = getattr(transformers, model.split("For")[0] + "Config")(num_labels=4, **size)
        made = getattr(transformers, model)(config)
        made.train()
        x, y = source.normal(2, 3, pixels, pixels), source.below(4, 2)
        return made, lambda: made(pixel_values=x, labels=y).loss


_pictures(
    "ViT", "ViTForImageClassification", {**_HEADS, **_STILL, "image_size": 32, "patch_size": 8}
)


@program("transformers: CLIP", "transformers")
def _clip(source: Any) -> Any:
    from transformers import CLIPConfig, CLIPModel

    text = {
        **_HEADS,
        "vocab_size": 64,
        "max_position_embeddings": 16,
        "bos_token_id": 0,
        "eos_token_id": 1,
    }
    vision = {**_HEADS, "image_size": 32, "patch_size": 8}
    model = CLIPModel(CLIPConfig(text_config=text, vision_config=vision, projection_dim=16))
    words, images = source.below(62, 3, 8) + 2, source.normal(3, 3, 32, 32)
    words[:, -1] = 1
    return model, lambda: model(input_ids=words, pixel_values=images, return_loss=True).loss


@program("transformers: Whisper", "transformers")
def _whisper(source: Any) -> Any:
    from transformers import WhisperConfig, WhisperForConditionalGeneration

    config = WhisperConfig(
        vocab_size=64,
        d_model=32,
        encoder_layers=1,
        decoder_layers=1,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=64,
        decoder_ffn_dim=64,
        max_source_positions=32,
        max_target_positions=16,
        num_mel_bins=8,
        pad_token_id=0,
        bos_token_id=0,
        eos_token_id=0,
        decoder_start_token_id=0,
        dropout=0.0,
    )
    model = WhisperForConditionalGeneration(config)
    sound, words = source.normal(2, 8, 64), source.below(60, 2, 8) + 2
    return model, lambda: model(input_features=sound, labels=words).loss


@program("torchvision: tv_tensors, transforms.v2", "torchvision")
def _marked(source: Any) -> Any:
    import torch
    from torch.nn import functional
    from torchvision import tv_tensors
    from torchvision.transforms import v2

    change = v2.Compose(
        [v2.RandomHorizontalFlip(1.0), v2.Resize((16, 16)), v2.Normalize([0.5] * 3, [0.2] * 3)]
    )
    image = tv_tensors.Image(source.normal(3, 32, 32))
    boxes = tv_tensors.BoundingBoxes(source.below(16, 2, 4), format="XYWH", canvas_size=(32, 32))
    image, boxes = change(image, boxes)
    assert type(boxes) is tv_tensors.BoundingBoxes
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 4, 3), torch.nn.Flatten(), torch.nn.LazyLinear(8)
    )
    goal = boxes.flatten().to(torch.get_default_dtype()) / 16
    model(image[None])
    return model, lambda: functional.mse_loss(model(image[None])[0], goal)


@program("local_attention: LocalTransformer", "local-attention")
def _local(source: Any) -> Any:
    from local_attention import LocalTransformer

    model = LocalTransformer(
        num_tokens=64, dim=32, depth=2, max_seq_len=64, causal=True, local_attn_window_size=16
    )
    x = source.below(64, 2, 32)
    return model, lambda: model(x, return_loss=True)


@program("stable_baselines3: the policy of PPO", "stable-baselines3")
def _policy(source: Any) -> Any:
    from gymnasium import spaces
    from stable_baselines3.common.policies import ActorCriticPolicy

    space = spaces.Box(-1.0, 1.0, (6,))
    model = ActorCriticPolicy(space, spaces.Discrete(4), lambda _: 1e-3)
    seen, done, gain = source.normal(32, 6), source.below(4, 32), source.normal(32)

    def loss() -> Any:
        values, likely, entropy = model.evaluate_actions(seen, done)
        return (
            (values.flatten() - gain).square().mean()
            - (likely * gain).mean()
            - 0.01 * entropy.mean()
        )

    return model, loss
