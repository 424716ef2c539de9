"""A network learns a function in ten thousand equal steps.

Run it by ``python -m examples.training``.

Each step of the training is nine launches. They are the same each time but for
the points that are shown and the rate, so they stand in ``with step:``. On
Level Zero such a step is one driver call; elsewhere it costs what the launches
cost. The program trains twice, in steps and with each launch by itself: the
result is the same to the last bit. Then NumPy trains the same network in double
precision.
"""

from __future__ import annotations

import contextlib
import itertools
import sys
import time

import click
import numpy as np

import forebay as fb

WIDTHS = (2, 16, 16, 1)  # of the layers
POINTS = 1024  # of the function
SHOWN = 64  # how many of them a step is shown
RATE, MOMENTUM = 0.05, 0.9
GROUP = 64
TOLERANCE = 0.01  # of what was learned, where the function goes from -1 to 1
SOURCE = f"""
#define POINTS {SHOWN}

/* The last row of the weights is added whatever the input is. One work-item for
   each output of each point. */
kernel void forward(global const float *in, global const float *weights,
                    global float *out, int ins, int outs, int last)
{{
    int point = get_global_id(0) / outs, j = get_global_id(0) % outs;
    if (point >= POINTS) return;
    float sum = weights[ins * outs + j];
    for (int i = 0; i < ins; i++)
        sum += in[point * ins + i] * weights[i * outs + j];
    out[point * outs + j] = last ? sum : tanh(sum);
}}

kernel void error(global const float *out, global const float *wanted,
                  global float *slopes)
{{
    int point = get_global_id(0);
    if (point < POINTS) slopes[point] = out[point] - wanted[point];
}}

/* From the slopes of a layer's outputs to those of the layer before. */
kernel void backward(global const float *in, global const float *weights,
                     global const float *slopes, global float *slopes_before,
                     int ins, int outs)
{{
    int point = get_global_id(0) / ins, i = get_global_id(0) % ins;
    if (point >= POINTS) return;
    float sum = 0, value = in[point * ins + i];
    for (int j = 0; j < outs; j++)
        sum += slopes[point * outs + j] * weights[i * outs + j];
    slopes_before[point * ins + i] = sum * (1 - value * value);
}}

/* One work-item for each weight. */
kernel void learn(global const float *in, global const float *slopes,
                  global float *weights, global float *moving,
                  int ins, int outs, float rate)
{{
    int i = get_global_id(0) / outs, j = get_global_id(0) % outs;
    if (i > ins) return;
    float sum = 0;
    for (int point = 0; point < POINTS; point++) {{
        float value = i == ins ? 1.0f : in[point * ins + i];
        sum += value * slopes[point * outs + j];
    }}
    float speed = {MOMENTUM}f * moving[i * outs + j] + sum / POINTS;
    moving[i * outs + j] = speed;
    weights[i * outs + j] -= rate * speed;
}}
"""


def function(points: np.ndarray) -> np.ndarray:
    """What is to be learned."""
    return np.sin(3 * points[:, :1]) * np.cos(2 * points[:, 1:])


def begin() -> tuple[np.ndarray, list[np.ndarray]]:
    """The points, and the weights of each layer before training."""
    random = np.random.default_rng(4)
    points = random.uniform(-1, 1, (POINTS, WIDTHS[0])).astype("f4")
    weights = [
        random.normal(0, 1 / np.sqrt(a), (a + 1, b)).astype("f4")
        for a, b in itertools.pairwise(WIDTHS)
    ]
    return points, weights


def rates(steps: int) -> np.ndarray:
    """The rate of each step: it falls to a tenth."""
    return RATE * 0.1 ** (np.arange(steps) / steps)


def predicted(
    points: np.ndarray, weights: list[np.ndarray]
) -> list[np.ndarray]:
    """The outputs of each layer, before them the points, computed by NumPy."""
    layers = [points]
    for number, each in enumerate(weights, 1):
        out = layers[-1] @ each[:-1] + each[-1]
        layers.append(out if number == len(weights) else np.tanh(out))
    return layers


def on_the_host(steps: int) -> list[np.ndarray]:
    """The weights that NumPy comes to, in double precision."""
    points, weights = begin()
    points = points.astype("f8")
    weights = [each.astype("f8") for each in weights]
    wanted, moving = function(points), [np.zeros_like(each) for each in weights]
    for number, rate in enumerate(rates(steps)):
        shown = slice(number * SHOWN % POINTS, number * SHOWN % POINTS + SHOWN)
        layers = predicted(points[shown], weights)
        slopes = layers[-1] - wanted[shown]
        changes = []
        for layer, each in zip(layers[-2::-1], weights[::-1], strict=True):
            changes.append(
                np.vstack([layer.T @ slopes, slopes.sum(axis=0)]) / SHOWN
            )
            slopes = slopes @ each[:-1].T * (1 - layer**2)
        for each, moved, change in zip(
            weights, moving, changes[::-1], strict=True
        ):
            moved *= MOMENTUM
            moved += change
            each -= rate * moved
    return weights


