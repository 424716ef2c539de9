/* The floor: a list of driver calls, made over and over. The functions are the very ones forebay calls; they come as
   addresses. All they take are integers and pointers, so one calling sequence fits them: it passes 6, 9 or 12 words, of
   which a function reads its own. What this adds to a call is about a nanosecond. */

#include <stddef.h>
#include <stdint.h>
#include <time.h>

typedef uint64_t word;

struct call {
    void *function;
    word arguments[12];
    uint32_t arity;
    uint32_t loaded; /* bit i: argument i is the address of the value to pass */
    word *result;    /* where to put what it returns; NULL when that is an error code, which is checked */
};

typedef word (*six_t)(word, word, word, word, word, word);
typedef word (*nine_t)(word, word, word, word, word, word, word, word, word);
typedef word (*twelve_t)(word, word, word, word, word, word, word, word, word, word, word, word);

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec + 1e-9 * now.tv_nsec;
}

static inline uint32_t make(struct call *call) {
    word *a = call->arguments, loaded[12], returned;
    if (call->loaded) {
        for (uint32_t i = 0; i < 12; i++)
            loaded[i] = call->loaded >> i & 1 ? *(word *)a[i] : a[i];
        a = loaded;
    }
    if (call->arity <= 6)
        returned = ((six_t)call->function)(a[0], a[1], a[2], a[3], a[4], a[5]);
    else if (call->arity <= 9)
        returned = ((nine_t)call->function)(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8]);
    else
        returned = ((twelve_t)call->function)(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10], a[11]);
    if (!call->result)
        return (uint32_t)returned;
    *call->result = returned;
    return 0;
}

/* Makes n passes over the list. Returns the seconds that took, or -1 when a call has failed. */
double run(struct call *calls, size_t count, size_t n) {
    uint32_t error = 0;
    double begun = seconds();
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < count; k++)
            error |= make(calls + k);
    return error ? -1 : seconds() - begun;
}
