"""micrograd's networks: its contract on Values, and the same weights for batches, optimisers and devices."""

from __future__ import annotations

import copy
import pickle
import random
from typing import Any

import numpy as np
import pytest

from micrograd_core import MLP, Device, Layer, Neuron, Tensor, Value, asarray, nn, no_grad, optim
from micrograd_core.errors import DeviceMismatch, GraphError, ShapeError

DEVICES = ("cpu", "rawbuffer:0", "strict:0")


@pytest.fixture(params=DEVICES)
def place(request: pytest.FixtureRequest) -> Device:
    return Device(request.param)


def seeded(seed: int, *args: Any, **options: Any) -> MLP:
    return MLP(*args, generator=random.Random(seed), **options)


def gradients(model: Any) -> list[float]:
    return [p.grad for p in model.parameters()]


def test_a_seeded_network_is_micrograds_in_weights_outputs_and_gradients() -> None:
    peer = pytest.importorskip("micrograd.nn")
    value = pytest.importorskip("micrograd.engine").Value
    random.seed(1337)
    ours = MLP(3, [4, 4, 1])
    random.seed(1337)
    theirs = peer.MLP(3, [4, 4, 1])
    assert [p.data for p in ours.parameters()] == [p.data for p in theirs.parameters()]
    assert repr(ours) == repr(theirs)
    x = [0.5, -1.5, 2.0]
    mine, his = [Value(each) for each in x], [value(each) for each in x]
    y, z = ours(mine), theirs(his)
    y.backward()
    z.backward()
    assert y.data == pytest.approx(z.data, rel=1e-12)
    assert gradients(ours) == pytest.approx(gradients(theirs), rel=1e-9)
    assert [v.grad for v in mine] == pytest.approx([v.grad for v in his], rel=1e-9)


def test_the_readme_example_of_the_rust_engine() -> None:
    model = MLP(3, [4, 4, 1])
    y = model([Value(1.0), Value(2.0), Value(-1.0)])
    y.backward()
    assert len(model.parameters()) == 41
    assert any(p.grad != 0.0 for p in model.parameters())


def test_micrograds_training_loop_learns(place: Device) -> None:
    rng = random.Random(0)
    points = [(rng.uniform(-1, 1), rng.uniform(-1, 1)) for _ in range(12)]
    labels = [1.0 if x * y > 0 else -1.0 for x, y in points]
    model = seeded(4, 2, [6, 1], device=place)
    losses = []
    for _ in range(15 if place.is_cpu() else 2):
        scores = [model([Value(x, place) for x in point]) for point in points]
        data_loss = sum((1 + -label * score).relu() for label, score in zip(labels, scores, strict=True)) * (1 / 12)
        total = data_loss + 1e-4 * sum(p * p for p in model.parameters())
        model.zero_grad()
        total.backward()
        for p in model.parameters():
            p.data -= 0.5 * p.grad
        losses.append(total.data)
    assert losses[-1] < losses[0] * (0.6 if place.is_cpu() else 1.0)


def test_values_and_a_batch_give_the_same_numbers_and_gradients(place: Device) -> None:
    rows = [[0.1, -0.7, 0.4], [1.0, 0.2, -0.3]]
    model = seeded(1, 3, [5, 2], device=place)
    outputs = [model([Value(x, place) for x in row]) for row in rows]
    sum(y * y for row in outputs for y in row).backward()
    scalar = gradients(model)
    model.zero_grad()
    batch = model(Tensor(rows, dtype="float64", device=place))
    assert batch.tolist() == [pytest.approx([y.data for y in row], rel=1e-12) for row in outputs]
    (batch * batch).sum().backward()
    assert gradients(model) == pytest.approx(scalar, rel=1e-9)
    assert batch.device is place


def test_parameters_are_views_of_the_matrices(place: Device) -> None:
    model = seeded(1, 2, [3, 1], device=place)
    first, last = model.parameters()[0], model.parameters()[-1]
    assert model.parameters()[0] is first
    first.data = 7.0
    last.data -= 2
    assert model.layers[0].weight.tolist()[0][0] == 7.0
    assert model.layers[1].bias.tolist() == [-2.0]
    with no_grad():
        model.layers[0].weight[0, 0] = 5.0
    assert first.data == 5.0
    assert first.grad == 0.0
    first.grad = 3.0
    assert model.layers[0].weight.grad.tolist() == [[3.0, 0.0], [0.0, 0.0], [0.0, 0.0]]
    model.zero_grad()
    assert first.grad == 0.0
    (first * first + last).backward()
    assert (first.grad, last.grad) == (10.0, 1.0)
    first.backward()
    assert first.grad == 11.0
    assert first._prev == set()


