"""Programs that others wrote for PyTorch, and how they are run here: their sources, with other imports.

``MICROGRAD_PORTS`` names a folder with clones of the repositories, as ``owner/name/…``. Run as a script, this lists
which of them are there.
"""

from __future__ import annotations

import ast
import importlib
import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

IMPORTS = (
    (r"^(\s*)import torch$", r"\1import micrograd_core.torch as torch"),
    (r"^(\s*)import torch\.([\w.]+) as (\w+)", r"\1import micrograd_core.torch.\2 as \3"),
    (r"^(\s*)import torch\.([\w.]+)$", r"\1import micrograd_core.torch as torch, micrograd_core.torch.\2"),
    (r"^(\s*)from torch(\.[\w.]+)? import", r"\1from micrograd_core.torch\2 import"),
    (r"^(\s*)from einops(\.layers\.torch)? import", r"\1from micrograd_core.torch.einops import"),
)
"""All that is changed in a source."""


class Program(NamedTuple):
    """A program: where it is, and what to do with it."""

    repository: str
    paths: tuple[str, ...]
    module: str
    make: Callable[[Any, Any], Any]
    """From its module and torch to a model."""
    loss: Callable[..., Any]
    """From module, torch, model and inputs to a number."""
    inputs: Callable[[np.random.Generator], dict[str, Any]]
    script: bool = False
    """Whether only its definitions are run: the rest reads arguments and downloads data."""
    patches: tuple[tuple[str, str], ...] = ()
    """What else is changed: see the table in docs/torch.md."""
    rule: str = "Adam"
    tolerance: float = 2e-4


def images(*shape: int) -> Callable[[np.random.Generator], dict[str, Any]]:
    """Pictures and classes."""
    return lambda rng: {
        "x": rng.standard_normal(shape, dtype=np.float32), "y": rng.integers(0, 10, shape[0])
    }  # fmt: skip


def tokens(rows: int, length: int, words: int) -> Callable[[np.random.Generator], dict[str, Any]]:
    """Sentences, and each word's next one."""
    return lambda rng: {name: rng.integers(0, words, (rows, length)) for name in ("x", "y")}


def classified(m: Any, torch: Any, model: Any, x: Any, y: Any) -> Any:
    """Cross-entropy of what a model says of pictures."""
    return torch.nn.functional.cross_entropy(model(x), y)


def second(m: Any, torch: Any, model: Any, x: Any, y: Any) -> Any:
    """The loss that a language model gives beside its logits."""
    return model(x, y)[1]


def _nanogpt(m: Any, torch: Any) -> Any:
    return m.GPT(m.GPTConfig(block_size=16, vocab_size=50, n_layer=2, n_head=2, n_embd=32, dropout=0.0, bias=True))


def _mingpt(m: Any, torch: Any) -> Any:
    config = m.GPT.get_default_config()
    config.model_type, config.n_layer, config.n_head, config.n_embd = None, 2, 2, 32
    config.vocab_size, config.block_size = 50, 16
    config.embd_pdrop = config.resid_pdrop = config.attn_pdrop = 0.0
    return m.GPT(config)


def _llama(m: Any, torch: Any) -> Any:
    return m.Transformer(m.ModelArgs(dim=32, n_layers=2, n_heads=4, n_kv_heads=2, vocab_size=50, max_seq_len=16))


def _llama_loss(m: Any, torch: Any, model: Any, x: Any, y: Any) -> Any:
    model(x, y)
    return model.last_loss


def _vae_loss(m: Any, torch: Any, model: Any, x: Any, noise: Any) -> Any:
    mu, logvar = model.encode(x)
    return m.loss_function(model.decode(mu + noise * torch.exp(0.5 * logvar)), x, mu, logvar) / len(x)


def _dcgan(m: Any, torch: Any) -> Any:
    m.nz, m.ngf, m.ndf, m.nc = 8, 4, 4, 3
    model = torch.nn.ModuleDict({"g": m.Generator(0), "d": m.Discriminator(0)})
    for each in model.values():
        each.apply(m.weights_init)
    return model


def _dcgan_loss(m: Any, torch: Any, model: Any, z: Any, real: Any) -> Any:
    criterion = torch.nn.BCELoss()
    fake = model["d"](model["g"](z))
    label = torch.full((len(z),), 1.0)
    return criterion(fake, label) + criterion(model["d"](real), label * 0.9)


