"""The sources of kernels made from expressions.

In a kernel the name of a parameter is that of its pointer or number. Blocks inside declare the same name as the element
that the expression means, which hides the pointer; names with a ``_`` before them carry the value across.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from forebay.core.errors import NotSupportedError
from forebay.expressions.parameters import Parameter

# -- the two languages that kernels are generated in: how each says the same


@dataclass(frozen=True)
class Spelling:
    """What a type is called."""

    memory: str  # what an array has
    value: str  # what the expression computes with
    passed: str  # what a number passed by value arrives as


@dataclass(frozen=True)
class Dialect:
    """A language."""

    words: dict[str, str]  # what it says for each of WORDS
    spellings: dict[str, Spelling]  # by the character of the dtype, as the next
    begins: dict[str, str]  # what must be included
    references: bool  # whether an output can be a reference to its element

    def __getitem__(self, word: str) -> str:
        return self.words[word]

    def spell(self, what: str, dtype: np.dtype[Any]) -> Spelling:
        """Return the names of a type. Raises NotSupportedError when the language has no such type."""
        found = self.spellings.get(code_of(dtype))
        if found is None and dtype.kind == "c" and self is OPENCL_C:
            raise NotSupportedError(
                f"{what}: OpenCL C has no {dtype}: forebay.cupy_style.ElementwiseKernel takes C++, which has; or pass "
                "the two parts by .view"
            )
        if found is None:
            raise NotSupportedError(f"{what}: devices have no {dtype}")
        return found

    def load(self, dtype: np.dtype[Any], pointer: str, at: str) -> str:
        """Return the expression for an element."""
        if dtype.char == "e":
            return f"vload_half({at}, {pointer})" if self is OPENCL_C else f"__half2float({pointer}[{at}])"
        return f"{pointer}[{at}]"

    def store(self, dtype: np.dtype[Any], pointer: str, at: str, value: str) -> str:
        """Return the statement that sets an element."""
        if dtype.char == "e":
            if self is OPENCL_C:
                return f"vstore_half({value}, {at}, {pointer});"
            return f"{pointer}[{at}] = __float2half({value});"
        return f"{pointer}[{at}] = {value};"

    def pointer(self, dtype: np.dtype[Any], what: str, const: bool) -> str:
        """Return the type of a pointer to elements."""
        return f"{self['space']}{'const ' if const else ''}{self.spell(what, dtype).memory} *"


def code_of(dtype: np.dtype[Any]) -> str:
    """Return kind and bytes: NumPy has several characters for one type."""
    return f"{dtype.kind}{dtype.itemsize}"


def _plain(names: dict[str, str]) -> dict[str, Spelling]:
    return {code: Spelling(name, name, name) for code, name in names.items()}


# In OpenCL C and in HIP C++
WORDS: dict[str, tuple[str, str]] = {
    "kernel": ("kernel void", 'extern "C" __global__ void'),
    "function": ("static inline", "static __device__"),
    "space": ("global ", ""),  # of a pointer to the device's memory
    "index": ("long", "long long"),  # 64 bits
    "first": ("get_global_id(0)", "(long long)blockIdx.x * blockDim.x + threadIdx.x"),
    "step": ("get_global_size(0)", "(long long)gridDim.x * blockDim.x"),
    "group": ("get_group_id(0)", "blockIdx.x"),
    "item": ("get_local_id(0)", "threadIdx.x"),
    "barrier": ("barrier(CLK_LOCAL_MEM_FENCE);", "__syncthreads();"),
    # The elements may have constructors, which shared memory must not.
    "local": (
        "local TYPE NAME[COUNT];",
        "__shared__ alignas(16) char NAME_bytes[COUNT * sizeof(TYPE)]; TYPE *NAME = (TYPE *)NAME_bytes;",
    ),
    "zero": ("0", "{}"),  # initializes a variable of any type
}

# A bool has a byte, as in NumPy, and kernels take none by value. A half is read and written, and computed as float: not
# every device has an arithmetic of halves.
OPENCL_C = Dialect(
    words={word: in_opencl_c for word, (in_opencl_c, _) in WORDS.items()},
    spellings={
        **_plain({
            "i1": "char", "u1": "uchar", "i2": "short", "u2": "ushort", "i4": "int", "u4": "uint", "i8": "long",
            "u8": "ulong", "f4": "float", "f8": "double",
        }),
        "b1": Spelling("uchar", "bool", "uchar"),
        "f2": Spelling("half", "float", "float"),
    },
    begins={},
    references=False,
)  # fmt: skip

# CUDA's compiler finds several meanings of a half + a float.
HALVES = """\
#include <hip/hip_fp16.h>
struct _halves {
    const __half *data; long long count;
    __device__ float operator[](long long at) const { return __half2float(data[at]); }
    __device__ long long size() const { return count; }
};"""

CPP = Dialect(
    words={word: in_cpp for word, (_, in_cpp) in WORDS.items()},
    spellings={
        **_plain({
            "i1": "signed char", "u1": "unsigned char", "i2": "short", "u2": "unsigned short", "i4": "int",
            "u4": "unsigned int", "i8": "long long", "u8": "unsigned long long", "f4": "float", "f8": "double",
            "c8": "complex<float>", "c16": "complex<double>",
        }),
        "b1": Spelling("bool", "bool", "unsigned char"),
        "f2": Spelling("__half", "float", "float"),
    },
    begins={"f2": HALVES, "c8": "#include <cupy/complex.cuh>",
            "c16": "#include <cupy/complex.cuh>"},
    references=True,
)  # fmt: skip


# -- the sources

FULL, ONE, NUMBER, RAW = "full", "one", "number", "raw"
"""How an argument is read: an element for each, one for all, passed by value, indexed by the expression."""

# What CuPy's raw arrays and `_ind` have
HELPERS = """\
template <class Element> struct _array {
    Element *data; long long count;
    __device__ Element &operator[](long long at) const { return data[at]; }
    __device__ long long size() const { return count; }
};
struct _indexer {
    long long count, at;
    __device__ void set(long long to) { at = to; }
    __device__ long long get() const { return at; }
    __device__ long long size() const { return count; }
};
"""


class Typed(NamedTuple):
    """A parameter with the type and the way of its argument."""

    parameter: Parameter
    dtype: np.dtype[Any]
    way: str


class Given(NamedTuple):
    """What an expression's source is made for."""

    name: str  # the kernel's, also in messages
    dialect: Dialect
    preamble: str
    placeholders: dict[str, np.dtype[Any]]  # the types that the arguments decided, by letter
    inputs: tuple[Typed, ...]
    outputs: tuple[Typed, ...]