def test_assigning_a_parameter_leaves_what_was_recorded_alone(place: Device) -> None:
    model = seeded(1, 2, [1], device=place)
    weight = model.layers[0].weight
    before = weight.tolist()
    x = Tensor([[1.0, 2.0]], dtype="float64", device=place)
    batch, scalar, kept = model(x), model([Value(1.0, place), Value(2.0, place)]), weight.detach()
    model.parameters()[0].data = 100.0
    batch.sum().backward()
    scalar.backward()
    assert x.grad is not None
    assert x.grad.tolist() == before
    assert kept.tolist() == before
    assert gradients(model) == [2.0, 4.0, 2.0]
    assert weight.tolist()[0][0] == 100.0


def test_backward_may_be_called_again_and_adds_up() -> None:
    model = seeded(2, 3, [4, 1])
    y = model([Value(1.0), 2.0, Value(-1.0)])
    y.backward()
    once = gradients(model)
    y.backward()
    assert gradients(model) == pytest.approx([2 * g for g in once])


def test_a_call_with_values_records_one_node_with_a_step_per_layer() -> None:
    model = seeded(2, 3, [4, 4, 2])
    x = [Value(1.0), Value(2.0), Value(3.0)]
    u, v = model(x)
    assert u._a is v._a
    assert len(u._a.steps) == 3
    assert u._a.inputs == x
    with no_grad():
        assert model(x)[0]._prev == set()


# ── what code that walks graphs sees ─────────────────────────────────────────────────────────────────────────


def written_out(model: Any, x: list[Any]) -> list[Any]:
    """The outputs of a network, computed on its parameters value by value."""
    for layer in model.stages():
        outputs = []
        for neuron in layer.neurons:
            total = neuron.b
            for w, each in zip(neuron.w, x, strict=True):
                total = total + w * each
            outputs.append(total.relu() if layer.nonlin else total)
        x = outputs
    return x


def graph(*roots: Any) -> tuple[list[Any], set[tuple[int, int]]]:
    """What draw_dot collects: nodes and edges, by `_prev`."""
    nodes: dict[int, Any] = {}
    edges = set()
    waiting = list(roots)
    while waiting:
        node = waiting.pop()
        if id(node) in nodes:
            continue
        nodes[id(node)] = node
        for child in node._prev:
            edges.add((id(child), id(node)))
            waiting.append(child)
    return list(nodes.values()), edges


def shape_of(root: Any, known: dict[int, Any]) -> Any:
    """A node by what can be read off it: operation, number, gradient, and the same of its operands in any order."""
    if id(root) not in known:
        below = sorted((shape_of(child, known) for child in root._prev), key=repr)
        known[id(root)] = root, (root._op, f"{root.data:.9g}", f"{root.grad:.9g}", tuple(below))
    return known[id(root)][1]


@pytest.mark.parametrize("when", ["before", "between", "after", "one before"])
@pytest.mark.parametrize("sizes", [(1, [1]), (2, [1]), (3, [2]), (2, [3, 2])], ids=str)
def test_a_network_opens_into_the_graph_that_micrograd_makes(sizes: Any, when: str, place: Device) -> None:
    """Looked at before a sweep, after it, or between two sweeps of which the second goes on through what is inside."""
    if not place.is_cpu() and when not in ("before", "after"):
        return
    found = []
    for compute in (lambda model, x: model(x), written_out):
        model = seeded(5, *sizes, device=place)
        x = [Value(0.5 + i, place) if i != 1 else 2.5 for i in range(sizes[0])]
        out = compute(model, x)
        outputs = out if isinstance(out, list) else [out]
        loss = sum(y * (i + 2.0) for i, y in enumerate(outputs))
        if when == "before":
            graph(loss)
        if when != "one before":
            loss.backward()
        if when == "between":
            graph(outputs[-1])
            loss.backward()
        if when == "one before":  # some of the results are looked at, and all are swept
            assert outputs[0]._op
            loss.backward()
        nodes, edges = graph(loss)
        params = [p for p in model.parameters() if any(p is node for node in nodes)]
        assert len(params) == len(model.parameters())
        counts = sorted((node._op, len(node._prev)) for node in nodes)
        ends = [*gradients(model), *(v.grad for v in x if isinstance(v, Value))]
        found.append(((shape_of(loss, {}), counts, len(edges)), ends))
    assert found[0][0] == found[1][0]
    assert found[0][1] == pytest.approx(found[1][1], rel=1e-12)


