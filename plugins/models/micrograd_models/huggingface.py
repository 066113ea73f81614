"""Models from folders as `transformers` saves them: config.json, and tensors in files of safetensors.

A family is a class, and a table of how names in such files become names here.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from micrograd_core import Device, Tensor, chunk, nn
from micrograd_core.checkpoints import CheckpointError
from micrograd_core.checkpoints.container import Contents
from micrograd_core.device import default_device
from micrograd_core.errors import ShapeError, one_of
from micrograd_models.decoders import GPT2, Llama
from micrograd_models.encoders import BERT, ViT, WhisperEncoder
from micrograd_models.resnet import ResNet

State = dict[str, Tensor]
INDEX: Final = "model.safetensors.index.json"
WEIGHTS: Final = "model.safetensors"


class Family(NamedTuple):
    """A kind of models: what makes one, and what its files call what."""

    make: Callable[..., nn.Module]
    names: tuple[tuple[str, str], ...]
    """Patterns in names, and what takes their place, one after the other."""
    left: str = r"(?!)"
    """Which names have no counterpart here."""
    convert: Callable[[State], State] = lambda state: state
    fixed: Mapping[str, Any] = {}
    """Settings of config.json that a model here has in one way only."""


def _gpt2(state: State) -> State:
    """GPT-2 keeps weights (inputs, outputs), and those of query, key and value side by side."""
    found = {}
    for name, x in state.items():
        x = x.T if re.search(r"(projection|output|up|down)\.weight$", name) else x
        if ".projection." in name:
            for part, each in zip(("query", "key", "value"), chunk(x, 3, axis=0), strict=True):
                found[name.replace("projection", part)] = each
        else:
            found[name] = x
    return found


_BERT_BLOCK = (
    (r"^encoder\.layer\.", "blocks."),
    (r"attention\.(self|attention)\.", "attention."),
    (r"attention\.output\.dense", "attention.output"),
    (r"intermediate\.dense", "perceptron.up"),
    (r"(\d+)\.output\.dense", r"\1.perceptron.down"),
    (r"^pooler\.dense", "pooler"),
)

FAMILIES: Final[dict[str, Family]] = {
    "gpt2": Family(
        GPT2,
        (
            (r"^transformer\.", ""), (r"^wte", "words"), (r"^wpe", "places"), (r"^h\.", "blocks."), (r"^ln_f", "norm"),
            (r"ln_([12])", r"norm\1"), (r"attn\.c_attn", "attention.projection"), (r"attn\.c_proj", "attention.output"),
            (r"mlp\.c_fc", "perceptron.up"), (r"mlp\.c_proj", "perceptron.down"), (r"^lm_head", "head"),
        ),
        left=r"\.attn\.(masked_)?bias$",
        convert=_gpt2,
        fixed={
            "scale_attn_by_inverse_layer_idx": False, "scale_attn_weights": True, "add_cross_attention": False,
        },
    ),
    "llama": Family(
        Llama,
        (
            (r"^model\.", ""), (r"^embed_tokens", "words"), (r"^layers\.", "blocks."), (r"input_layernorm", "norm1"),
            (r"post_attention_layernorm", "norm2"), (r"self_attn\.([qkvo])_proj", r"attention.\1"),
            (r"attention\.q\.", "attention.query."), (r"attention\.k\.", "attention.key."),
            (r"attention\.v\.", "attention.value."), (r"attention\.o\.", "attention.output."),
            (r"mlp\.(gate|up|down)_proj", r"perceptron.\1"), (r"^lm_head", "head"),
        ),
        left=r"rotary_emb\.inv_freq$",
    ),
    "bert": Family(
        BERT,
        (
            (r"^bert\.", ""), (r"\.gamma$", ".weight"), (r"\.beta$", ".bias"), *_BERT_BLOCK,
            (r"^embeddings\.word_embeddings", "words"), (r"^embeddings\.position_embeddings", "places"),
            (r"^embeddings\.token_type_embeddings", "kinds"), (r"^embeddings\.LayerNorm", "norm"),
            (r"attention\.output\.LayerNorm", "norm1"), (r"(\d+)\.output\.LayerNorm", r"\1.norm2"),
            (r"^cls\.predictions\.transform\.dense", "transform.dense"),
            (r"^cls\.predictions\.transform\.LayerNorm", "transform.norm"), (r"^cls\.predictions\.bias", "head.bias"),
            (r"^cls\.predictions\.decoder", "head"), (r"^classifier", "head"),
        ),
        left=r"position_ids$|^cls\.seq_relationship\.",
        fixed={"is_decoder": False, "add_cross_attention": False, "position_embedding_type": "absolute"},
    ),
    "vit": Family(
        ViT,
        (
            (r"^vit\.", ""), *_BERT_BLOCK, (r"layernorm_before", "norm1"), (r"layernorm_after", "norm2"),
            (r"^layernorm", "norm"), (r"^embeddings\.cls_token", "whole"),
            (r"^embeddings\.position_embeddings", "places"), (r"^embeddings\.patch_embeddings\.projection", "patches"),
            (r"^classifier", "head"),
        ),
        left=r"mask_token$",
        fixed={"pooler_act": "tanh"},
    ),
    "whisper": Family(
        WhisperEncoder,
        (
            (r"^model\.", ""), (r"^encoder\.", ""), (r"^embed_positions", "places"), (r"^layers\.", "blocks."),
            (r"^layer_norm", "norm"), (r"self_attn_layer_norm", "norm1"), (r"final_layer_norm", "norm2"),
            (r"self_attn\.q_proj", "attention.query"), (r"self_attn\.k_proj", "attention.key"),
            (r"self_attn\.v_proj", "attention.value"), (r"self_attn\.out_proj", "attention.output"),
            (r"fc1", "perceptron.up"), (r"fc2", "perceptron.down"),
        ),
        left=r"^(model\.)?decoder\.|^proj_out\.|^classifier\.|^projector\.|^layer_weights$",
    ),
    "resnet": Family(
        ResNet,
        (
            (r"^resnet\.", ""), (r"^embedder\.embedder", "stem"), (r"^encoder\.stages\.(\d+)\.layers\.", r"stages.\1."),
            (r"\.layer\.", ".layers."), (r"normalization", "norm"), (r"^classifier\.1", "head"),
        ),
    ),
}  # fmt: skip

ARCHITECTURES: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    "GPT2Model": ("gpt2", {"head": False}), "GPT2LMHeadModel": ("gpt2", {"head": True}),
    "LlamaModel": ("llama", {"head": False}), "LlamaForCausalLM": ("llama", {"head": True}),
    "BertModel": ("bert", {"head": None}), "BertForMaskedLM": ("bert", {"head": "words"}),
    "BertForPreTraining": ("bert", {"head": "words"}), "BertForSequenceClassification": ("bert", {"head": "classes"}),
    "ViTModel": ("vit", {}), "ViTForImageClassification": ("vit", {"classes": None}),
    "WhisperModel": ("whisper", {}), "WhisperForConditionalGeneration": ("whisper", {}),
    "WhisperForAudioClassification": ("whisper", {}),
    "ResNetModel": ("resnet", {}), "ResNetForImageClassification": ("resnet", {"classes": None}),
}  # fmt: skip
"""By the names in config.json: the family, and what else its class is told; `classes` of None are counted."""


def from_huggingface(
    folder: str | Path, *, device: str | Device | None = None, dtype: Any = "float32", **settings: Any
) -> Any:
    """The model in a folder that `save_pretrained` of `transformers` wrote, with its weights.

    Parameters
    ----------
    folder : str or Path
        With config.json, and model.safetensors or model.safetensors.index.json and the files that this names.
    device : str or Device, optional
        Where the model is; by default the default device.
    dtype : DType or str
        Of the parameters; files may have others, such as bfloat16.
    **settings
        Take the place of what config.json says, such as ``classes=3``, ``head=False`` or ``rope_interleaved=True``.

    Returns
    -------
    Module
        A `GPT2`, `Llama`, `BERT`, `ViT`, `WhisperEncoder` or `ResNet`, in ``eval()`` mode.

    Raises
    ------
    CheckpointError
        When a file is missing or damaged, the architecture or one of its settings is unknown here, tensors are missing,
        unexpected or of other shapes, or weights are pickled. Nothing in a file is run.

    Examples
    --------
    >>> import json, pathlib, tempfile
    >>> import micrograd_core as mg
    >>> from micrograd_models import from_huggingface
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "config.json").write_text(json.dumps({"architectures": ["MambaModel"]}))
    >>> try:
    ...     from_huggingface(folder)
    ... except mg.checkpoints.CheckpointError as error:
    ...     print(str(error).partition("; ")[2][:41])
    there are GPT2Model, GPT2LMHeadModel, Lla
    """
    folder = Path(folder)
    config = _json(folder, "config.json")
    name = (config.get("architectures") or [None])[0]
    if name not in ARCHITECTURES:
        raise CheckpointError(
            f"from_huggingface: {str(folder)!r} holds the architecture {name!r}; there are {one_of(ARCHITECTURES)}"
        )
    kind, extra = ARCHITECTURES[name]
    family = FAMILIES[kind]
    for setting, wanted in family.fixed.items():
        if config.get(setting, wanted) != wanted:
            raise CheckpointError(
                f"from_huggingface: {name} is known here with {setting}={wanted!r}; {str(folder)!r} has "
                f"{config[setting]!r}"
            )
    place = Device(device) if isinstance(device, str) else device or default_device()
    state = family.convert(_renamed(family, _read(folder, place)))
    if "classes" in extra or extra.get("head") == "classes":
        extra = {**extra, "classes": len(config.get("id2label") or (0, 1))}
    told = {**config, **extra, "pooler": "pooler.weight" in state, **settings}
    known = inspect.signature(family.make).parameters
    for setting in settings.keys() - known.keys():
        raise TypeError(f"from_huggingface: {name} has no setting {setting!r}; there are {one_of(known)}")
    try:
        model = family.make(**{each: told[each] for each in known if each in told}).to(place, dtype)
    except (KeyError, ValueError) as error:
        raise CheckpointError(f"from_huggingface: config.json in {str(folder)!r}: {error}") from error
    _load(folder, model, state, new="classes" in settings or "head" in settings)
    return model.eval()


def _load(folder: Path, model: nn.Module, state: State, new: bool) -> None:
    """Fill a model; with `new` the layers behind its blocks keep their random numbers where they are other ones."""
    own = model.state_dict()
    if new:
        behind = [name for name in {**own, **state} if name.split(".")[0] in ("head", "transform", "pooler")]
        kept = [name for name in behind if name in own and name in state and own[name].shape == state[name].shape]
        state = {name: x for name, x in state.items() if name not in behind or name in kept}
        state |= {name: own[name] for name in behind if name in own and name not in state and not _tied(model, name)}
    try:
        model.load_state_dict(state)
    except ShapeError as error:
        said = str(error).removeprefix("load_state_dict: ").partition("; load_state_dict(")[0]
        raise CheckpointError(
            f"from_huggingface: the tensors in {str(folder)!r} are not those of its config.json: {said}"
        ) from error


def _tied(model: nn.Module, name: str) -> bool:
    return name not in dict(model.named_tensors())


def _renamed(family: Family, state: State) -> State:
    found = {}
    for name, x in state.items():
        if not re.search(family.left, name):
            for pattern, word in family.names:
                name = re.sub(pattern, word, name)
            found[name] = x
    return found


def _read(folder: Path, device: Device) -> State:
    """All tensors in a folder, by the names in its files."""
    if (folder / INDEX).exists():
        files = _json(folder, INDEX).get("weight_map", {})
        for name in set(files.values()):
            if Path(str(name)).name != name:
                raise CheckpointError(f"from_huggingface: {INDEX} names {name!r}, which is no file of {str(folder)!r}")
    elif (folder / WEIGHTS).exists():
        files = {"": WEIGHTS}
    else:
        raise CheckpointError(_without_weights(folder))
    state: State = {}
    for name in sorted(set(files.values())):
        contents = Contents(folder / name)
        state |= contents.read([*contents.tensors], device)
    return state


def _without_weights(folder: Path) -> str:
    pickled = sorted(path.name for path in folder.glob("*.bin"))
    if not pickled:
        return f"from_huggingface: {str(folder)!r} holds neither {WEIGHTS} nor {INDEX}"
    return (
        f"from_huggingface: {str(folder)!r} holds its weights in {pickled[0]}, a pickle, which may run any program "
        "when it is opened, so that micrograd does not. If you trust it, write them anew where transformers and torch "
        f"are installed: transformers.AutoModel.from_pretrained({str(folder)!r}).save_pretrained({str(folder)!r})"
    )


def _json(folder: Path, name: str) -> dict[str, Any]:
    try:
        found = json.loads((folder / name).read_text("utf-8"))
    except OSError as error:
        raise CheckpointError(
            f"from_huggingface: cannot read {name} in {str(folder)!r}: {error.strerror}; name a folder that "
            "save_pretrained of transformers wrote"
        ) from error
    except ValueError as error:
        raise CheckpointError(f"from_huggingface: {name} in {str(folder)!r} is no JSON: {error}") from error
    if not isinstance(found, dict):
        raise CheckpointError(f"from_huggingface: {name} in {str(folder)!r} holds no settings by name")
    return found