def map_source(given: Given, operation: str, loop_prep: str = "", after_loop: str = "") -> str:
    """Return the source of an elementwise kernel, NAME_elements: inputs, outputs, number of elements, and in C++ sizes
    of raw arrays.
    """
    dialect, every = given.dialect, (*given.inputs, *given.outputs)
    declared = [_declare(given, each, each in given.inputs) for each in every]
    declared += [f"const {dialect['index']} n", *_counts(given, every)]
    inputs = [_read_and_hide(given, each) for each in given.inputs if each.way != RAW]
    outputs = [_write_and_hide(given, each) for each in given.outputs if each.way != RAW]
    return f"""{_beginning(given, every)}
{dialect["kernel"]} {given.name}_elements({", ".join(declared)})
{{
    {_arrays(given, every)}
    {{
        {_hidden_arrays(given, every)}
        {"_indexer _ind = {n, 0};" if dialect is CPP else ""}
        {loop_prep}
        for ({dialect["index"]} i = {dialect["first"]}; i < n; i += {dialect["step"]}) {{
            {"_ind.set(i);" if dialect is CPP else ""}
            {" ".join([read for read, _ in inputs] + [each[0] for each in outputs])}
            {{
                {" ".join([hide for _, hide in inputs] + [each[1] for each in outputs])}
                {operation};
                {" ".join(each[2] for each in outputs)}
            }}
            {" ".join(each[3] for each in outputs)}
        }}
        {after_loop}
    }}
}}
"""


