"""Text from language models: with a cache as without one, drawn as asked for, stopped where asked for."""

from __future__ import annotations

import copy
import gc
import pickle
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import micrograd_core as mg
from micrograd_core.checkpoints import CheckpointError
from micrograd_core.errors import ShapeError
from micrograd_models import GPT2, Llama, Tokenizer, generate, sample


def gpt2() -> GPT2:
    return GPT2(vocab_size=17, n_positions=40, n_embd=8, n_layer=2, n_head=2)


def llama() -> Llama:
    return Llama(
        vocab_size=17, hidden_size=8, intermediate_size=12, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=40,
    )  # fmt: skip


@pytest.fixture(params=[gpt2, llama])
def model(request: Any) -> Any:
    mg.random.manual_seed(3)
    made = request.param()
    with mg.no_grad():
        for p in made.parameters():
            p.data = p.data * 3  # words that are chosen differ
    return made


def chosen(model: Any, prompt: list[int], count: int) -> list[int]:
    """The likeliest words, each by reading all of the text again."""
    ids = list(prompt)
    with mg.no_grad():
        for _ in range(count):
            ids.append(int(mg.argmax(model(mg.asarray([ids]))[0, -1]).item()))
    return ids[len(prompt) :]


def test_logits_with_a_cache_are_those_without(model: Any) -> None:
    ids = mg.random.randint((3, 12), 0, 17)
    with mg.no_grad():
        whole, cache, parts = model(ids), model.cache(3, 16), []
        for start, stop in ((0, 5), (5, 6), (6, 7), (7, 10), (10, 12)):
            scores, cache = (model.step if stop - start == 1 else model.advance)(ids[:, start:stop], cache)
            parts.append(scores)
    assert cache.position.item() == 12
    np.testing.assert_allclose(mg.concat(parts, axis=1).numpy(), whole.numpy(), rtol=1e-4, atol=1e-3)


def test_padding_at_the_left_changes_nothing(model: Any) -> None:
    with mg.no_grad():
        cache = model.cache(1, 16)._replace(padding=mg.asarray([3]))
        scores, cache = model.advance(mg.asarray([[0, 0, 0, 4, 5, 6]]), cache)
        alone = model(mg.asarray([[4, 5, 6]]))
        np.testing.assert_allclose(scores[:, 3:].numpy(), alone.numpy(), rtol=1e-4, atol=1e-3)
        scores, _ = model.advance(mg.asarray([[7]]), cache)
        alone = model(mg.asarray([[4, 5, 6, 7]]))
        np.testing.assert_allclose(scores[:, -1].numpy(), alone[:, -1].numpy(), rtol=1e-4, atol=1e-3)


def test_the_likeliest_words(model: Any) -> None:
    wanted = chosen(model, [3, 4, 5], 12)
    assert generate(model, [3, 4, 5], 12) == wanted
    assert model.step.traces == 1
    assert generate(model, mg.asarray([3, 4, 5]), 12, compiled=False) == wanted
    batch = generate(model, [[7], [3, 4, 5], [3, 4]], 12)
    assert batch == [chosen(model, [7], 12), wanted, chosen(model, [3, 4], 12)]
    assert generate(model, np.array([[3, 4, 5]]), 7) == [wanted[:7]]
    assert model.step.traces == 2  # for one row, and for three


def test_it_stops_at_words(model: Any) -> None:
    text = chosen(model, [3, 4, 5], 12)
    stop = text[4]
    assert generate(model, [3, 4, 5], 12, stop=stop) == text[: text.index(stop) + 1]
    other = chosen(model, [7], 12)
    cut = [x[: x.index(stop) + 1] if stop in x else x for x in (text, other)]
    assert generate(model, [[3, 4, 5], [7]], 12, stop=[stop, 99]) == cut


def test_draws_are_those_of_the_generator(model: Any) -> None:
    def draw(seed: int, **how: Any) -> Any:
        return generate(model, [[3, 4], [5, 6]], 12, temperature=2.0, generator=mg.random.Generator(seed), **how)

    assert draw(1) == draw(1)
    assert draw(1) == draw(1, compiled=False)
    assert draw(1) != draw(2)
    mg.random.manual_seed(5)
    first = generate(model, [3], 8, temperature=1.0)
    mg.random.manual_seed(5)
    assert generate(model, [3], 8, temperature=1.0) == first
    assert draw(1, top_k=1)[0] == chosen(model, [3, 4], 12)


