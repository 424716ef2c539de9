"""A simulation of 2,000 steps whose state is the same to the bit, whether what is unchanged is skipped or not."""

import numpy as np
import pytest

import forebay as fb
from tests.inside import forgetful_kernel

BODIES, STEPS = 48, 2000

SOURCE = """
typedef struct { float step; float softening; float spin; int kicked; float mass[48]; } World;

kernel void accelerate(constant World *world, global const float4 *place, global const int *near,
                       global float4 *room, global float4 *pull) {
    size_t mine = get_global_id(0);
    global float4 *terms = room + mine * near[mine];
    float4 sum = 0;
    for (int i = 0; i < near[mine]; i++) {
        float4 away = place[i] - place[mine];
        float squared = dot(away, away) + world->softening;
        terms[i] = away * (world->mass[i] / (squared * sqrt(squared)));
    }
    for (int i = 0; i < near[mine]; i++) sum += terms[i];
    pull[mine] = sum;
}

kernel void move(constant World *world, global const float4 *pull, global float4 *speed, global float4 *place) {
    size_t mine = get_global_id(0);
    speed[mine] += world->step * pull[mine];
    if (world->kicked == (int)mine) speed[mine].z += world->spin;
    place[mine] += world->step * speed[mine];
}
"""

WORLD = np.dtype([("step", "f4"), ("softening", "f4"), ("spin", "f4"), ("kicked", "i4"), ("mass", "f4", BODIES)])


def scratch(kernel):
    kernel.scratch("room", fb.MaxOver("near") * (16 * BODIES))


def simulate(device, program, *, remember):
    """Places and speeds at the end, and how many bytes of arguments were skipped on the way."""
    queue = device.queue()
    random = np.random.default_rng(7)
    with queue:
        place = device.array(random.normal(size=(BODIES, 4)).astype("f4"))
        speed = device.array(np.zeros((BODIES, 4), "f4"))
        pull = device.zeros((BODIES, 4))
        near = device.array(np.full(BODIES, 20, "i4"))
    world = np.zeros((), WORLD)
    world["softening"], world["spin"] = 0.05, 0.01
    world["mass"] = random.uniform(0.5, 2, BODIES)

    def kernel(name):
        """The one that remembers, or one that nothing was ever launched with."""
        if remember:
            return program[name]
        fresh = forgetful_kernel(program, name)
        if name == "accelerate":
            scratch(fresh)
        return fresh

    for step in range(STEPS):
        world["step"] = 0.001 if step % 400 < 300 else 0.0005
        world["kicked"] = -1 if step % 100 else step // 100
        if step % 500 == 250:
            queue.fill(near, 20 + step // 100)
        queue.launch(kernel("accelerate"), BODIES, 1, world[()], place, near, pull)
        queue.launch(kernel("move"), BODIES, 1, world[()], pull, speed, place)
        if step % 50 == 0:
            queue.finish()
    skipped, uploaded, reductions = queue.stats.arg_bytes_skipped, queue.stats.arg_bytes_set, queue.stats.reductions
    state = place.get(queue=queue).tobytes(), speed.get(queue=queue).tobytes()
    queue.close()
    return state, skipped, uploaded, reductions


@pytest.mark.executes(run=False)
@pytest.mark.long
def test_skipping_what_is_unchanged_changes_nothing(device):
    with device.program(SOURCE) as program:
        scratch(program["accelerate"])
        state, skipped, uploaded, reductions = simulate(device, program, remember=True)
        assert np.isfinite(np.frombuffer(state[0], "f4")).all()
        other_state, other_skipped, other_uploaded, other_reductions = simulate(device, program, remember=False)
    assert state == other_state
    assert skipped > 50 * uploaded
    assert reductions == other_reductions == 5
    assert other_skipped < 50 * reductions  # of what measures, which is launched that often
    assert other_uploaded + other_skipped == skipped + uploaded
