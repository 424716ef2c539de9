"""Bodies that attract each other, in steps: ``python -m examples.nbody``.

A step in time is four launches that are the same each time but for one number,
so they stand in ``with step:``. On Level Zero such a step is one driver call.
The result is compared with what NumPy computes in double precision.
"""

from __future__ import annotations

import sys
from pathlib import Path

import click
import numpy as np

import forebay as fb

KERNELS = Path(__file__).with_suffix(".cl")
BLOCK = 64
SOFTENING = 0.01
CHECKED = 40  # steps; small differences grow without bound later
TOLERANCE = 1e-3  # of positions, where the disc has a radius of 1


def disc(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Positions with masses, and velocities: a heavy body, and light ones on
    circles around it.
    """
    random = np.random.default_rng(5)
    radius = np.sqrt(random.uniform(0.05, 1, count))
    angle = random.uniform(0, 2 * np.pi, count)
    bodies, velocities = np.zeros((count, 4), "f4"), np.zeros((count, 4), "f4")
    bodies[:, 0], bodies[:, 1] = radius * np.cos(angle), radius * np.sin(angle)
    bodies[:, 2] = random.normal(0, 0.02, count)
    bodies[:, 3] = 0.2 / count
    speed = np.sqrt(1 / radius)
    velocities[:, 0] = -speed * np.sin(angle)
    velocities[:, 1] = speed * np.cos(angle)
    bodies[0], velocities[0] = (0, 0, 0, 1), 0
    return bodies, velocities


def accelerations(bodies: np.ndarray) -> np.ndarray:
    """What each body is pulled by."""
    to = bodies[None, :, :3] - bodies[:, None, :3]
    weights = bodies[None, :, 3] / ((to**2).sum(axis=2) + SOFTENING) ** 1.5
    return np.einsum("ij,ijk->ik", weights, to)


def on_the_host(
    bodies: np.ndarray, velocities: np.ndarray, times: list[float]
) -> np.ndarray:
    """What NumPy makes of it."""
    bodies, velocities = bodies.astype("f8"), velocities.astype("f8")
    for time in times:
        velocities[:, :3] += time / 2 * accelerations(bodies)
        bodies[:, :3] += time * velocities[:, :3]
        velocities[:, :3] += time / 2 * accelerations(bodies)
    return bodies


@click.command()
@click.option(
    "--groups",
    default=16,
    show_default=True,
    type=click.IntRange(min=1),
    help=f"Of {BLOCK} bodies each.",
)
@click.option(
    "--steps", default=200, show_default=True, type=click.IntRange(min=0)
)
@click.option(
    "--output", type=click.Path(path_type=Path), help="Write a picture there."
)
def main(groups: int, steps: int, output: Path | None) -> None:
    """Let a disc of bodies turn, and compare the result with NumPy's."""
    device, count = fb.Device(), groups * BLOCK
    program = device.program(KERNELS.read_text())
    accelerate, kick, drift = (
        program[name] for name in ("accelerate", "kick", "drift")
    )
    start, speeds = disc(count)
    bodies, velocities = device.array(start), device.array(speeds)
    pull, tile = device.empty((count, 4)), fb.local(16 * BLOCK)
    queue = device.queue(blocking=False)
    # shorter and longer ones
    times = [0.004 + 0.001 * np.sin(i / 10) for i in range(steps)]
    early = fb.host_empty(start.shape, "f4", device)
    step = queue.step()
    queue.launch(
        accelerate, groups, BLOCK, bodies, pull, count, SOFTENING, tile
    )
    for number, time in enumerate(times):
        if number == CHECKED:
            queue.copy(early, bodies)
        with step:
            queue.launch(kick, groups, BLOCK, velocities, pull, time / 2)
            queue.launch(drift, groups, BLOCK, bodies, velocities, time)
            queue.launch(
                accelerate, groups, BLOCK, bodies, pull, count, SOFTENING, tile
            )
            queue.launch(kick, groups, BLOCK, velocities, pull, time / 2)
    found = bodies.get(queue=queue)
    print(
        f"device: {device.name}, {count} bodies, {queue.stats.steps} steps, "
        f"{queue.stats.steps_recorded} recorded"
    )
    checked = times[:CHECKED]
    reached = early if steps > CHECKED else found
    off = float(np.abs(reached - on_the_host(start, speeds, checked)).max())
    print(
        f"{'OK' if off <= TOLERANCE else 'WRONG'}: off by at most {off:.1e} "
        f"from NumPy after {len(checked)} steps"
    )
    ended = velocities.get(queue=queue)
    gained = ended[:, :3] * found[:, 3:] - speeds[:, :3] * start[:, 3:]
    lost = float(np.abs(gained.sum(axis=0)).max())
    print(
        f"{'OK' if lost <= TOLERANCE else 'WRONG'}: the momentum changed by "
        f"{lost:.1e}"
    )
    if output:
        draw(start, found, output)
    sys.exit(off > TOLERANCE or lost > TOLERANCE)


def draw(start: np.ndarray, end: np.ndarray, output: Path) -> None:
    """Write a picture of the disc before and after."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    figure, both = pyplot.subplots(
        1, 2, figsize=(9, 4.6), layout="constrained", sharex=True, sharey=True
    )
    began = np.hypot(start[1:, 0], start[1:, 1])
    for axes, bodies, title in zip(
        both, (start, end), ("before", "after"), strict=True
    ):
        axes.scatter(bodies[1:, 0], bodies[1:, 1], s=2, c=began, cmap="viridis")
        axes.scatter(*bodies[0, :2], s=40, c="tab:red")
        axes.set(
            title=title, aspect="equal", xlim=(-1.6, 1.6), ylim=(-1.6, 1.6)
        )
    figure.savefig(output, dpi=120)


if __name__ == "__main__":
    main()
