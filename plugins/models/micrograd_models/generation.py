"""Text from a language model, one word after the other, with a cache of keys and values; and a folder's tokenizer."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

import micrograd_core as mg
from micrograd_core import Tensor
from micrograd_core.checkpoints import CheckpointError
from micrograd_core.errors import MissingExtra, ShapeError
from micrograd_models.decoders import Decoder

LENGTHS: Final = 64
"""Caches have a multiple of so many places: prompts of other lengths find the program of an earlier call."""


def generate(
    model: Decoder,
    ids: Any,
    max_new_tokens: int = 20,
    *,
    temperature: float = 0.0,
    top_k: int | None = None,
    top_p: float | None = None,
    stop: int | Iterable[int] = (),
    generator: mg.random.Generator | None = None,
    compiled: bool = True,
) -> Any:
    """The words that a language model puts after a prompt, or after several.

    Parameters
    ----------
    model : GPT2 or Llama
    ids : Tensor, array or sequence of int, or sequence of them
        A prompt, or a batch of prompts, which may be of different lengths.
    max_new_tokens : int
        How many words to make at most.
    temperature : float
        0 takes the most likely word each time; other numbers divide the scores before a word is drawn.
    top_k : int, optional
        Draw from so many of the most likely words.
    top_p : float, optional
        Draw from the most likely words that together have this probability (Holtzman et al. 2019).
    stop : int or iterable of int
        Words that end a text. They are part of it.
    generator : Generator, optional
        Where the draws come from; by default the default generator, which `micrograd_core.random.manual_seed` restarts.
    compiled : bool
        Whether the step from one word to the next is one program under `jit`.

    Returns
    -------
    list of int, or list of them
        The new words of the prompt, or of each.

    Raises
    ------
    ShapeError
        When a prompt is empty, or longer with its new words than the model was made for.
    ValueError
        When temperature, `top_k` or `top_p` is out of range.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> from micrograd_models import GPT2, generate
    >>> model = GPT2(vocab_size=50, n_positions=16, n_embd=8, n_layer=2, n_head=2)
    >>> len(generate(model, [1, 2, 3], 5, compiled=False))
    5
    """
    prompts, single = _prompts(ids)
    longest = max(map(len, prompts))
    if longest + max_new_tokens > model.length:
        raise ShapeError(
            f"generate: a prompt of {longest} words and {max_new_tokens} new ones are more than the {model.length} "
            f"positions of this {type(model).__name__}; ask for fewer, or cut the prompt"
        )
    _check(temperature, top_k, top_p)
    stops = {stop} if isinstance(stop, int) else set(stop)
    texts: list[list[int]] = [[] for _ in prompts]
    device, training = model.words.weight.device, model.training
    model.eval()
    try:
        with mg.no_grad():
            cache = model.cache(len(prompts), math.ceil((longest + max_new_tokens) / LENGTHS) * LENGTHS)
            pads = [longest - len(prompt) for prompt in prompts]
            cache = cache._replace(padding=mg.asarray(pads, dtype="int64", device=device))
            rows = [[0] * pad + prompt for pad, prompt in zip(pads, prompts, strict=True)]
            step, words = model.advance, mg.asarray(rows, dtype="int64", device=device)
            for _ in range(max_new_tokens):
                scores, cache = step(words, cache)
                chosen = sample(scores[:, -1], temperature, top_k, top_p, generator)
                for text, word in zip(texts, chosen.tolist(), strict=True):
                    if not text or text[-1] not in stops:
                        text.append(word)
                if all(text[-1] in stops for text in texts):
                    break
                step, words = (model.step if compiled else step), chosen.reshape(-1, 1)
    finally:
        model.train(training)
    return texts[0] if single else texts


def sample(
    scores: Tensor,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    generator: mg.random.Generator | None = None,
) -> Tensor:
    """Choose one word for each row of scores.

    Parameters
    ----------
    scores : Tensor, (batch, words)
        Of floating-point dtype.
    temperature : float, default 1
        0 takes the most likely word; other numbers divide the scores before a word is drawn.
    top_k : int, optional
        Draw from so many of the most likely words.
    top_p : float, optional
        Draw from the most likely words that together have this probability (Holtzman et al. 2019).
    generator : Generator, optional
        Where the draws come from; by default the default generator.

    Returns
    -------
    Tensor, (batch,)
        Of dtype int64.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> from micrograd_models import sample
    >>> sample(mg.asarray([[0.0, 5.0, 1.0]]), temperature=0.0)
    Tensor([1])
    """
    if temperature > 0:
        scores = _drawn(scores.astype("float32") / temperature, top_k, top_p, generator)
    chosen: Tensor = mg.argmax(scores, axis=-1)
    return chosen


def _drawn(scores: Tensor, top_k: int | None, top_p: float | None, generator: mg.random.Generator | None) -> Tensor:
    """Scores with Gumbel's noise, of which the greatest is a draw, and -inf for words that are not drawn from."""
    if top_k is not None and top_k < scores.shape[-1]:
        least = mg.topk(scores, top_k, axis=-1).values[:, -1:]
        scores = mg.where(scores < least, -math.inf, scores)
    if top_p is not None and top_p < 1:
        order = mg.sort(scores, axis=-1, descending=True)
        shares = mg.softmax(order, axis=-1)
        likelier = mg.cumulative_sum(shares, axis=-1) - shares  # of the words before each
        least = mg.min(mg.where(likelier < top_p, order, math.inf), axis=-1, keepdims=True)
        scores = mg.where(scores < least, -math.inf, scores)
    draws = mg.clip(mg.random.uniform(scores.shape, generator=generator, device=scores.device), 1e-30, None)
    noisy: Tensor = scores - mg.log(-mg.log(draws))
    return noisy


