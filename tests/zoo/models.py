"""The models of the zoo: how each is built with random weights, what it is called with, and how
PyTorch saves it.

A builder gives a Case.  Names are "library/model"; versions of the libraries stand in zoo.py.
Small variants and small configurations: what differs between models is their code, which no width
changes.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch


@dataclasses.dataclass
class Case:
    """A model and one call of it."""

    module: torch.nn.Module
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = dataclasses.field(default_factory=dict)
    door: str = "trace"  # trace, script: torch.jit's; export: torch.export.export, a .pt2


def picture(size: int = 64, channels: int = 3, batch: int = 1) -> torch.Tensor:
    return torch.rand(batch, channels, size, size)


# -- torchvision: scripted
# ---------------------------------------------------------------------------------------------

CLASSIFIERS = {
    "alexnet": 96, "vgg11": 64, "vgg11_bn": 64, "resnet18": 64, "resnet50": 64,
    "resnext50_32x4d": 64,
    "wide_resnet50_2": 64, "densenet121": 64, "googlenet": 96, "inception_v3": 139,
    "squeezenet1_0": 64,
    "squeezenet1_1": 64, "mobilenet_v2": 64, "mobilenet_v3_small": 64, "mobilenet_v3_large": 64,
    "mnasnet0_5": 64,
    "mnasnet1_3": 64, "shufflenet_v2_x0_5": 64, "shufflenet_v2_x1_5": 64, "efficientnet_b0": 64,
    "efficientnet_b2": 64,
    "efficientnet_v2_s": 64, "regnet_x_400mf": 64, "regnet_y_400mf": 64, "convnext_tiny": 64,
    "vit_b_32": 224, "swin_t": 64, "swin_v2_t": 64, "maxvit_t": 224,
}  # fmt: skip
SEGMENTERS = ("fcn_resnet50", "deeplabv3_mobilenet_v3_large", "lraspp_mobilenet_v3_large")
DETECTORS = (
    "fasterrcnn_mobilenet_v3_large_320_fpn", "fasterrcnn_resnet50_fpn", "maskrcnn_resnet50_fpn",
    "keypointrcnn_resnet50_fpn", "retinanet_resnet50_fpn", "fcos_resnet50_fpn",
    "ssdlite320_mobilenet_v3_large", "ssd300_vgg16",
)  # fmt: skip
VIDEOS = ("r3d_18", "mc3_18", "r2plus1d_18", "s3d", "mvit_v2_s", "swin3d_t")


def classifier(name: str, size: int, door: str) -> Case:
    import torchvision

    more = {"init_weights": True} if name in ("googlenet", "inception_v3") else {}
    return Case(
        getattr(torchvision.models, name)(weights=None, **more).eval(), (picture(size),), door=door
    )


def segmenter(name: str) -> Case:
    import torchvision

    made = getattr(torchvision.models.segmentation, name)(
        weights=None, weights_backbone=None, num_classes=5
    )
    return Case(made.eval(), (picture(),), door="script")


def detector(name: str) -> Case:
    """In float64, and every box survives: equal scores would come in another order for the last bit
    of a float32."""
    import torchvision

    if "rcnn" in name:  # few boxes: nms in Python is slow
        few = {
            "rpn_pre_nms_top_n_test": 200,
            "rpn_post_nms_top_n_test": 40,
            "box_detections_per_img": 5,
        }
        more: dict[str, Any] = {"box_score_thresh": 0.0, **few}
    else:
        more = {"score_thresh": 0.0, "topk_candidates": 100, "detections_per_img": 40}
    if "320" not in name and "ssd" not in name:
        more.update(min_size=96, max_size=128)
    made = getattr(torchvision.models.detection, name)(
        weights=None, weights_backbone=None, num_classes=4, **more
    )
    return Case(made.eval().double(), ([torch.rand(3, 100, 120).double()],), door="script")


def video(name: str) -> Case:
    import torchvision

    frames, size = (
        (16, 224)
        if name == "mvit_v2_s"
        else (8, 64)
        if name == "swin3d_t"
        else (14, 224 if name == "s3d" else 64)
    )
    made = getattr(torchvision.models.video, name)(weights=None).eval()
    return Case(made, (torch.rand(1, 3, frames, size, size),), door="trace")


def flow() -> Case:
    import torchvision

    made = torchvision.models.optical_flow.raft_small(weights=None).eval()
    return Case(made, (picture(128), picture(128)), {}, "script")


# -- timm: traced, every fifth exported
# ----------------------------------------------------------------------------------

TIMM = """
resnet10t resnet26d resnet33ts resnetv2_18 seresnet33ts ecaresnet26t skresnet18 resnest14d res2net50_14w_8s gernet_s
regnetx_002 regnety_002 regnetz_b16 cspresnet50 cspdarknet53 darknet17 dla34 dla46_c dpn48b densenet121 nf_resnet26
eca_nfnet_l0 hrnet_w18_small mobilenetv3_small_050 mobilenetv4_conv_small mobileone_s0 ghostnet_050 ghostnetv2_100
hardcorenas_a efficientnet_lite0 efficientnet_es tf_efficientnet_b0 efficientvit_b0 efficientvit_m0 efficientformer_l1
efficientformerv2_s0 edgenext_xx_small fastvit_t8 fbnetc_100 lcnet_035 tinynet_e mixnet_s mnasnet_small rexnet_100
repvgg_a0 repghostnet_050 selecsls42 semnasnet_075 spnasnet_100 starnet_s1 inception_next_atto convnext_atto
convnextv2_atto convit_tiny coat_tiny coatnet_nano_rw_224 maxxvit_rmlp_nano_rw_256 crossvit_9_240 cait_xxs24_224
deit_tiny_patch16_224 davit_tiny eva02_tiny_patch14_224 focalnet_tiny_srf gcvit_xxtiny gmixer_24_224 gmlp_ti16_224
halonet26t lambda_resnet26t botnet26t_256 hiera_tiny_224 levit_128s mambaout_femto mixer_s32_224 mobilevit_xxs
mobilevitv2_050 mvitv2_tiny nest_tiny pit_ti_224 poolformer_s12 poolformerv2_s12 pvt_v2_b0 resmlp_12_224 sequencer2d_s
swinv2_cr_tiny_ns_224 tiny_vit_5m_224 tresnet_m twins_pcpvt_small twins_svt_small visformer_tiny vit_tiny_patch16_224
vit_relpos_small_patch16_224 volo_d1_224 ese_vovnet19b_dw xception41 xcit_nano_12_p16_224 swiftformer_xs rdnet_tiny
repvit_m0_9 hgnetv2_b0 shvit_s1
""".split()


def timm_model(name: str, door: str) -> Case:
    import timm

    made = timm.create_model(name, pretrained=False).eval()
    _, height, width = made.default_cfg["input_size"]
    fixed = made.default_cfg.get("fixed_input_size") or any(
        x in name for x in ("halo", "lambda", "botnet", "coat", "maxx")
    )
    size = (height, width) if fixed else (max(96, height // 64 * 32), max(96, width // 64 * 32))
    return Case(made, (torch.rand(1, 3, *size),), door=door)


# -- transformers: exported, small configurations
# ------------------------------------------------------------------------

SMALL = {
    "vocab_size": 99, "hidden_size": 32, "d_model": 32, "n_embd": 32, "dim": 32,
    "embedding_size": 32, "emb_dim": 32,
    "num_hidden_layers": 2, "n_layer": 2, "n_layers": 2, "num_layers": 2, "encoder_layers": 2,
    "decoder_layers": 2,
    "num_decoder_layers": 2, "num_attention_heads": 4, "n_head": 4, "n_heads": 4, "num_heads": 4,
    "encoder_attention_heads": 4, "decoder_attention_heads": 4, "num_key_value_heads": 2,
    "intermediate_size": 64,
    "ffn_dim": 64, "d_ff": 64, "n_inner": 64, "hidden_dim": 64, "encoder_ffn_dim": 64,
    "decoder_ffn_dim": 64,
    "max_position_embeddings": 64, "n_positions": 64, "head_dim": 8, "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2, "moe_intermediate_size": 32, "num_experts": 4, "num_local_experts": 4,
    "n_routed_experts": 8,
    "n_shared_experts": 1, "num_experts_per_tok": 2, "shared_expert_intermediate_size": 32,
    "d_kv": 8,
    "kv_lora_rank": 16, "q_lora_rank": 16, "qk_nope_head_dim": 8, "qk_rope_head_dim": 8,
    "v_head_dim": 8,
    "ffn_hidden_size": 64, "word_embed_proj_dim": 32, "attention_window": 8, "state_size": 8,
    "d_inner": 64, "rotary_dim": 4, "bottleneck_size": 32,
}  # fmt: skip
TEXTS = """
bert roberta distilbert albert electra deberta deberta-v2 mpnet mobilebert squeezebert camembert xlm-roberta
convbert rembert roformer nystromformer fnet megatron-bert ernie esm layoutlm splinter ibert data2vec-text xmod
gpt2 gpt_neo gpt_neox gptj gpt_bigcode openai-gpt opt bloom codegen biogpt xglm ctrl llama mistral mixtral qwen2
qwen2_moe qwen3 qwen3_moe phi phi3 gemma gemma2 gemma3_text falcon mpt stablelm olmo olmo2 olmoe starcoder2
cohere granite granitemoe persimmon nemotron glm deepseek_v3 smollm3 helium ernie4_5 arcee mamba rwkv
""".split()
SEQ2SEQ = """
t5 bart pegasus m2m_100 marian mbart blenderbot umt5 plbart
""".split()
VISION = """
vit deit beit dinov2 dinov2_with_registers ijepa vit_mae swin swinv2 convnext resnet segformer mobilenet_v2
poolformer pvt_v2 levit regnet yolos siglip_vision_model clip_vision_model hiera focalnet
""".split()
SOUND = """
wav2vec2 hubert wavlm unispeech sew whisper audio-spectrogram-transformer data2vec-audio
""".split()
# What a configuration needs beside SMALL.
MORE: dict[str, dict[str, Any]] = {
    "mobilebert": {"intra_bottleneck_size": 32, "true_hidden_size": 32},
    "convbert": {"conv_kernel_size": 3},
    "rembert": {"input_embedding_size": 32},
    "nystromformer": {"segment_means_seq_len": 12, "num_landmarks": 12},
    "esm": {"mask_token_id": 3},
    "xmod": {"languages": ["en_XX"], "default_language": "en_XX"},
    "gpt_neo": {"attention_types": [[["global", "local"], 1]], "window_size": 8},
    "xglm": {"attention_heads": 4},
    "ctrl": {"dff": 64},
    "deepseek_v3": {
        "first_k_dense_replace": 1,
        "n_group": 2,
        "topk_group": 1,
        "num_key_value_heads": 4,
    },
    "rwkv": {"attention_hidden_size": 32},
    "vit_mae": {"mask_ratio": 0.0},
    "swin": {"embed_dim": 16, "depths": [1, 1], "num_heads": [2, 2], "window_size": 4},
    "swinv2": {"embed_dim": 16, "depths": [1, 1], "num_heads": [2, 2], "window_size": 4},
    "convnext": {"hidden_sizes": [8, 16], "depths": [1, 1], "num_stages": 2},
    "resnet": {
        "hidden_sizes": [8, 16],
        "depths": [1, 1],
        "embedding_size": 8,
        "layer_type": "basic",
    },
    "segformer": {
        "hidden_sizes": [8, 16, 24, 32],
        "depths": [1, 1, 1, 1],
        "num_attention_heads": [1, 1, 2, 2],
    },
    "poolformer": {"hidden_sizes": [8, 16, 24, 32], "depths": [1, 1, 1, 1]},
    "pvt_v2": {
        "hidden_sizes": [8, 16, 24, 32],
        "depths": [1, 1, 1, 1],
        "num_attention_heads": [1, 1, 2, 2],
    },
    "levit": {"image_size": 64},
    "regnet": {
        "hidden_sizes": [8, 16, 24, 32],
        "depths": [1, 1, 1, 1],
        "groups_width": 8,
        "embedding_size": 8,
    },
    "hiera": {"embed_dim": 16},
    "focalnet": {
        "embed_dim": 16,
        "depths": [1, 1],
        "focal_levels": [1, 1],
        "focal_windows": [3, 3],
    },
    "sew": {"squeeze_factor": 2},
    "audio-spectrogram-transformer": {"max_length": 64, "num_mel_bins": 32},
}


def configured(kind: str) -> Any:
    """A configuration of `kind` with everything of SMALL that it has, and MORE."""
    from transformers import CONFIG_MAPPING

    config = CONFIG_MAPPING[kind]()
    chosen = {
        k: v
        for k, v in SMALL.items()
        if isinstance(getattr(config, k, ""), (int, float, type(None), list))
    }
    other_names = CONFIG_MAPPING[kind].attribute_map
    chosen = {k: v for k, v in chosen.items() if other_names.get(k) not in chosen}
    chosen.update(MORE.get(kind, {}))
    if "use_cache" in dir(config):
        chosen["use_cache"] = False
    made = CONFIG_MAPPING[kind](**chosen)
    made._attn_implementation = "sdpa" if kind not in ("whisper",) else "eager"
    return made


def transformer(kind: str, call: Callable[[Any], dict[str, Any]]) -> Case:
    from transformers import AutoModel

    config = configured(kind)
    try:
        made = AutoModel.from_config(config)
    except (ValueError, NotImplementedError):
        config._attn_implementation = "eager"
        made = AutoModel.from_config(config)
    return Case(made.eval(), (), call(config), "export")


def tokens(config: Any) -> dict[str, Any]:
    ids = torch.randint(3, 90, (2, 12))
    mask = torch.ones_like(ids)
    mask[1, 8:] = 0
    return (
        {"input_ids": ids}
        if config.model_type in ("fnet", "mamba", "rwkv")
        else {"input_ids": ids, "attention_mask": mask}
    )


def pairs(config: Any) -> dict[str, Any]:
    return {
        "input_ids": torch.randint(3, 90, (2, 12)),
        "decoder_input_ids": torch.randint(3, 90, (2, 7)),
    }


def pixels(config: Any) -> dict[str, Any]:
    size = getattr(config, "image_size", 64) or 64
    return {
        "pixel_values": torch.rand(
            1, 3, *(size if isinstance(size, (list, tuple)) else (size, size))
        )
    }


def sounds(config: Any) -> dict[str, Any]:
    if config.model_type == "whisper":
        return {
            "input_features": torch.rand(1, config.num_mel_bins, 3000),
            "decoder_input_ids": torch.randint(3, 90, (1, 5)),
        }
    if config.model_type == "audio-spectrogram-transformer":
        return {"input_values": torch.rand(1, config.max_length, config.num_mel_bins)}
    return {"input_values": torch.rand(1, 4000)}


def liven(case: Case) -> None:
    """Gives a fresh model results that depend on its input: what was initialised to zeros (last
    layers, scales of layers) gets small numbers, and batch norms keep the size of their input.
    Without, many a result is a constant, or 1e-13."""
    module = case.module
    with torch.no_grad():
        for name, p in module.named_parameters():
            if p.is_floating_point() and p.numel() and float(p.abs().max()) < 1e-3:
                p.uniform_(-0.2, 0.2) if "bias" not in name else p.uniform_(-0.02, 0.02)
        kind = torch.nn.modules.batchnorm._BatchNorm
        norms = [m for m in module.modules() if isinstance(m, kind) and m.running_var is not None]
        for m in norms:
            m.register_forward_pre_hook(observe)
        if norms:
            module(*case.args, **case.kwargs)
        for m in norms:
            m._forward_pre_hooks.clear()


def observe(norm: Any, args: tuple[torch.Tensor, ...]) -> None:
    """Before a batch norm runs: it is told the size of its input, for all channels alike.

    Each channel's own mean and variance, of one picture, would blow up what hardly varies: then the
    float32 of two libraries differ in the third digit."""
    norm.running_var.fill_(float(args[0].square().mean()) + 1e-6)


def everything() -> Iterator[tuple[str, Callable[[], Case]]]:
    """(name, builder) of all, in a fixed order."""
    bind = functools.partial
    for n, (name, size) in enumerate(CLASSIFIERS.items()):
        yield (
            f"torchvision/{name}",
            bind(classifier, name, size, "export" if n % 4 == 3 else "script"),
        )
    for name in SEGMENTERS:
        yield f"torchvision/{name}", bind(segmenter, name)
    for name in DETECTORS:
        yield f"torchvision/{name}", bind(detector, name)
    for name in VIDEOS:
        yield f"torchvision/{name}", bind(video, name)
    yield "torchvision/raft_small", flow
    for n, name in enumerate(TIMM):
        yield f"timm/{name}", bind(timm_model, name, "export" if n % 5 == 4 else "trace")
    for kinds, call in ((TEXTS, tokens), (SEQ2SEQ, pairs), (VISION, pixels), (SOUND, sounds)):
        for kind in kinds:
            yield f"transformers/{kind}", bind(transformer, kind, call)
