"""Names that mean something in OpenCL C and nothing in HIP: a program's own get another name when they meet one."""

from __future__ import annotations

__all__ = ["RESERVED"]

KEYWORDS = """
    kernel __kernel global __global local __local constant __constant private __private generic __generic half pipe
    read_only write_only read_write __read_only __write_only __read_write restrict inline sampler_t event_t queue_t
    ndrange_t clk_event_t reserve_id_t clk_profiling_info cl_mem_fence_flags image1d_t image1d_array_t
    image1d_buffer_t image2d_t image2d_array_t image2d_depth_t image2d_array_depth_t image2d_msaa_t image3d_t
    uniform complex imaginary quad register auto typeof asm signed size_t ptrdiff_t intptr_t uintptr_t bool true
    false NULL memory_order memory_scope atomic_int atomic_uint atomic_flag atomic_long atomic_ulong atomic_float
    INFINITY NAN MAXFLOAT HUGE_VALF HUGE_VAL M_PI M_PI_F M_E M_E_F
"""
FUNCTIONS = """
    get_work_dim get_global_size get_global_id get_local_size get_local_id get_num_groups get_group_id
    get_global_offset get_enqueued_local_size get_global_linear_id get_local_linear_id get_sub_group_size
    get_sub_group_id acos acosh acospi asin asinh asinpi atan atan2 atanh atanpi atan2pi cbrt ceil copysign cos cosh
    cospi erfc erf exp exp2 exp10 expm1 fabs fdim floor fma fmax fmin fmod fract frexp hypot ilogb ldexp lgamma
    lgamma_r log log2 log10 log1p logb mad maxmag minmag modf nan nextafter pow pown powr remainder remquo rint
    rootn round rsqrt sin sincos sinh sinpi sqrt tan tanh tanpi tgamma trunc native_cos native_divide native_exp
    native_exp2 native_exp10 native_log native_log2 native_log10 native_powr native_recip native_rsqrt native_sin
    native_sqrt native_tan half_cos half_divide half_exp half_exp2 half_exp10 half_log half_log2 half_log10
    half_powr half_recip half_rsqrt half_sin half_sqrt half_tan abs abs_diff add_sat hadd rhadd clamp clz ctz mad_hi
    mad_sat max min mul_hi rotate sub_sat upsample popcount mad24 mul24 degrees mix radians step smoothstep sign
    cross dot distance length normalize fast_distance fast_length fast_normalize isequal isnotequal isgreater
    isgreaterequal isless islessequal islessgreater isfinite isinf isnan isnormal isordered isunordered signbit any
    all bitselect select shuffle shuffle2 vec_step printf prefetch barrier mem_fence read_mem_fence write_mem_fence
    work_group_barrier sub_group_barrier async_work_group_copy async_work_group_strided_copy wait_group_events
    atomic_add atomic_sub atomic_xchg atomic_inc atomic_dec atomic_cmpxchg atomic_min atomic_max atomic_and
    atomic_or atomic_xor atom_add atom_sub atom_xchg atom_inc atom_dec atom_cmpxchg atom_min atom_max atom_and
    atom_or atom_xor atomic_init atomic_store atomic_load atomic_exchange atomic_fetch_add atomic_fetch_sub
    atomic_fetch_or atomic_fetch_xor atomic_fetch_and atomic_fetch_min atomic_fetch_max atomic_work_item_fence
    atomic_compare_exchange_strong work_group_all work_group_any work_group_broadcast work_group_reduce_add
    work_group_scan_inclusive_add to_global to_local to_private get_fence get_image_width get_image_height
    get_image_depth read_imagef read_imagei read_imageui write_imagef write_imagei write_imageui
    get_pipe_num_packets enqueue_kernel get_default_queue bit_reverse dot_acc_sat
"""
LANES = ("", "2", "3", "4", "8", "16")
SCALARS = ("char", "uchar", "short", "ushort", "int", "uint", "long", "ulong", "float", "double", "half")

RESERVED = {
    *KEYWORDS.split(), *FUNCTIONS.split(),
    *(f"{scalar}{lanes}" for scalar in SCALARS for lanes in LANES),
    *(f"{prefix}_{scalar}{lanes}" for prefix in ("as", "convert") for scalar in SCALARS for lanes in LANES),
    *(f"{call}{lanes}" for call in ("vload", "vstore", "vload_half", "vstore_half") for lanes in LANES),
}  # fmt: skip
