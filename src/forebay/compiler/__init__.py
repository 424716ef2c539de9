"""A compiler from HIP C++ to SPIR-V, or to what a driver's own compiler of C++ makes, with HIP's headers.

    from forebay.compiler.by_clang import compile_to_spirv
    from forebay.compiler.clang import find_clang
    from forebay.compiler.program import Source

    clang, why = find_clang()
    program = compile_to_spirv(clang, Source("__global__ void twice(int* x) { x[threadIdx.x] *= 2; }"))
    program.code, program.kernels[0].parameters

`program` has what goes in, a `Source` with its name, headers, options and name expressions, and what comes out: code,
kernels with the types of their parameters, variables, lowered names, warnings. `by_clang` and `by_driver` are the two
compilers. Messages are the ``log`` of a `BuildError` (`errors`). A source goes this way: `included` reads what it
names, `assembly` and `host_code` leave out what is not for the device, `header_names` has the overlay of headers,
`llvm` reads and changes what clang makes of it, `spirv` what drivers get; `cache` keeps the result.

It needs nothing else of forebay. Whatever blocks says so; all may be called from any thread.
"""
