// What examples/linpack.py needs of a BLAS library. Matrices are stored column
// by column, as there.
#define TILE 16

// Solve L X = B in place, for a lower triangular L of `size` rows with ones on
// its diagonal. Each thread solves for a column.
extern "C" __global__ void dtrsm(int size, int columns, const double *l,
                                 int ldl, double *b, int ldb)
{
    int column = blockIdx.x * blockDim.x + threadIdx.x;
    if (column >= columns)
        return;
    double *x = b + (size_t)column * ldb;
    for (int i = 0; i < size; i++)
        for (int k = i + 1; k < size; k++)
            x[k] -= l[k + (size_t)i * ldl] * x[i];
}

// C -= A B^T, where A has `inner` columns. A block computes a tile of C.
extern "C" __global__ void dgemm(int rows, int columns, int inner,
                                 const double *a, int lda, const double *b,
                                 int ldb, double *c, int ldc)
{
    __shared__ double left[TILE][TILE], right[TILE][TILE];
    int i = blockIdx.x * TILE + threadIdx.x;
    int j = blockIdx.y * TILE + threadIdx.y;
    int other = blockIdx.y * TILE + threadIdx.x;
    double sum = 0;
    for (int k = threadIdx.y; k - threadIdx.y < inner; k += TILE) {
        left[threadIdx.y][threadIdx.x] =
            i < rows && k < inner ? a[i + (size_t)k * lda] : 0;
        right[threadIdx.y][threadIdx.x] =
            other < columns && k < inner ? b[other + (size_t)k * ldb] : 0;
        __syncthreads();
        for (int step = 0; step < TILE; step++)
            sum += left[step][threadIdx.x] * right[step][threadIdx.y];
        __syncthreads();
    }
    if (i < rows && j < columns)
        c[i + (size_t)j * ldc] -= sum;
}