def test_opening_names_the_operations_whether_they_or_the_operands_are_asked_for() -> None:
    model = seeded(2, 2, [2, 1])
    x = [Value(1.0), Value(2.0)]
    assert model(x)._op == "+"
    assert model.layers[0](x)[1]._op == "ReLU"
    assert {node._op for node in model(x)._prev} == {"+", "*"}
    neuron = model.layers[0].neurons[1]
    assert neuron(x)._op == "ReLU"
    assert len(graph(neuron(x))[0]) == 1 + 2 * 2 + 2 + 2 + 1
    with no_grad():
        assert model(x)._prev == set()
        assert model(x)._op == ""


def test_an_opened_network_keeps_the_numbers_it_was_computed_with() -> None:
    model, x = seeded(2, 2, [2, 1]), [Value(1.0), Value(2.0)]
    shut, opened = model(x), model(x)
    shut.backward()
    expected, inputs = gradients(model), [v.grad for v in x]
    for p in model.parameters():
        p.data += 10.0
    graph(opened)
    model.zero_grad()
    for v in x:
        v.zero_grad()
    opened.backward()
    assert gradients(model) == pytest.approx(expected)
    assert [v.grad for v in x] == pytest.approx(inputs)


def test_a_network_whose_parameters_were_exchanged_opens_into_numbers() -> None:
    model, x = seeded(2, 2, [2]), [Value(1.0), Value(2.0)]
    y = model(x)[0]
    model.float()
    nodes, _ = graph(y)
    assert not any(p is node for node in nodes for p in model.parameters())
    y.backward()
    assert set(gradients(model)) == {0.0}
    assert x[0].grad != 0.0


def test_an_opened_layer_has_the_numbers_that_its_device_computed() -> None:
    layer = Layer(9, 6, generator=random.Random(3), dtype="float32")
    for y in layer([Value(0.1 * i) for i in range(9)]):
        (total,) = y._prev
        assert total.relu().data == y.data
        assert total.data == float(np.float32(total.data))


def test_a_result_that_nobody_looked_at_goes_through_what_was_opened() -> None:
    found = []
    for look in (False, True):
        layer, x = Layer(3, 8, generator=random.Random(1)), [Value(0.5), Value(-1.0), Value(2.0)]
        outputs = layer(x)
        if look:
            assert outputs[0]._prev
        sum(y * (i + 1.0) for i, y in enumerate(outputs)).backward()
        assert {y.data > 0 for y in outputs[1:]} == {True, False}
        found.append([*gradients(layer), *(v.grad for v in x)])
    assert found[0] == pytest.approx(found[1], rel=1e-12)


def test_a_hook_cannot_open_what_the_sweep_around_it_is_on_its_way_to() -> None:
    model, x = seeded(2, 1, [1]), Value(1.0)
    y = model([x])
    tensor = Value.stack([y * 2])
    seen: list[str] = []

    def look(g: Tensor) -> None:
        with pytest.raises(GraphError, match="a hook asked for the operands of Values"):
            assert y._prev
        seen.append(model([x])._op)

    inner = Value.unstack(tensor * 1.0)[0]
    tensor.register_hook(look)
    (inner + y).backward()
    assert seen == ["+"]
    assert x.grad == 3 * model.parameters()[0].data
    assert y._op == "+"


def test_frozen_weights_open_too() -> None:
    model, x = seeded(2, 2, [1]), [Value(1.0), Value(2.0)]
    model.layers[0].weight.requires_grad = False
    y = model(x)
    assert len(graph(y)[0]) == 9
    y.backward()
    assert gradients(model) == [0.0, 0.0, 1.0]


def test_numbers_are_inputs_too_and_computed_values_get_gradients(place: Device) -> None:
    model = seeded(3, 2, [3, 1], device=place)
    a = Value(0.5, place)
    h = a * 2
    y = model([h, 0.25]) + h
    y.backward()
    step = 1e-6
    up, down = (model([1.0 + step, 0.25]).data, model([1.0 - step, 0.25]).data)
    assert h.grad == pytest.approx((up - down) / (2 * step) + 1, rel=1e-6)
    assert a.grad == pytest.approx(2 * h.grad)


