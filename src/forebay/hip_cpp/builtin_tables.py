"""HIP's functions and what they are in OpenCL C."""

from __future__ import annotations

__all__ = ["ATOMICS", "BITS", "CONVERSIONS", "FAST", "FIXED", "MATH", "PREDICATES"]

OF_ONE = """
    sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh exp exp2 exp10 expm1 log log2 log10 log1p logb sqrt
    rsqrt cbrt erf erfc floor ceil trunc round rint fabs lgamma tgamma sinpi cospi
"""
OF_TWO = "pow fmod atan2 hypot fmin fmax fdim copysign remainder nextafter"
# Name without the f of the float version: (name in OpenCL C, number of arguments).
MATH = {
    **{name: (name, 1) for name in OF_ONE.split()},
    **{name: (name, 2) for name in OF_TWO.split()},
    "nearbyint": ("rint", 1),
    "fma": ("fma", 3),
}

# These promise less accuracy than the functions they become.
FAST = {
    "__sinf": ("sin", 1), "__cosf": ("cos", 1), "__tanf": ("tan", 1), "__expf": ("exp", 1), "__exp10f": ("exp10", 1),
    "__logf": ("log", 1), "__log2f": ("log2", 1), "__log10f": ("log10", 1), "__powf": ("pow", 2),
    "__fmaf_rn": ("fma", 3),
}  # fmt: skip

PREDICATES = {"isnan", "isinf", "isfinite", "signbit"}

# Name: (text, types of the arguments, type of the result).
FIXED = {
    "__fdividef": ("{0} / {1}", "float float", "float"), "fdividef": ("{0} / {1}", "float float", "float"),
    "__saturatef": ("fmin(fmax({0}, 0.0f), 1.0f)", "float", "float"),
    "ldexpf": ("ldexp({0}, {1})", "float int", "float"), "scalbnf": ("ldexp({0}, {1})", "float int", "float"),
    "ldexp": ("ldexp({0}, {1})", "double int", "double"), "scalbn": ("ldexp({0}, {1})", "double int", "double"),
    "ilogbf": ("ilogb({0})", "float", "int"), "ilogb": ("ilogb({0})", "double", "int"),
    "labs": ("(long)abs({0})", "long", "long"), "llabs": ("(long)abs({0})", "long", "long"),
    "__clz": ("(int)clz({0})", "int", "int"), "__clzll": ("(int)clz({0})", "long", "int"),
    "__popc": ("(int)popcount({0})", "uint", "int"), "__popcll": ("(int)popcount({0})", "ulong", "int"),
    "__ffs": ("hip_ffs({0})", "int", "int"), "__ffsll": ("hip_ffsll({0})", "long", "int"),
    "__brev": ("hip_brev({0})", "uint", "uint"),
    "__mul24": ("mul24({0}, {1})", "int int", "int"), "__umul24": ("mul24({0}, {1})", "uint uint", "uint"),
    "__mulhi": ("mul_hi({0}, {1})", "int int", "int"), "__umulhi": ("mul_hi({0}, {1})", "uint uint", "uint"),
    "__mul64hi": ("mul_hi({0}, {1})", "long long", "long"), "__umul64hi": ("mul_hi({0}, {1})", "ulong ulong", "ulong"),
    "__hadd": ("hadd({0}, {1})", "int int", "int"), "__rhadd": ("rhadd({0}, {1})", "int int", "int"),
    "__uhadd": ("hadd({0}, {1})", "uint uint", "uint"), "__urhadd": ("rhadd({0}, {1})", "uint uint", "uint"),
    "__sad": ("abs_diff({0}, {1}) + {2}", "int int uint", "uint"),
    "__usad": ("abs_diff({0}, {1}) + {2}", "uint uint uint", "uint"),
    "lroundf": ("(long)round({0})", "float", "long"), "lrintf": ("(long)rint({0})", "float", "long"),
    "llroundf": ("(long)round({0})", "float", "long"), "llrintf": ("(long)rint({0})", "float", "long"),
    "lround": ("(long)round({0})", "double", "long"), "lrint": ("(long)rint({0})", "double", "long"),
    "llround": ("(long)round({0})", "double", "long"), "llrint": ("(long)rint({0})", "double", "long"),
    "__syncthreads": ("barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE)", "", "void"),
    "__threadfence_block": ("mem_fence(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE)", "", "void"),
}  # fmt: skip

BITS = {
    "__float_as_int": ("float", "int"), "__float_as_uint": ("float", "uint"), "__int_as_float": ("int", "float"),
    "__uint_as_float": ("uint", "float"),
    "__double_as_longlong": ("double", "long"), "__longlong_as_double": ("long", "double"),
}  # fmt: skip
FIXED.update({name: (f"as_{to}({{0}})", of, to) for name, (of, to) in BITS.items()})

ROUNDING = {"rn": "rte", "rz": "rtz", "ru": "rtp", "rd": "rtn"}
SHORT = {"int": "int", "uint": "uint", "ll": "long", "ull": "ulong", "float": "float", "double": "double"}
CONVERSIONS = {
    f"__{of}2{to}_{mode}": (SHORT[of], SHORT[to], f"convert_{SHORT[to]}{saturated}_{rounding}")
    for saturated, ofs, tos in (
        ("_sat", ("float", "double"), ("int", "uint", "ll", "ull")),
        ("", ("int", "uint", "ll", "ull"), ("float", "double")),
        ("", ("double",), ("float",)),
    )
    for of in ofs
    for to in tos
    for mode, rounding in ROUNDING.items()
}  # fmt: skip
FIXED.update({name: (f"{call}({{0}})", of, to) for name, (of, to, call) in CONVERSIONS.items()})

# Name: (operation, number of values, types of 32 bits, whether 64 bits belong to the base extension).
ATOMICS: dict[str, tuple[str, int, tuple[str, ...], bool]] = {
    "atomicAdd": ("add", 1, ("int", "uint"), True), "atomicSub": ("sub", 1, ("int", "uint"), True),
    "atomicExch": ("xchg", 1, ("int", "uint", "float"), True), "atomicCAS": ("cmpxchg", 2, ("int", "uint"), True),
    "atomicMin": ("min", 1, ("int", "uint"), False), "atomicMax": ("max", 1, ("int", "uint"), False),
    "atomicAnd": ("and", 1, ("int", "uint"), False), "atomicOr": ("or", 1, ("int", "uint"), False),
    "atomicXor": ("xor", 1, ("int", "uint"), False),
}  # fmt: skip
