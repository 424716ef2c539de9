from dataclasses import fields

import pytest

import forebay as fb


def test_subtracting_gives_what_happened_in_between():
    later, earlier = fb.Stats(launches=5, waits_made=3), fb.Stats(launches=2, copies=0, waits_made=3)
    assert later - earlier == fb.Stats(launches=3)
    assert later - later == fb.Stats()
    with pytest.raises(TypeError):
        later - 1


def test_it_prints_a_line_for_each():
    text = str(fb.Stats(launches=1234567))
    assert len(text.splitlines()) == len(fields(fb.Stats)) + 1
    assert "1,234,567" in text


def test_a_device_counts_queues_that_are_gone(device, program):
    with fb.Device(device.name, private=True) as other:
        kernel = other.program("kernel void nothing(void) { mem_fence(CLK_GLOBAL_MEM_FENCE); }")["nothing"]
        for number in range(5):
            queue = other.queue()
            queue.launch(kernel, 1, 1)
            if number % 2:
                queue.close()
            del queue
            other.finish()
            assert other.stats.launches == number + 1
    assert other.stats.launches == 5
