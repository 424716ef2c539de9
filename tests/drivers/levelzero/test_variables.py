"""Variables of programs on this driver."""

import gc
import os
from unittest import mock

import numpy as np
import pytest

import forebay as fb
from forebay.queues.levelzero import programs
from tests.helpers.needs import variable_options
from tests.inside import module_of

pytestmark = pytest.mark.needs("null hardware")

SOURCE = """
global int count = 5;
global int never_used[3];
kernel void fill(global int *x, int value) { x[0] = value + count; }
"""


def test_they_are_unified_shared_memory_and_keep_the_module(opened):
    """The observer must report an address that is not a variable's, or whose memory is gone."""
    device = opened()
    queue, program = device.queue(), device.program(SOURCE, variable_options(device))
    for name in ("count", "never_used"):
        variable = program.get_global(name).view("i4")
        variable.set(np.ones(variable.size, "i4"), queue=queue)
        queue.fill(variable, 3)
        queue.copy(device.empty(variable.size, "i4"), variable)
        queue.launch(program["fill"], 1, 1, variable, 1)
        variable.get(queue=queue)
    del program
    gc.collect()
    variable.set(np.ones(variable.size, "i4"))
    variable.get()


@pytest.fixture
def cache(tmp_path):
    """An empty cache of programs."""
    with mock.patch.dict(os.environ, FOREBAY_CACHE=str(tmp_path)):
        yield


@pytest.mark.needs("no validation layer")
def test_the_answers_of_a_cold_and_of_a_warm_start_are_the_same(opened, cache):
    """The driver reports different errors for a freshly compiled program and for one from native code."""
    with opened() as device:
        for _ in range(2):
            program = device.program(SOURCE, variable_options(device))
            assert program.get_global("never_used").nbytes == 12
            for name in ("none", "fill"):
                with pytest.raises(fb.InvalidArgumentError, match="no variable"):
                    program.get_global(name)
                assert module_of(program).variable(name) is None


def test_a_program_without_variables_is_compiled_without_the_option(opened, cache):
    with opened() as device, mock.patch.object(programs, "build_apart", wraps=programs.build_apart) as build:
        device.program("constant int a[2] = {1, 2}; kernel void get(global int *x) { x[0] = a[x[1]]; }")
        device.program(SOURCE, variable_options(device))
    assert [call.args[3] for call in build.call_args_list] == [(), ("-ze-take-global-address",)]