def _lstm_loss(m: Any, torch: Any, model: Any, x: Any, y: Any) -> Any:
    output, _ = model(x, model.init_hidden(x.shape[1]))
    return torch.nn.NLLLoss()(output, y.reshape(-1))


def _transformer_loss(m: Any, torch: Any, model: Any, x: Any, y: Any) -> Any:
    return torch.nn.NLLLoss()(model(x).view(-1, 50), y.reshape(-1))


def _sines(m: Any, torch: Any, model: Any, x: Any, y: Any) -> Any:
    return torch.nn.MSELoss()(model(x), y)


def _graph(m: Any, torch: Any, model: Any, x: Any, y: Any, adjacency: Any) -> Any:
    return torch.nn.functional.nll_loss(model(x, adjacency), y)


def _graph_inputs(rng: np.random.Generator) -> dict[str, Any]:
    adjacency = (rng.random((12, 12)) < 0.3) | np.eye(12, dtype=bool)
    x = rng.standard_normal((12, 6), dtype=np.float32)
    return {"x": x, "y": rng.integers(0, 3, 12), "adjacency": adjacency.astype(np.float32)}


def _ode(m: Any, torch: Any) -> Any:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))


def _ode_loss(method: str, adjoint: bool) -> Callable[..., Any]:
    def loss(m: Any, torch: Any, model: Any, x: Any, t: Any) -> Any:
        class Field(torch.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.net = model

            def forward(self, t: Any, y: Any) -> Any:
                return self.net(y**3)

        solve = m.odeint_adjoint if adjoint else m.odeint
        return (solve(Field(), x, t, method=method) ** 2).mean()

    return loss


def _ode_inputs(rng: np.random.Generator) -> dict[str, Any]:
    return {"x": rng.standard_normal((4, 2), dtype=np.float32), "t": np.linspace(0.0, 1.0, 5, dtype=np.float32)}


DIFFEQ = tuple(
    f"torchdiffeq/{name}.py"
    for name in "__init__ _impl/__init__ _impl/adaptive_heun _impl/adjoint _impl/bosh3 _impl/dopri5 _impl/dopri8 "
    "_impl/event_handling _impl/fehlberg2 _impl/fixed_adams _impl/fixed_grid _impl/fixed_grid_implicit _impl/interp "
    "_impl/misc _impl/odeint _impl/rk_common _impl/scipy_wrapper _impl/solvers _impl/tsit5".split()
)
SIZES = (
    (r"shape\.numel\(\)", "__import__('math').prod(shape)"),
    (r"scratch\.data\[index\] = value", "scratch = scratch.clone(); scratch[index] = value"),
    (r"torch\.as_strided\((\w+), \(\), \(\)\)", r"\1"),  # PyTorch's bug 39784
)
EXAMPLES, VIT, ODE = "pytorch/examples", "lucidrains/vit-pytorch", "rtqichen/torchdiffeq"
WORDS = "word_language_model/model.py"

PROGRAMS: dict[str, Program] = {
    "nanoGPT": Program("karpathy/nanoGPT", ("model.py",), "model", _nanogpt, second, tokens(3, 16, 50)),
    "minGPT": Program(
        "karpathy/minGPT", ("mingpt/model.py", "mingpt/utils.py"), "mingpt.model", _mingpt, second, tokens(3, 16, 50)
    ),
    "llama2.c": Program("karpathy/llama2.c", ("model.py",), "model", _llama, _llama_loss, tokens(3, 16, 50)),
    "VAE": Program(
        EXAMPLES,
        ("vae/main.py",),
        "main",
        lambda m, torch: m.VAE(),
        _vae_loss,
        lambda rng: {"x": rng.random((4, 784), dtype="f"), "noise": rng.standard_normal((4, 20), dtype="f")},
        script=True,
    ),
    "DCGAN": Program(
        EXAMPLES,
        ("dcgan/main.py",),
        "main",
        _dcgan,
        _dcgan_loss,
        lambda rng: {"z": rng.standard_normal((4, 8, 1, 1), dtype=np.float32), "real": images(4, 3, 64, 64)(rng)["x"]},
        script=True,
    ),
    "word model, LSTM": Program(
        EXAMPLES,
        (WORDS,),
        "model",
        lambda m, torch: m.RNNModel("LSTM", 50, 16, 16, 2, 0.0, True),
        _lstm_loss,
        tokens(7, 3, 50),
    ),
    "word model, GRU": Program(
        EXAMPLES,
        (WORDS,),
        "model",
        lambda m, torch: m.RNNModel("GRU", 50, 16, 24, 2, 0.0, False),
        _lstm_loss,
        tokens(7, 3, 50),
    ),
    "word model, Transformer": Program(
        EXAMPLES,
        (WORDS,),
        "model",
        lambda m, torch: m.TransformerModel(50, 16, 2, 24, 2, 0.0).eval(),
        _transformer_loss,
        tokens(7, 3, 50),
    ),
    "MNIST, CNN": Program(
        EXAMPLES,
        ("mnist/main.py",),
        "main",
        lambda m, torch: m.Net().eval(),
        lambda m, torch, model, x, y: torch.nn.functional.nll_loss(model(x), y),
        images(4, 1, 28, 28),
        script=True,
    ),
    "MNIST, RNN": Program(
        EXAMPLES,
        ("mnist_rnn/main.py",),
        "main",
        lambda m, torch: m.Net().eval(),
        lambda m, torch, model, x, y: torch.nn.functional.nll_loss(model(x), y),
        images(4, 28, 28),
        script=True,
    ),
    "super-resolution": Program(
        EXAMPLES,
        ("super_resolution/model.py",),
        "model",
        lambda m, torch: m.Net(3),
        _sines,
        lambda rng: {"x": images(2, 1, 8, 8)(rng)["x"], "y": images(2, 1, 24, 24)(rng)["x"]},
    ),
    "sines": Program(
        EXAMPLES,
        ("time_sequence_prediction/train.py",),
        "train",
        lambda m, torch: m.Sequence(),
        _sines,
        lambda rng: {name: rng.standard_normal((3, 9)) for name in "xy"},
        script=True,
    ),
    "GCN": Program(
        EXAMPLES,
        ("gcn/main.py",),
        "main",
        lambda m, torch: m.GCN(6, 8, 3, dropout_p=0.0),
        _graph,
        _graph_inputs,
        script=True,
    ),
    "GAT": Program(
        EXAMPLES,
        ("gat/main.py",),
        "main",
        lambda m, torch: m.GAT(6, 8, 2, 3, dropout=0.0),
        _graph,
        _graph_inputs,
        script=True,
    ),
    "style transfer": Program(
        EXAMPLES,
        ("fast_neural_style/neural_style/transformer_net.py",),
        "transformer_net",
        lambda m, torch: m.TransformerNet(),
        lambda m, torch, model, x, y: (model(x) ** 2).mean(),
        images(1, 3, 16, 16),
        rule="SGD",
        tolerance=1e-3,
    ),
    "siamese": Program(
        EXAMPLES,
        ("siamese_network/main.py",),
        "main",
        lambda m, torch: torch.nn.Linear(3, 2),
        lambda m, torch, model, x, y: model(x).sum(),
        images(2, 3),
        script=True,
    ),
    "ViT": Program(
        VIT,
        ("vit_pytorch/vit.py",),
        "vit",
        lambda m, torch: m.ViT(
            image_size=16, patch_size=4, num_classes=10, dim=24, depth=2, heads=2, mlp_dim=32, dim_head=8
        ),
        classified,
        images(3, 3, 16, 16),
    ),
    "simple ViT": Program(
        VIT,
        ("vit_pytorch/simple_vit.py",),
        "simple_vit",
        lambda m, torch: m.SimpleViT(
            image_size=16, patch_size=4, num_classes=10, dim=24, depth=2, heads=2, mlp_dim=32, dim_head=8
        ),
        classified,
        images(3, 3, 16, 16),
    ),
    "CaiT": Program(
        VIT,
        ("vit_pytorch/cait.py",),
        "cait",
        lambda m, torch: m.CaiT(
            image_size=16, patch_size=4, num_classes=10, dim=24, depth=2, cls_depth=1, heads=2, mlp_dim=32, dim_head=8
        ),
        classified,
        images(3, 3, 16, 16),
    ),
    "CCT": Program(
        VIT,
        ("vit_pytorch/cct.py",),
        "cct",
        lambda m, torch: m.CCT(
            img_size=16,
            embedding_dim=24,
            n_conv_layers=1,
            kernel_size=3,
            stride=2,
            padding=1,
            num_layers=2,
            num_heads=2,
            mlp_ratio=2.0,
            num_classes=10,
            dropout_rate=0.0,
            attention_dropout=0.0,
            stochastic_depth_rate=0.0,
        ),
        classified,
        images(3, 3, 16, 16),
    ),
    "torchdiffeq, dopri5": Program(
        ODE, DIFFEQ, "torchdiffeq", _ode, _ode_loss("dopri5", False), _ode_inputs, patches=SIZES
    ),
    "torchdiffeq, adjoint": Program(
        ODE, DIFFEQ, "torchdiffeq", _ode, _ode_loss("rk4", True), _ode_inputs, patches=SIZES
    ),
}


def definitions(source: str) -> str:
    """The imports, classes and functions of a script."""
    tree = ast.parse(source)
    kept = [x for x in tree.body if isinstance(x, (ast.Import, ast.ImportFrom, ast.ClassDef, ast.FunctionDef))]
    elsewhere = ("torchvision", "matplotlib", "data", "utils", "accelerate", "requests", "tarfile")
    tree.body = [x for x in kept if not any(re.match(rf"(import|from) {name}\b", ast.unparse(x)) for name in elsewhere)]
    return ast.unparse(tree)


def source_of(program: Program) -> Path | None:
    """The folder of a program's repository, where somebody has it."""
    folder = os.environ.get("MICROGRAD_PORTS")
    found = None if folder is None else Path(folder) / program.repository
    return found if found is not None and all((found / path).exists() for path in program.paths) else None


@contextmanager
def loaded(program: Program, root: Path, folder: Path, ported: bool) -> Iterator[Any]:
    """The program's module, as it is or with other imports."""
    for path in program.paths:
        text = (root / path).read_text(encoding="utf-8")
        text = definitions(text) if program.script else text
        for pattern, replacement in (*IMPORTS, *program.patches) if ported else ():
            text = re.sub(pattern, replacement, text, flags=re.MULTILINE)
        flat = path if "." in program.module or program.module == "torchdiffeq" else Path(path).name
        target = folder / flat
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
        if len(Path(flat).parts) > 1:
            (target.parent / "__init__.py").touch()
    before = set(sys.modules)
    sys.path.insert(0, str(folder))
    importlib.invalidate_caches()
    try:
        yield importlib.import_module(program.module)
    finally:
        sys.path.remove(str(folder))
        for name in set(sys.modules) - before:
            if str(getattr(sys.modules[name], "__file__", "")).startswith(str(folder)):
                del sys.modules[name]


def training(
    program: Program, m: Any, torch: Any, inputs: dict[str, Any], state: Any
) -> tuple[Callable[[], Any], dict[str, Any]]:
    """A training step that returns its loss, and the model's numbers before the first, as NumPy arrays."""
    model = program.make(m, torch)
    given = {name: torch.as_tensor(x) for name, x in inputs.items()}
    if any(x.dtype == np.float64 for x in inputs.values()):
        model = model.double()
    if state is None:
        state = {name: x.detach().numpy().copy() for name, x in model.state_dict().items()}
    else:
        model.load_state_dict({name: torch.as_tensor(x) for name, x in state.items()})
    rule = getattr(torch.optim, program.rule)(model.parameters(), lr=1e-3)

    def step() -> Any:
        rule.zero_grad()
        loss = program.loss(m, torch, model, **given)
        loss.backward()
        rule.step()
        return loss

    step.model = model  # type: ignore[attr-defined]
    return step, state


def trained(program: Program, m: Any, torch: Any, inputs: dict[str, Any], state: Any, steps: int) -> SimpleNamespace:
    """Losses of some steps, the first step's gradients, and the model's numbers before them, as NumPy arrays."""
    step, state = training(program, m, torch, inputs, state)
    losses = [step().item()]
    named = step.model.named_parameters()  # type: ignore[attr-defined]
    gradients = {n: p.grad.numpy().copy() for n, p in named if p.grad is not None}
    losses += [step().item() for _ in range(steps - 1)]
    return SimpleNamespace(losses=losses, gradients=gradients, state=state)
