/* The floor: a list of driver calls, made over and over. The functions are the very ones forebay calls; they come as
   addresses. All they take are integers and pointers, so one calling sequence fits them: it passes 6, 9 or 12 words, of
   which a function reads its own. What this adds to a call is about a nanosecond. */

#include <pthread.h>
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

static uint32_t repeat(struct call *calls, size_t count, size_t n) {
    uint32_t error = 0;
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < count; k++)
            error |= make(calls + k);
    return error;
}

/* Seconds that n passes over the list take; negative when a call fails. */
double run(struct call *calls, size_t count, size_t n) {
    double start = seconds();
    uint32_t error = repeat(calls, count, n);
    double taken = seconds() - start;
    return error ? -1 : taken;
}

struct job {
    pthread_t thread;
    pthread_barrier_t *start;
    struct call *calls;
    size_t count, n;
    uint32_t error;
    double begun, done;
};

static void *work(void *data) {
    struct job *job = data;
    pthread_barrier_wait(job->start);
    job->begun = seconds();
    job->error = repeat(job->calls, job->count, job->n);
    job->done = seconds();
    return NULL;
}

/* Seconds from the first thread's begin to the last one's end; each makes n passes over a list of its own. */
double run_threads(struct call **lists, size_t count, size_t n_threads, size_t n) {
    struct job jobs[64];
    pthread_barrier_t start;
    double begun = 0, done = 0;
    uint32_t error = 0;
    size_t i, started = 0;
    if (n_threads > 64)
        return -1;
    pthread_barrier_init(&start, NULL, (unsigned)n_threads);
    for (i = 0; i < n_threads; i++) {
        jobs[i] = (struct job){.start = &start, .calls = lists[i], .count = count, .n = n};
        if (pthread_create(&jobs[i].thread, NULL, work, &jobs[i]))
            return -1; /* the others wait for ever; the process ends with the error */
        started++;
    }
    for (i = 0; i < started; i++) {
        pthread_join(jobs[i].thread, NULL);
        error |= jobs[i].error;
        begun = i == 0 || jobs[i].begun < begun ? jobs[i].begun : begun;
        done = jobs[i].done > done ? jobs[i].done : done;
    }
    pthread_barrier_destroy(&start);
    return error ? -1 : done - begun;
}
