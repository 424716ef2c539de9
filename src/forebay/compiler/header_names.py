"""More names of the headers in `include`: what HIP, CUDA, CUB, Thrust and rocPRIM have in many files is in few here.

Clang gets them as a file system that it lays over the real one (``-ivfsoverlay``).
"""

from __future__ import annotations

import functools
import json
from pathlib import Path

# header -> the folder, what they end with, and the files that mean the same
_NAMES: tuple[tuple[str, str, str, str], ...] = (
    ("hip/hip_runtime.h", "cuda/", ".h", """
        builtin_types channel_descriptor common_functions crt/device_functions crt/host_config crt/host_defines
        crt/math_functions cuda_device_runtime_api cuda_texture_types device_atomic_functions
        device_double_functions device_types driver_types host_config host_defines library_types math_functions
        sm_11_atomic_functions sm_12_atomic_functions sm_13_double_functions sm_20_atomic_functions
        sm_20_intrinsics sm_30_intrinsics sm_32_atomic_functions sm_32_intrinsics sm_35_atomic_functions
        sm_35_intrinsics sm_60_atomic_functions sm_61_intrinsics surface_functions surface_indirect_functions
        surface_types texture_fetch_functions texture_indirect_functions texture_types vector_functions.hpp"""),
    ("hip/hip_runtime.h", "hip/", ".h", """
        amd_detail/amd_device_functions amd_detail/amd_hip_atomic amd_detail/amd_hip_runtime
        amd_detail/amd_hip_vector_types
        amd_detail/amd_math_functions amd_detail/amd_warp_functions amd_detail/device_library_decls
        amd_detail/hip_runtime amd_detail/math_fwd hcc_detail/device_functions hcc_detail/hip_runtime
        hcc_detail/hip_vector_types hcc_detail/math_functions hip_hcc hip_profile host_defines library_types
        surface_types texture_types"""),
    ("hip/hip_fp16.h", "hip/", ".h", "amd_detail/amd_hip_fp16 hcc_detail/hip_fp16"),
    ("hip/hip_bf16.h", "hip/", ".h", "amd_detail/amd_hip_bf16 amd_detail/amd_hip_bfloat16"),
    ("hip/hip_cooperative_groups.h", "hip/", ".h",
        "amd_detail/amd_hip_cooperative_groups hcc_detail/hip_cooperative_groups"),
    ("hip/hip_complex.h", "hip/", ".h", "amd_detail/amd_hip_complex hcc_detail/hip_complex"),
    ("cuda/cuda_fp16.h", "cuda/", ".hpp", "cuda_fp16"),
    ("cuda/cutil.h", "cuda/", ".h", "cutil_inline"),
    ("cuda/cuda_bf16.h", "cuda/", ".hpp", "cuda_bf16"),
    ("cuda/cooperative_groups.h", "cuda/cooperative_groups/", ".h",
        "details/helpers details/partitioning details/sync details/coalesced_reduce sync"),
    ("cuda/curand_kernel.h", "cuda/", ".h", """
        curand_discrete curand_globals curand_lognormal curand_mrg32k3a curand_mtgp32 curand_mtgp32_host
        curand_mtgp32_kernel curand_normal curand_philox4x32_x curand_poisson curand_precalc curand_uniform"""),
    ("hiprand/hiprand_kernel.h", "", ".h", """
        rocrand/rocrand_kernel rocrand/rocrand_xorwow rocrand/rocrand_philox4x32_10 rocrand/rocrand_mrg32k3a
        rocrand/rocrand_normal rocrand/rocrand_uniform rocrand_kernel"""),
    ("hipcub/hipcub.hpp", "hipcub/", ".hpp", """
        block/block_adjacent_difference block/block_discontinuity block/block_exchange block/block_histogram
        block/block_load block/block_merge_sort block/block_radix_sort block/block_reduce block/block_scan
        block/block_shuffle block/block_store config device/device_histogram device/device_radix_sort
        device/device_reduce device/device_run_length_encode device/device_scan device/device_segmented_radix_sort
        device/device_segmented_reduce device/device_select iterator/arg_index_input_iterator
        iterator/cache_modified_input_iterator iterator/constant_input_iterator iterator/counting_input_iterator
        iterator/transform_input_iterator thread/thread_load thread/thread_operators thread/thread_reduce
        thread/thread_store util_allocator util_ptx util_type warp/warp_exchange warp/warp_load warp/warp_merge_sort
        warp/warp_reduce warp/warp_scan warp/warp_store"""),
    ("cuda/cub/cub.cuh", "cuda/cub/", ".cuh", """
        agent/agent_reduce block/block_adjacent_difference block/block_discontinuity block/block_exchange
        block/block_raking_layout block/block_run_length_decode block/block_shuffle block/radix_rank_sort_operations
        config device/device_adjacent_difference device/device_for device/device_histogram device/device_merge_sort
        device/device_partition device/device_radix_sort device/device_reduce device/device_run_length_encode
        device/device_scan device/device_segmented_radix_sort device/device_segmented_reduce
        device/device_segmented_sort device/device_select device/device_spmv grid/grid_barrier grid/grid_even_share
        grid/grid_mapping grid/grid_queue host/mutex iterator/arg_index_input_iterator
        iterator/cache_modified_input_iterator iterator/cache_modified_output_iterator iterator/constant_input_iterator
        iterator/counting_input_iterator iterator/discard_output_iterator iterator/tex_obj_input_iterator
        iterator/transform_input_iterator thread/thread_load thread/thread_operators thread/thread_reduce
        thread/thread_scan thread/thread_search thread/thread_sort thread/thread_store util_allocator util_arch
        util_compiler util_cpp_dialect util_debug util_deprecated util_device util_macro util_math util_namespace
        util_ptx util_type version warp/warp_exchange warp/warp_load warp/warp_merge_sort warp/warp_store"""),
    ("rocprim/rocprim.hpp", "rocprim/", ".hpp", """
        block/block_adjacent_difference block/block_discontinuity block/block_exchange block/block_histogram
        block/block_load block/block_load_func block/block_radix_sort block/block_reduce block/block_scan
        block/block_shuffle block/block_sort block/block_store block/block_store_func config device/config_types
        device/device_histogram device/device_merge device/device_merge_sort device/device_partition
        device/device_radix_sort device/device_reduce device/device_reduce_by_key device/device_run_length_encode
        device/device_scan device/device_segmented_reduce device/device_select device/device_transform functional
        intrinsics intrinsics/thread intrinsics/warp intrinsics/warp_shuffle iterator iterator/constant_iterator
        iterator/counting_iterator iterator/transform_iterator iterator/zip_iterator rocprim_version type_traits types
        types/double_buffer types/key_value_pair types/tuple warp/warp_exchange warp/warp_load warp/warp_reduce
        warp/warp_scan warp/warp_sort warp/warp_store"""),
    ("thrust/execution_policy.h", "thrust/", ".h", """
        adjacent_difference binary_search detail/config detail/config/host_device detail/execute_with_allocator
        detail/type_traits detail/vector_base device_free device_malloc equal find gather generate inner_product logical
        merge mismatch partition remove replace reverse scatter sequence set_operations system/cpp/execution_policy
        system/cuda/detail/execution_policy system/cuda/detail/par system/cuda/error system/cuda/execution_policy
        system/cuda/experimental/pinned_allocator system/cuda/vector system/hip/execution_policy system/hip/vector
        system/omp/execution_policy system/tbb/execution_policy system_error tabulate transform_reduce transform_scan
        uninitialized_copy uninitialized_fill unique unique_by_key version"""),
    ("thrust/device_vector.h", "thrust/", ".h", """
        async/copy async/for_each async/reduce async/scan async/sort async/transform device_allocator device_delete
        device_malloc_allocator device_new device_new_allocator device_reference future memory mr/allocator
        mr/device_memory_resource mr/disjoint_pool mr/host_memory_resource mr/new mr/pool system/cuda/memory
        universal_vector"""),
    ("thrust/iterator/counting_iterator.h", "thrust/iterator/", ".h",
        "constant_iterator detail/normal_iterator discard_iterator iterator_adaptor iterator_categories "
        "iterator_facade iterator_traits permutation_iterator retag reverse_iterator transform_output_iterator"),
    ("thrust/iterator/zip_iterator.h", "thrust/", ".h", "zip_function"),
    ("thrust/random.h", "thrust/random/", ".h", """
        discard_block_engine linear_congruential_engine linear_feedback_shift_engine normal_distribution
        subtract_with_carry_engine uniform_int_distribution uniform_real_distribution xor_combine_engine"""),
    ("thrust/tuple.h", "thrust/", ".h", "advance detail/minmax detail/swap distance limits optional"),
    ("cuda/helper_math.h", "cuda/", ".h", "cutil_math"),
    ("host_library.h", "cuda/", ".h", """
        cublas cublasLt cublasXt cuda_d3d11_interop cuda_egl_interop cuda_gl_interop cuda_occupancy cuda_profiler_api
        cuda_vdpau_interop cudaGL cudaProfiler cudnn curand cusolverDn cusolverSp cusolver_common cusparse cusparse_v2
        cusparseLt cutensor nccl npp nppcore nppi npps nvToolsExt nvToolsExtCuda nvToolsExtCudaRt nvjpeg nvml nvrtc
        nvshmem nvshmemx nvtx3/nvToolsExt nvtx3/nvToolsExtCuda nvtx3/nvtx3.hpp omp cutil cutil_inline
        drvapi_error_string helper_cuda helper_cuda_drvapi helper_functions helper_image helper_string helper_timer mpi
        shrQATest shrUtils"""),
    ("host_library.h", "", ".h", """
        hip/hip_gl_interop hipblas hipblas/hipblas hipblas-common/hipblas-common hipblaslt hipblaslt/hipblaslt hiprand
        hiprand/hiprand hiprtc hipsolver hipsolver/hipsolver hipsparse hipsparse/hipsparse miopen/miopen rccl rccl/rccl
        rocblas rocblas/rocblas rocfft rocfft/rocfft rocrand/rocrand rocsolver/rocsolver rocsparse rocsparse/rocsparse
        roctracer/roctracer roctracer/roctx roctx rocm_smi/rocm_smi rocprofiler-sdk-roctx/roctx"""),
    ("hipfft/hipfft.h", "", ".h", "hipfft hipfftXt hipfft/hipfftXt"),
)  # fmt: skip


@functools.cache
def names() -> dict[str, str]:
    """Return the header that each name means, both as paths below `include`."""
    return {
        folder + (name if name.endswith(".hpp") else name + ending): header
        for header, folder, ending, listed in _NAMES
        for name in listed.split()
    }


def overlay(include: Path, changed: tuple[tuple[str, Path], ...] = ()) -> str:
    """Return clang's description of these names below the folder `include`, in YAML's JSON.

    `changed` are further files, with the paths of what they have instead; clang goes on calling them by their names.
    """
    roots: list[dict[str, object]] = [
        {"type": "file", "name": str(include / name), "external-contents": str(include / header)}
        for name, header in names().items()
        if not (include / name).exists()
    ]
    roots += [
        {"type": "file", "name": path, "external-contents": str(instead), "use-external-name": False}
        for path, instead in changed
    ]
    return json.dumps({"version": 0, "roots": roots})