def reduction_source(
    given: Given, accumulated: np.dtype[Any], mapped: str, combine: str, start: str | None, post: str, block: int
) -> str:
    """Return the source of the kernels of a reduction, in groups of `block`.

    NAME_group reduces all of it in one group: inputs, number of elements, sizes of raw arrays in C++, output.
    NAME_partial reduces a share in each group, of a number of elements that is a multiple of `block`: inputs, number,
    share, sizes, one partial result for each group. NAME_last takes these: partial results, their number, number of
    elements, output.
    """
    dialect, index = given.dialect, given.dialect["index"]
    value = dialect.spell(given.name, accumulated).value
    (output,) = given.outputs
    declared = [_declare(given, each, True) for each in given.inputs]
    counts = _counts(given, given.inputs)
    passed = [each.parameter.name for each in given.inputs] + [count.split()[-1] for count in counts]
    inputs = [_read_and_hide(given, each) for each in given.inputs if each.way != RAW]
    out = f"{dialect.pointer(output.dtype, given.name, False)}{output.parameter.name}"
    partial = f"{value} *_partial"
    read, hide, keep, store = _write_and_hide(given, output, "0")
    kept = dialect["local"].replace("TYPE", value).replace("NAME", "_kept").replace("COUNT", str(block))
    begun = "_kept[0]" if start is None else f"_count ? _combine(({value})({start}), _kept[0]) : ({value})({start})"
    finish = f"""{"const _indexer _in_ind = {n, 0}; (void)_in_ind;" if dialect is CPP else ""}
    if (_item == 0) {{
        const {value} _reduced = {begun};
        {read}
        {{
            const {value} a = _reduced; {hide}
            {post};
            {keep}
        }}
        {store}
    }}"""

    def reduce(element: str, first: str, end: str) -> str:
        """Reduce elements to ``_kept[0]``. As many rounds as the whole group has are the same for each work-item, so
        that compilers make vectors of the work-items."""
        return f"""{kept}
    const {index} _item = {dialect["item"]}, _first = {first}, _end = {end};
    const {index} _count = _end - _first, _rounds = _count / {block}, _rest = _first + _rounds * {block} + _item;
    {value} _own = {dialect["zero"]};
    if (_rounds > 0) {{
        _own = {element.format("_first + _item")};
        for ({index} _round = 1; _round < _rounds; _round++) {{
            _own = _combine(_own, {element.format(f"_first + _round * {block} + _item")});
        }}
        if (_rest < _end) _own = _combine(_own, {element.format("_rest")});
    }} else if (_rest < _end) {{
        _own = {element.format("_rest")};
    }}
    _kept[_item] = _own;
    for (int _apart = {block // 2}; _apart > 0; _apart /= 2) {{
        {dialect["barrier"]}
        if (_item < _apart && _item + _apart < _count) _kept[_item] = _combine(_kept[_item], _kept[_item + _apart]);
    }}"""

    of_inputs = f"_mapped({{}}, n{''.join(f', {name}' for name in passed)})"
    group = f"(({index}){dialect['group']})"
    every = (*given.inputs, output)
    return f"""{_beginning(given, every, accumulated)}
{dialect["function"]} {value} _combine(const {value} a, const {value} b) {{ return {combine}; }}
{dialect["function"]} {value} _mapped({", ".join([f"const {index} i", f"const {index} n", *declared, *counts])})
{{
    {_arrays(given, given.inputs)}
    {" ".join(read for read, _ in inputs)}
    {{
        {_hidden_arrays(given, given.inputs)}
        {"const _indexer _in_ind = {n, i}; (void)_in_ind;" if dialect is CPP else ""}
        {" ".join(hide for _, hide in inputs)}
        return {mapped};
    }}
}}
{dialect["kernel"]} {given.name}_group({", ".join([*declared, f"const {index} n", *counts, out])})
{{
    {reduce(of_inputs, "0", "n")}
    {finish}
}}
{dialect["kernel"]} {given.name}_partial({
        ", ".join([*declared, f"const {index} n", f"const {index} _share", *counts, dialect["space"] + partial])
    })
{{
    {reduce(of_inputs, f"{group} * _share", f"{group} * _share + _share < n ? {group} * _share + _share : n")}
    if (_item == 0) _partial[{group}] = _kept[0];
}}
{dialect["kernel"]} {given.name}_last({
        ", ".join([f"{dialect['space']}const {partial}", f"const {index} _groups", f"const {index} n", out])
    })
{{
    {reduce("_partial[{}]", "0", "_groups")}
    {finish}
}}
"""


