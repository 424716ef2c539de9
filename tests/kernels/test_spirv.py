"""What is read from SPIR-V modules, without a driver."""

import struct

import pytest

from forebay.compiler.spirv.declarations import Declared, kernels_of, variables_of
from tests.helpers import spirv
from tests.helpers.spirv import instruction, text

pytestmark = pytest.mark.needs("no chosen device")

INT, FLOAT, VECTOR, ARRAY, STRUCT, CONSTANT = 21, 22, 23, 28, 30, 43
FUNCTION_STORAGE, WORKGROUP, CROSS_WORKGROUP = 7, 4, 5
PACKED = 10


def module_of(types, parameters, *, names=(), in_source="", decorations=()):
    """A kernel named ``k`` with parameters of these types; ids up to 50 are free."""
    void, function, kernel, start, string = 51, 52, 53, 54, 55
    identities = range(60, 60 + len(parameters))
    return spirv.assemble(
        [
            instruction(spirv.OP_CAPABILITY, spirv.CAPABILITY_KERNEL),
            instruction(spirv.OP_MEMORY_MODEL, spirv.PHYSICAL_64, spirv.OPEN_CL),
            instruction(spirv.OP_ENTRY_POINT, spirv.KERNEL, kernel, *text("k")),
            *([instruction(spirv.OP_STRING, string, *text(in_source))] if in_source else []),
            *(instruction(spirv.OP_NAME, i, *text(name)) for i, name in zip(identities, names, strict=False)),
            *(instruction(spirv.OP_DECORATE, *decoration) for decoration in decorations),
            *types,
            instruction(spirv.OP_TYPE_VOID, void),
            instruction(spirv.OP_TYPE_FUNCTION, function, void, *parameters),
            instruction(spirv.OP_FUNCTION, void, kernel, 0, function),
            *(
                instruction(spirv.OP_FUNCTION_PARAMETER, kind, i)
                for i, kind in zip(identities, parameters, strict=True)
            ),
            instruction(spirv.OP_LABEL, start),
            instruction(spirv.OP_RETURN),
            instruction(spirv.OP_FUNCTION_END),
        ],
        bound=100,
    )


BASIC = [instruction(INT, 1, 8, 0), instruction(INT, 2, 32, 0), instruction(INT, 3, 64, 0), instruction(FLOAT, 4, 32)]


FILL = {"fill": [Declared("values", "int*", "pointer", 8), Declared("value", "int", "value", 4)]}


def test_names_and_types_are_those_of_the_source_or_made_up():
    assert kernels_of(spirv.fill_module()) == FILL
    words = struct.unpack(f"<{len(spirv.fill_module()) // 4}I", spirv.fill_module())
    assert kernels_of(struct.pack(f">{len(words)}I", *words)) == FILL  # in the other byte order
    module = module_of(BASIC, [1, 2], names=["a", "b"], in_source="kernel_arg_type.k.uchar,uint,")
    assert kernels_of(module) == {"k": [Declared("a", "uchar", "value", 1), Declared("b", "uint", "value", 4)]}
    types = [*BASIC, instruction(VECTOR, 5, 4, 3), instruction(spirv.OP_TYPE_POINTER, 6, WORKGROUP, 4)]
    made_up = [("char", "value", 1), ("int", "value", 4), ("long", "value", 8), ("float", "value", 4),
               ("float3", "value", 16), ("float*", "local", 8)]  # fmt: skip
    assert kernels_of(module_of(types, [1, 2, 3, 4, 5, 6])) == {
        "k": [Declared(f"argument_{i}", *each) for i, each in enumerate(made_up)]
    }


def test_what_is_no_whole_module():
    module = spirv.fill_module()
    for length in range(len(module)):
        with pytest.raises(ValueError, match=r"words|cut off"):
            kernels_of(module[:length])
    for other in (bytes(40), b"kernel void f() {} // more", b"\x7fELF" * 10):
        with pytest.raises(ValueError, match=r"words|first word"):
            kernels_of(other)
    with pytest.raises(ValueError, match="cut off"):  # an instruction of no length
        kernels_of(module[:20] + bytes(4) + module[24:])


@pytest.mark.parametrize(
    ("members", "nbytes"),
    [([1], 1), ([2, 1], 8), ([1, 2], 8), ([1, 3, 1], 24), ([2, 4, 1], 12), ([1, 7], 32), ([8, 1], 16)],
)
@pytest.mark.parametrize("packed", [False, True])
def test_sizes_of_structures(members, nbytes, packed):
    sizes, alignments = {1: 1, 2: 4, 3: 8, 4: 4, 7: 16, 8: 12}, {1: 1, 2: 4, 3: 8, 4: 4, 7: 16, 8: 4}
    types = [
        *BASIC, instruction(CONSTANT, 2, 6, 3), instruction(VECTOR, 7, 4, 4), instruction(ARRAY, 8, 2, 6),
        instruction(STRUCT, 9, *members), instruction(spirv.OP_TYPE_POINTER, 10, FUNCTION_STORAGE, 9),
    ]  # fmt: skip
    module = module_of(types, [10], names=["s"], decorations=[(9, PACKED)] if packed else [])
    expected = sum(sizes[member] for member in members) if packed else nbytes
    alignment = 1 if packed else max(alignments[member] for member in members)
    assert kernels_of(module) == {"k": [Declared("s", "struct", "value", expected, alignment=alignment)]}


def test_variables_are_what_is_exported_of_global_memory():
    """Ids 10 to 14: exported, imported, without linkage, exported constant memory, a function that is exported."""
    linkage, exported, imported, constant = 41, 0, 1, 0
    module = module_of(
        [
            instruction(INT, 1, 32, 0),
            instruction(spirv.OP_TYPE_POINTER, 2, CROSS_WORKGROUP, 1),
            instruction(spirv.OP_TYPE_POINTER, 3, constant, 1),
            *(instruction(spirv.OP_VARIABLE, 2, identity, CROSS_WORKGROUP) for identity in (10, 11, 12)),
            instruction(spirv.OP_VARIABLE, 3, 13, constant),
        ],
        [],
        decorations=[
            (10, linkage, *text("there"), exported), (11, linkage, *text("elsewhere"), imported),
            (13, linkage, *text("fixed"), exported), (53, linkage, *text("k"), exported),
        ],
    )  # fmt: skip
    assert variables_of(module) == {"there"}
    assert kernels_of(module) == {"k": []}
    with pytest.raises(ValueError, match="cut off"):
        variables_of(module[:-4])
