/* The floor: the same driver calls in a C loop. The functions are the very ones forebay calls; they come as addresses. */

#include <stddef.h>
#include <stdint.h>
#include <time.h>

typedef int32_t (*enqueue_t)(void *queue, void *kernel, uint32_t dimensions, const size_t *offset, const size_t *global,
                             const size_t *local, uint32_t n_waits, void *const *waits, void **event);
typedef int32_t (*set_argument_t)(void *kernel, uint32_t index, size_t size, const void *value);

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec + 1e-9 * now.tv_nsec;
}

/* Seconds that n launches take; negative when one fails. */
double launches(enqueue_t enqueue, void *queue, void *kernel, size_t n) {
    const size_t one = 1;
    int32_t error = 0;
    double start = seconds();
    for (size_t i = 0; i < n; i++)
        error |= enqueue(queue, kernel, 1, NULL, &one, &one, 0, NULL, NULL);
    double taken = seconds() - start;
    return error ? -1 : taken;
}

/* The same, with one int argument that changes each time. */
double changing_launches(enqueue_t enqueue, set_argument_t set, void *queue, void *kernel, uint32_t index, size_t n) {
    const size_t one = 1;
    int32_t error = 0;
    double start = seconds();
    for (size_t i = 0; i < n; i++) {
        int32_t value = (int32_t)i;
        error |= set(kernel, index, sizeof value, &value);
        error |= enqueue(queue, kernel, 1, NULL, &one, &one, 0, NULL, NULL);
    }
    double taken = seconds() - start;
    return error ? -1 : taken;
}

typedef int32_t (*write_t)(void *queue, void *memory, uint32_t blocking, size_t offset, size_t nbytes, const void *host,
                           uint32_t n_waits, void *const *waits, void **event);
typedef int32_t (*release_t)(void *event);

/* The same, with bytes that change written to a buffer each time; the write has an event, which is released. The host
   memory is a ring: the device may still read what was written before. */
double uploading_launches(enqueue_t enqueue, write_t write, release_t release, void *queue, void *kernel, void *memory,
                          char *ring, size_t nbytes, size_t slots, size_t n) {
    const size_t one = 1;
    int32_t error = 0;
    double start = seconds();
    for (size_t i = 0; i < n; i++) {
        char *host = ring + i % slots * nbytes;
        void *event;
        for (size_t k = 0; k < nbytes; k += 64)
            host[k] = (char)i;
        error |= write(queue, memory, 0, 0, nbytes, host, 0, NULL, &event);
        error |= enqueue(queue, kernel, 1, NULL, &one, &one, 0, NULL, NULL);
        error |= release(event);
    }
    double taken = seconds() - start;
    return error ? -1 : taken;
}

typedef int32_t (*enqueue_buffer_t)(uint32_t n_queues, void **queues, void *buffer, uint32_t n_waits,
                                    void *const *waits, void **event);

/* Seconds that n replays of a command buffer take. */
double replays(enqueue_buffer_t enqueue, void *queue, void *buffer, size_t n) {
    int32_t error = 0;
    (void)queue;
    double start = seconds();
    for (size_t i = 0; i < n; i++)
        error |= enqueue(0, NULL, buffer, 0, NULL, NULL);
    double taken = seconds() - start;
    return error ? -1 : taken;
}