def test_neurons_are_rows_of_their_layer(place: Device) -> None:
    layer = Layer(2, 3, generator=random.Random(5), device=place)
    x = [Value(0.5, place), Value(-0.25, place)]
    assert [n(x).data for n in layer.neurons] == pytest.approx([y.data for y in layer(x)])
    neuron = layer.neurons[1]
    neuron.b.data = 10.0
    assert layer.bias.tolist() == [0.0, 10.0, 0.0]
    y = neuron(x)
    y.backward()
    assert [w.grad for w in neuron.w] == [0.5, -0.25]
    assert sum(map(abs, gradients(layer))) == 1.75
    neuron.zero_grad()
    assert set(gradients(layer)) == {0.0}
    assert neuron(Tensor([[1.0, 2.0]], dtype="float64", device=place)).shape == (1, 1)
    alone = Neuron(2, nonlin=False, device=place)
    assert (repr(alone), len(alone.parameters()), len(alone.w)) == ("LinearNeuron(2)", 3, 2)
    assert isinstance(alone(x), Value)
    assert repr(layer) == "Layer of [ReLUNeuron(2), ReLUNeuron(2), ReLUNeuron(2)]"


def test_optimisers_take_the_matrices(place: Device) -> None:
    model = seeded(1, 2, [8, 1], device=place)
    x = asarray([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]], dtype="float64", device=place)
    t = asarray([[0.0], [1.0], [1.0], [0.0]], dtype="float64", device=place)
    with pytest.raises(GraphError, match=r"Adam optimises tensors.*got Value\(.*Use model.tensors\(\)"):
        optim.Adam(model.parameters(), lr=0.05)
    rule = optim.Adam(model.tensors(), lr=0.05)
    losses = []
    for _ in range(60 if place.is_cpu() else 3):
        loss = nn.mse_loss(model(x), t)
        rule.zero_grad()
        loss.backward()
        rule.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0]
    assert model.parameters()[0].data == model.layers[0].weight.tolist()[0][0]


def test_networks_move_and_their_scalars_with_them() -> None:
    model = seeded(1, 2, [2, 1])
    data = [p.data for p in model.parameters()]
    model.to("rawbuffer:0")
    assert [p.data for p in model.parameters()] == data
    assert model.parameters()[0].device is Device("rawbuffer:0")
    y = model([Value(1.0, "rawbuffer:0"), Value(2.0, "rawbuffer:0")])
    assert y.device is Device("rawbuffer:0")


def test_wrong_inputs_are_refused() -> None:
    model = seeded(1, 2, [2, 1])
    with pytest.raises(ShapeError, match="MLP takes 2 inputs; got 3"):
        model([1.0, 2.0, 3.0])
    with pytest.raises(DeviceMismatch, match=r"MLP: the operands are on different devices: cpu \(shape \(2, 2\)\)"):
        model([Value(1.0), Value(1.0, "rawbuffer:0")])
    with pytest.raises(TypeError, match="got str"):
        model([1.0, "2"])
    with pytest.raises(ShapeError, match="at least one layer"):
        MLP(2, [])
    with pytest.raises(ShapeError, match="at least 1; got 0 inputs"):
        Neuron(0)
    with pytest.raises(TypeError, match=r"outputs of each layer; got 3. Write \[3\]"):
        MLP(2, 3)  # type: ignore[arg-type]
    for network in (model, model.layers[0], model.layers[0].neurons[0]):
        words = f"^{type(network).__name__} takes a sequence of Values and numbers, or a Tensor; got float 1.0"
        with pytest.raises(TypeError, match=words):
            network(1.0)
        with pytest.raises(TypeError, match="NoneType"):
            network(-x for x in (1.0, None))  # type: ignore[operator]


def test_networks_are_modules() -> None:
    model = seeded(1, 2, [2, 1])
    model.parameters()
    twins = [copy.deepcopy(model), pickle.loads(pickle.dumps(model)), seeded(9, 2, [2, 1])]
    twins[2].load_state_dict(model.state_dict())
    for twin in twins:
        assert [p.data for p in twin.parameters()] == [p.data for p in model.parameters()]
        twin.parameters()[0].data = 9.0
        assert model.parameters()[0].data != 9.0
    assert list(model.state_dict()) == ["layers.0.weight", "layers.0.bias", "layers.1.weight", "layers.1.bias"]


def test_single_precision_weights() -> None:
    model = seeded(1, 2, [3, 1], dtype="float32")
    x = [0.5, -0.5]
    y = model([Value(each) for each in x])
    y.backward()
    assert y.data == pytest.approx(model(Tensor([x])).item(), rel=1e-6)
    model.parameters()[0].data = 0.1
    assert model.parameters()[0].data == float(np.float32(0.1))
    assert str(model(Tensor([x])).dtype) == "float32"


def test_frozen_weights_get_no_gradient() -> None:
    model = seeded(1, 2, [1])
    model.layers[0].weight.requires_grad = False
    (model([Value(1.0), Value(2.0)]) + model.parameters()[0]).backward()
    assert gradients(model) == [0.0, 0.0, 1.0]