def _check(temperature: float, top_k: int | None, top_p: float | None) -> None:
    for name, value, fits, wanted in (
        ("temperature", temperature, temperature >= 0, "0 or more"),
        ("top_k", top_k, top_k is None or top_k >= 1, "1 or more"),
        ("top_p", top_p, top_p is None or 0 < top_p <= 1, "more than 0 and at most 1"),
    ):
        if not fits:
            raise ValueError(f"generate: {name} must be {wanted}; got {value!r}")


def _prompts(ids: Any) -> tuple[list[list[int]], bool]:
    given = ids.tolist() if isinstance(ids, Tensor) or hasattr(ids, "tolist") else list(ids)
    single = not given or not hasattr(given[0], "__len__")
    prompts = [list(map(int, prompt)) for prompt in ([given] if single else given)]
    if not all(prompts):
        raise ShapeError("generate: a prompt has at least one word; give the word that begins a text")
    return prompts, single


class Tokenizer:
    """The tokenizer of a folder, by its tokenizer.json, through the package tokenizers.

    Parameters
    ----------
    folder : str or Path
        What `save_pretrained` of transformers wrote.

    Raises
    ------
    MissingExtra
        When the package tokenizers is not installed.
    CheckpointError
        When there is no tokenizer.json, or it cannot be read.

    Examples
    --------
    >>> import os, tempfile
    >>> import tokenizers
    >>> from micrograd_models import Tokenizer
    >>> folder = tempfile.mkdtemp()
    >>> words = tokenizers.models.WordLevel({"a": 0, "b": 1, "?": 2}, unk_token="?")
    >>> made = tokenizers.Tokenizer(words)
    >>> made.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    >>> made.save(os.path.join(folder, "tokenizer.json"))
    >>> tokenizer = Tokenizer(folder)
    >>> tokenizer.encode("b a"), tokenizer.decode([1, 0])
    ([1, 0], 'b a')
    """

    def __init__(self, folder: str | Path) -> None:
        try:
            import tokenizers
        except ImportError as error:
            raise MissingExtra("Tokenizer", "tokenizers", "tokenizers") from error
        path = Path(folder) / "tokenizer.json"
        if not path.exists():
            raise CheckpointError(f"Tokenizer: {str(folder)!r} holds no tokenizer.json; save_pretrained writes it")
        try:
            self._tokenizer = tokenizers.Tokenizer.from_file(str(path))
        except Exception as error:  # the package raises no class of its own
            raise CheckpointError(f"Tokenizer: {str(path)!r} is damaged: {error}") from error

    def encode(self, text: str) -> list[int]:
        """Turn a text into numbers.

        Parameters
        ----------
        text : str
            Any text.

        Returns
        -------
        list of int
            A number for each word or part of one.
        """
        return list(self._tokenizer.encode(text).ids)

    def decode(self, ids: Sequence[int]) -> str:
        """Turn numbers into a text.

        Parameters
        ----------
        ids : sequence of int
            A number for each word or part of one.

        Returns
        -------
        str
        """
        return str(self._tokenizer.decode(list(ids)))