def _beginning(given: Given, every: tuple[Typed, ...], *more: np.dtype[Any]) -> str:
    """Return what comes before kernels: what the types need, the placeholders, the user's preamble."""
    dialect = given.dialect
    types = [each.dtype for each in every] + list(more)
    begins = dict.fromkeys(dialect.begins[code_of(dtype)] for dtype in types if code_of(dtype) in dialect.begins)
    named = [f"typedef {dialect.spell(given.name, dtype).value} {letter};"
             for letter, dtype in given.placeholders.items()]  # fmt: skip
    return "\n".join([*begins, HELPERS if dialect is CPP else "", *named, given.preamble])


def _declare(given: Given, each: Typed, const: bool) -> str:
    if each.way == NUMBER:
        return f"const {given.dialect.spell(given.name, each.dtype).passed} {each.parameter.name}"
    return f"{given.dialect.pointer(each.dtype, given.name, const)}{each.parameter.name}"


def _raw_in_cpp(given: Given, every: tuple[Typed, ...]) -> list[Typed]:
    return [each for each in every if each.way == RAW and given.dialect is CPP]


def _counts(given: Given, every: tuple[Typed, ...]) -> list[str]:
    return [f"const {given.dialect['index']} _{each.parameter.name}_count" for each in _raw_in_cpp(given, every)]


def _arrays(given: Given, every: tuple[Typed, ...]) -> str:
    declared = []
    for each in _raw_in_cpp(given, every):
        memory, name = given.dialect.spell(given.name, each.dtype).memory, each.parameter.name
        kind = f"_array<{memory}>" if each in given.outputs else f"_array<const {memory}>"
        if each in given.inputs and each.dtype.char == "e":
            kind = "_halves"
        declared.append(f"const {kind} _{name} = {{{name}, _{name}_count}};")
    return " ".join(declared)


def _hidden_arrays(given: Given, every: tuple[Typed, ...]) -> str:
    return " ".join(f"const auto {each.parameter.name} = _{each.parameter.name};" for each in _raw_in_cpp(given, every))


def _read_and_hide(given: Given, each: Typed) -> tuple[str, str]:
    """Return the statements that read an input's element outside the block, and name it inside."""
    name, value = each.parameter.name, given.dialect.spell(given.name, each.dtype).value
    read = name if each.way == NUMBER else given.dialect.load(each.dtype, name, "0" if each.way == ONE else "i")
    return f"const {value} _{name} = {read};", f"const {value} {name} = _{name};"


def _write_and_hide(given: Given, each: Typed, at: str = "i") -> tuple[str, str, str, str]:
    """Return the statements before the block, at its beginning, at its end, and behind it."""
    dialect, name = given.dialect, each.parameter.name
    value = dialect.spell(given.name, each.dtype).value
    if dialect.references and each.dtype.char != "e":
        return f"{value} &_{name} = {name}[{at}];", f"{value} &{name} = _{name};", "", ""
    read = f"{value} _{name} = {dialect.load(each.dtype, name, at)};"
    return read, f"{value} {name} = _{name};", f"_{name} = {name};", dialect.store(each.dtype, name, at, f"_{name}")
