"""Checks of the repository, on sources with a fault that no other test may run into."""

import pytest

from tools.checks import locks

SOURCE = """
cdef class Table:
    cdef dict entries

    def entry(self, key):{note}
        cdef dict own = {{}}
        return own.get(key) or self.entries{call}
"""


@pytest.mark.parametrize(
    ("note", "call", "found"),
    [
        ("", ".get(key)", 1),
        ("", "[key]", 0),  # takes a reference
        ("  # no other thread changes it", ".get(key)", 0),
        ("\n        with cython.critical_section(self):\n            key = key", ".get(key)", 0),
    ],
)
def test_a_dict_of_other_threads_lends_no_value(note, call, found):
    assert len(list(locks.borrowed({"table.pyx": SOURCE.format(note=note, call=call)}))) == found
