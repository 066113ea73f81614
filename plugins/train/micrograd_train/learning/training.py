"""A training from its settings to the files of its folder."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from micrograd_core.device import Device, default_device
from micrograd_core.nn import Module
from micrograd_core.random import Generator, use_generator
from micrograd_core.support import files
from micrograd_train.learning import measures, networks, threads
from micrograd_train.learning.loop import Loop, judged
from micrograd_train.learning.problems import Problem, problem
from micrograd_train.learning.progress import Told
from micrograd_train.learning.settings import DECISIVE, Settings, check, check_size, completed
from micrograd_train.report.results import POSSIBLE, Results, write

CHECKPOINT = "checkpoint.safetensors"
"""What a training that was stopped goes on from."""


def train(settings: Settings, resume: bool = False, group: Any = None) -> dict[str, Any]:
    """Train a network, and write what came of it to a folder.

    All files take the place of a former run's together, when the training is done; until then, and if anything fails,
    those stay as they are. Only the checkpoint, from which a training goes on, is written on the way.

    Parameters
    ----------
    settings : Settings
    resume : bool
        Whether to go on where a training with the same settings stopped: it comes to the same numbers, to the last bit.
    group : micrograd_mpi.World, optional
        The processes that train together. Rank 0 writes; others, or another number of them, may go on from there.

    Returns
    -------
    dict
        What ``metrics.json`` has; and ``out``, the folder, and ``notes``, what was noticed in the data. On other ranks
        than the first it is empty.

    Raises
    ------
    NotSensible, DataError, ModelError, CannotResume
        When settings or data cannot end well; nothing was done.
    CannotWrite
        When the folder cannot be written: before the training, unless the disk is full.
    TrainingDiverged
        When the loss is no longer a number.
    BackendNotFound, DeviceUnavailable
        For a device that cannot be used.
    KeyboardInterrupt
        After Ctrl-C, when all is saved.
    """
    check(settings)
    device = default_device() if settings.device is None else Device(settings.device)
    if settings.out is not None and not settings.out.strip():
        raise files.CannotWrite(settings.out, "a folder has a name")
    given = problem(settings)
    folder = Path(settings.out or f"runs/{Path(given.name).stem}")
    known: dict[str, Any] = completed(settings, len(given.parts["train"][1]))
    name = settings.model or {"images": "cnn", "tokens": "transformer"}.get(given.inputs.kind, "mlp")
    if name == "mlp" and given.inputs.kind != "tokens":
        given = given.shaped((int(np.prod(given.inputs.shape)),))
        sizes = [*given.inputs.shape, *settings.hidden, given.inputs.outputs]
        check_size(sizes, settings, len(given.parts["train"][1]), known["batch_size"])
    settings = replace(settings, model=name, task=given.inputs.task, **known)
    settings = replace(settings, target=given.inputs.target)

    generator = Generator(settings.seed % (1 << 128))
    model = made(settings, given, generator, device)
    identity = {each: _plain(getattr(settings, each)) for each in DECISIVE} | {"rows": given.identity}
    if group is not None:
        group.agree(**{each: x for each, x in settings.as_config().items() if each != "device"}, rows=given.identity)
    loop = Loop(model, given.inputs.task, given.parts, vars(settings), device, identity, group)
    first = group is None or group.rank == 0
    path = folder / CHECKPOINT
    if resume:
        loop.resume(path)
    if first:
        files.check(*(folder / each for each in (*POSSIBLE, CHECKPOINT)))
    count = threads.chosen(model, known["batch_size"] * (given.inputs.shape[0] if given.inputs.tokens else 1))
    with np.errstate(all="ignore"), threads.limited(count):  # a loss that overflows is reported
        written = (settings.log or "", settings.tensorboard or "") if first else ("", "")
        told = Told(known["epochs"], len(loop.batches), loop.metric, *written, shown=first)
        with told:
            if resume:
                told.resume(loop.history, loop.batches.position)
            loop.run(told, path)
        if not first:
            return {}
        results = judge(settings, given, model, loop, device)
    results.metrics.update(seconds=round(sum(row["seconds"] for row in loop.history), 3), threads=count or "all")
    write(results, folder)
    return results.metrics | {"out": str(folder), "notes": list(given.notes)}


def made(settings: Settings, given: Problem, generator: Generator, device: Device) -> Module:
    """The network before it has learned anything."""
    inputs = given.inputs
    wanted = networks.Wanted(inputs.shape, inputs.outputs, inputs.tokens, tuple(settings.hidden), settings.dropout)
    with use_generator(generator):  # for what a network of the user's own draws
        model = networks.make(settings.model or "mlp", wanted, generator, device)
    return model.to(device)


def judge(settings: Settings, given: Problem, model: Module, loop: Loop, device: Device) -> Results:
    """All figures and all that pictures are made of."""
    inputs = given.inputs
    parts = {name: judged(model, inputs.task, *rows, device) for name, rows in given.parts.items()}
    last = next(name for name in ("test", "validation", "train") if name in given.parts)
    x, y = given.parts[last]
    seen = measures.judge(inputs, model, x, y, device)
    best = loop.best["epoch"] or len(loop.history)
    rates = [row["samples_per_second"] for row in loop.history]
    metric = loop.metric
    history: dict[str, Any] = {"loss": [row["loss"] for row in loop.history]}
    history[f"train_{metric}"] = [row[metric] for row in loop.history]
    if loop.watched is not None:
        for each in ("loss", metric):
            history[f"validation_{each}"] = [row[f"validation_{each}"] for row in loop.history]
    metrics: dict[str, Any] = {
        "data": settings.data,
        "task": inputs.task,
        "target": inputs.target,
        "model": settings.model,
        "hidden": list(settings.hidden),
        "parameters": sum(p.size for p in model.parameters()),
        "device": str(device),
        "seed": settings.seed,
        "rows": {name: len(y) for name, (_, y) in given.parts.items()},
        "epochs": len(loop.history),
        "best_epoch": best,
        **history,
        **{name: figures for name, figures in parts.items() if name != last},
        last: seen["figures"] | parts[last],
        "judged_on": last,
        "samples_per_second": round(sum(rates) / len(rates)),
    }
    if "by_class" in seen:
        metrics["classes"] = seen["by_class"]
        metrics["confusion"] = seen["confusion"].tolist()
    found = measures.importance(inputs, model, given.parts["train"][0], device)
    if found is not None and inputs.preparation is not None:
        names = [column.name for column in inputs.preparation.columns]
        metrics["importance"] = dict(sorted(zip(names, found.tolist(), strict=True), key=lambda each: -each[1]))
    edge = measures.boundary(inputs, model, x, device)
    return Results(settings, given, model, metrics, seen, found, edge, last)


def _plain(x: Any) -> Any:
    return list(x) if isinstance(x, tuple) else x
