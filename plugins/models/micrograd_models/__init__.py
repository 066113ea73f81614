"""Models that others have trained, in and out: folders of `transformers`, text from language models, ONNX."""

from micrograd_models.decoders import GPT2, Llama
from micrograd_models.encoders import BERT, ViT, WhisperEncoder
from micrograd_models.generation import Tokenizer, generate, sample
from micrograd_models.huggingface import from_huggingface
from micrograd_models.reader import ONNXModel, from_onnx
from micrograd_models.resnet import ResNet

__all__ = [
    "BERT", "GPT2", "Llama", "ONNXModel", "ResNet", "Tokenizer", "ViT", "WhisperEncoder", "from_huggingface",
    "from_onnx", "generate", "sample",
]  # fmt: skip
