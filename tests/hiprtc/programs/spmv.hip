#include <hip/hip_runtime.h>

struct Sparse {
    const int* rows;
    const int* columns;
    const double* values;
};

// A sparse matrix in rows times a vector, a row for each tile of eight threads.
extern "C" __global__ void spmv(const int* rows, const int* columns, const double* values, const double* x, double* y,
                                int n) {
    namespace cg = cooperative_groups;
    auto tile = cg::tiled_partition<8>(cg::this_thread_block());
    Sparse matrix{rows, columns, values};
    int row = (blockIdx.x * blockDim.x + threadIdx.x) / 8;
    double sum = 0;
    if (row < n)
        for (int i = matrix.rows[row] + tile.thread_rank(); i < matrix.rows[row + 1]; i += tile.size())
            sum += matrix.values[i] * x[matrix.columns[i]];
    for (int delta = tile.size() / 2; delta > 0; delta /= 2)
        sum += tile.shfl_down(sum, delta);
    if (row < n && tile.thread_rank() == 0)
        y[row] = sum;
}
