// Kernels of examples/jacobi.py. A block is ny rows of nx points, without the
// points around it. Those are in `halo`, side after side: below, above (nx
// points each), left, right (ny points each). What a block gives its neighbours
// has the same order.
#define SIDES (2 * (nx + ny))

// The point of the block that is at place `at` of its sides.
__device__ int point_of(int at, int nx, int ny)
{
    if (at < 2 * nx)
        return at < nx ? at : (ny - 1) * nx + at - nx;
    at -= 2 * nx;
    return at < ny ? at * nx : (at - ny) * nx + nx - 1;
}

template <typename real>
__global__ void pack_sides(const real *u, real *sides, int nx, int ny)
{
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < SIDES)
        sides[at] = u[point_of(at, nx, ny)];
}

// The residual f - Au of the points that have all four neighbours in the block.
template <typename real>
__global__ void inner_residual(const real *u, const real *f, real *residual,
                               int nx, int ny, real dx, real dy)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x + 1;
    int y = blockIdx.y * blockDim.y + threadIdx.y + 1;
    if (x >= nx - 1 || y >= ny - 1)
        return;
    int i = y * nx + x;
    residual[i] = f[i] + (u[i - 1] - 2 * u[i] + u[i + 1]) / (dx * dx) +
                  (u[i - nx] - 2 * u[i] + u[i + nx]) / (dy * dy);
}

// That of all others, once the halo is there. A corner is on two sides: both
// compute the same.
template <typename real>
__global__ void outer_residual(const real *u, const real *halo, const real *f,
                               real *residual, int nx, int ny, real dx, real dy)
{
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= SIDES)
        return;
    int i = point_of(at, nx, ny), x = i % nx, y = i / nx;
    real below = y > 0 ? u[i - nx] : halo[x];
    real above = y < ny - 1 ? u[i + nx] : halo[nx + x];
    real left = x > 0 ? u[i - 1] : halo[2 * nx + y];
    real right = x < nx - 1 ? u[i + 1] : halo[2 * nx + ny + y];
    residual[i] = f[i] + (left - 2 * u[i] + right) / (dx * dx) +
                  (below - 2 * u[i] + above) / (dy * dy);
}

// The step of Jacobi's method, u += D^-1 (f - Au), and the sum of the squares
// of the residual over each group.
template <typename real>
__global__ void update(real *u, const real *residual, real *sums, int points,
                       real inverse)
{
    __shared__ real part[GROUP];
    real sum = 0;
    for (int i = blockIdx.x * GROUP + threadIdx.x; i < points;
         i += gridDim.x * GROUP) {
        u[i] += inverse * residual[i];
        sum += residual[i] * residual[i];
    }
    part[threadIdx.x] = sum;
    __syncthreads();
    for (int width = GROUP / 2; width > 0; width /= 2) {
        if (threadIdx.x < width)
            part[threadIdx.x] += part[threadIdx.x + width];
        __syncthreads();
    }
    if (threadIdx.x == 0)
        sums[blockIdx.x] = part[0];
}

// The sum of those sums, for one group.
template <typename real>
__global__ void add_up(const real *sums, int count, real *norms, int step)
{
    __shared__ real part[GROUP];
    part[threadIdx.x] = threadIdx.x < count ? sums[threadIdx.x] : 0;
    __syncthreads();
    for (int width = GROUP / 2; width > 0; width /= 2) {
        if (threadIdx.x < width)
            part[threadIdx.x] += part[threadIdx.x + width];
        __syncthreads();
    }
    if (threadIdx.x == 0)
        norms[step] = part[0];
}