def shares(count: int = 4000, **how: Any) -> Any:
    scores = mg.log(mg.asarray([[0.5, 0.2, 0.15, 0.1, 0.05]]))
    rows = mg.broadcast_to(scores, (count, 5))
    drawn = sample(rows, generator=mg.random.Generator(0), **how).numpy()
    return np.bincount(drawn, minlength=5) / count


def test_how_often_words_are_drawn() -> None:
    np.testing.assert_allclose(shares(), [0.5, 0.2, 0.15, 0.1, 0.05], atol=0.03)
    np.testing.assert_allclose(shares(top_k=2), [5 / 7, 2 / 7, 0, 0, 0], atol=0.03)
    np.testing.assert_allclose(shares(top_p=0.8), [10 / 17, 4 / 17, 3 / 17, 0, 0], atol=0.03)
    np.testing.assert_allclose(shares(top_p=0.01), [1, 0, 0, 0, 0])
    np.testing.assert_allclose(shares(top_k=3, top_p=0.7), [5 / 7, 2 / 7, 0, 0, 0], atol=0.03)
    root = np.sqrt([0.5, 0.2, 0.15, 0.1, 0.05])
    np.testing.assert_allclose(shares(temperature=2.0), root / root.sum(), atol=0.03)
    np.testing.assert_allclose(shares(temperature=0), [1, 0, 0, 0, 0])


def test_what_cannot_be(model: Any) -> None:
    with pytest.raises(ShapeError, match="a prompt of 30 words and 11 new ones are more than the 40 positions of this"):
        generate(model, [1] * 30, 11)
    assert len(generate(model, [1] * 30, 10)) == 10
    for prompt in ([], [[1], []]):
        with pytest.raises(ShapeError, match="at least one word"):
            generate(model, prompt)
    for how, message in (
        ({"temperature": -1.0}, "temperature must be 0 or more; got -1.0"),
        ({"top_k": 0}, "top_k must be 1 or more; got 0"),
        ({"top_p": 1.5}, "top_p must be more than 0 and at most 1; got 1.5"),
    ):
        with pytest.raises(ValueError, match=message):
            generate(model, [1], **how)


def test_models_keep_their_mode_are_copied_and_die(model: Any) -> None:
    model.train()
    wanted = generate(model, [1, 2], 4)
    assert model.training
    other = copy.deepcopy(model)
    with mg.no_grad():
        other.words.weight.data = mg.random.normal(other.words.weight.shape)
    assert generate(other, [1, 2], 4) == chosen(other, [1, 2], 4)
    assert generate(model, [1, 2], 4) == wanted
    assert generate(pickle.loads(pickle.dumps(model)), [1, 2], 4) == wanted
    gone = weakref.ref(other)
    del other
    gc.collect()
    assert gone() is None


def test_a_checkpoint_of_ours(model: Any, tmp_path: Path) -> None:
    mg.checkpoints.save(tmp_path / "a.safetensors", model=model)
    other = gpt2() if isinstance(model, GPT2) else llama()
    mg.checkpoints.load(tmp_path / "a.safetensors", model=other)
    assert generate(other, [1, 2], 4) == generate(model, [1, 2], 4)


def test_a_tokenizer_is_that_of_the_folder(tmp_path: Path) -> None:
    tokenizers = pytest.importorskip("tokenizers")
    with pytest.raises(CheckpointError, match=r"holds no tokenizer\.json"):
        Tokenizer(tmp_path)
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(CheckpointError, match=r"tokenizer\.json' is damaged"):
        Tokenizer(tmp_path)
    theirs = tokenizers.Tokenizer(tokenizers.models.WordLevel({"a": 0, "b": 1, "?": 2}, unk_token="?"))
    theirs.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    theirs.save(str(tmp_path / "tokenizer.json"))
    tokenizer = Tokenizer(tmp_path)
    assert tokenizer.encode("b a c") == [1, 0, 2]
    assert tokenizer.decode([1, 0]) == "b a"