class Training:
    """A network on a device, its points, and what a step needs."""

    def __init__(self, device: fb.Device, program: fb.Program):
        self.device, self.program = device, program
        points, weights = begin()
        self.weights = [device.array(each) for each in weights]
        self.moving = [device.zeros(each.shape) for each in weights]
        self.outputs = [device.empty((SHOWN, width)) for width in WIDTHS[1:]]
        self.slopes = [device.empty((SHOWN, width)) for width in WIDTHS[1:]]
        x = device.array(points)
        wanted = device.array(function(points).astype("f4"))
        self.launches = [
            self._launches(x[at : at + SHOWN], wanted[at : at + SHOWN])
            for at in range(0, POINTS, SHOWN)
        ]
        device.finish()

    def _launches(
        self, points: fb.Buffer, wanted: fb.Buffer
    ) -> tuple[list[tuple], list[tuple]]:
        """What is launched when these points are shown: what finds the slopes,
        and what learns, all but the rate.
        """
        forward, error, backward, learn = (
            self.program[n] for n in ("forward", "error", "backward", "learn")
        )
        sizes, last = list(itertools.pairwise(WIDTHS)), len(WIDTHS) - 2
        inputs, outputs = [points, *self.outputs], self.outputs
        slopes, weights = self.slopes, self.weights
        finding, learning = [], []
        for n, (a, b) in enumerate(sizes):
            args = inputs[n], weights[n], outputs[n], a, b, int(n == last)
            finding.append((forward, groups(SHOWN * b), GROUP, *args))
        finding.append(
            (error, groups(SHOWN), GROUP, outputs[-1], wanted, slopes[-1])
        )
        for n in range(last, 0, -1):
            a, b = sizes[n]
            args = inputs[n], weights[n], slopes[n], slopes[n - 1], a, b
            finding.append((backward, groups(SHOWN * a), GROUP, *args))
        for n, (a, b) in enumerate(sizes):
            args = inputs[n], slopes[n], weights[n], self.moving[n], a, b
            learning.append((learn, groups((a + 1) * b), GROUP, *args))
        return finding, learning

    def submit(self, queue: fb.Queue, number: int, rate: float) -> None:
        """Submit one step of the training. Returns at once."""
        finding, learning = self.launches[number % len(self.launches)]
        for launch in finding:
            queue.launch(*launch)
        for launch in learning:
            queue.launch(*launch, rate)

    def run(self, steps: int, together: bool) -> tuple[float, float]:
        """Train. Blocks until that is done; returns the seconds until all was
        submitted, and until all was done.
        """
        queue = self.device.queue(blocking=False)
        step = queue.step() if together else contextlib.nullcontext()
        began = time.perf_counter()
        for number, rate in enumerate(rates(steps).tolist()):
            with step:
                self.submit(queue, number, rate)
        submitted = time.perf_counter() - began
        queue.finish()
        return submitted, time.perf_counter() - began


def groups(items: int) -> int:
    """How many groups have that many work-items."""
    return -(-items // GROUP)


@click.command()
@click.option(
    "--steps", default=10_000, show_default=True, type=click.IntRange(min=1)
)
def main(steps: int) -> None:
    """Train a network in steps and launch by launch, and compare the results
    with each other and with NumPy's.
    """
    device = fb.Device()
    program = device.program(SOURCE)
    launches = 3 * (len(WIDTHS) - 1)
    print(f"device: {device.name}, {steps} steps of {launches} launches")
    # some drivers compile a kernel only when it is first launched
    Training(device, program).run(min(steps, 100), True)
    found = []
    for together in (False, True):
        name = "in q.step()     " if together else "launch by launch"
        training = Training(device, program)
        submitted, done = training.run(steps, together)
        per = 1e6 / steps
        print(
            f"{name}: {submitted * per:.1f} µs a step to submit, "
            f"{done * per:.1f} µs until it was done"
        )
        found.append([each.get() for each in training.weights])
    if not device.driver.executes:
        print("not compared: this device executes nothing")
        return
    points, _ = begin()
    collected, expected = (
        predicted(points, each)[-1] for each in (found[1], on_the_host(steps))
    )
    same = all(np.array_equal(a, b) for a, b in zip(*found, strict=True))
    off = float(np.abs(collected - expected).max())
    left = float(np.abs(collected - function(points)).mean())
    print(f"what was learned is off by {left:.3f} on average from the function")
    right = same and off <= TOLERANCE
    print(
        f"{'OK' if right else 'WRONG'}: {'' if same else 'not '}the same both "
        f"ways, off by {off:.1e} from NumPy"
    )
    sys.exit(not right)


if __name__ == "__main__":
    main()
