/* The floor: the same driver calls in a C loop. The functions are the very ones forebay calls; they come as addresses. */

#include <stddef.h>
#include <stdint.h>
#include <time.h>

typedef uint32_t (*append_t)(void *list, void *kernel, const uint32_t *groups, void *signal, uint32_t n_waits,
                             void **waits);
typedef uint32_t (*set_argument_t)(void *kernel, uint32_t index, size_t size, const void *value);

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec + 1e-9 * now.tv_nsec;
}

/* Seconds that n launches take; negative when one fails. */
double launches(append_t append, void *list, void *kernel, size_t n) {
    const uint32_t groups[3] = {1, 1, 1};
    uint32_t error = 0;
    double start = seconds();
    for (size_t i = 0; i < n; i++)
        error |= append(list, kernel, groups, NULL, 0, NULL);
    double taken = seconds() - start;
    return error ? -1 : taken;
}

/* The same, with one int argument that changes each time. */
double changing_launches(append_t append, set_argument_t set, void *list, void *kernel, uint32_t index, size_t n) {
    const uint32_t groups[3] = {1, 1, 1};
    uint32_t error = 0;
    double start = seconds();
    for (size_t i = 0; i < n; i++) {
        int32_t value = (int32_t)i;
        error |= set(kernel, index, sizeof value, &value);
        error |= append(list, kernel, groups, NULL, 0, NULL);
    }
    double taken = seconds() - start;
    return error ? -1 : taken;
}

typedef uint32_t (*copy_t)(void *list, void *to, const void *source, size_t nbytes, void *signal, uint32_t n_waits,
                           void **waits);

/* The same, with bytes that change copied to device memory each time, from a ring of host memory; the copy signals an
   event that is used again. */
double uploading_launches(append_t append, copy_t copy, void *event, void *list, void *kernel, void *memory, char *ring,
                          size_t nbytes, size_t slots, size_t n) {
    const uint32_t groups[3] = {1, 1, 1};
    uint32_t error = 0;
    double start = seconds();
    for (size_t i = 0; i < n; i++) {
        char *host = ring + i % slots * nbytes;
        for (size_t k = 0; k < nbytes; k += 64)
            host[k] = (char)i;
        error |= copy(list, memory, host, nbytes, event, 0, NULL);
        error |= append(list, kernel, groups, NULL, 0, NULL);
    }
    double taken = seconds() - start;
    return error ? -1 : taken;
}

typedef uint32_t (*append_lists_t)(void *list, uint32_t n_lists, void **lists, void *signal, uint32_t n_waits,
                                   void **waits);

/* Seconds that n replays of a closed list take. */
double replays(append_lists_t append, void *list, void *closed, size_t n) {
    uint32_t error = 0;
    double start = seconds();
    for (size_t i = 0; i < n; i++)
        error |= append(list, 1, &closed, NULL, 0, NULL);
    double taken = seconds() - start;
    return error ? -1 : taken;
}
