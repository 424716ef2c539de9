/* For LD_PRELOAD: malloc has no memory for forebay's modules, as often as `fail` says. All others get theirs. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <string.h>

extern void *__libc_malloc(size_t);
static long before = 0, failing = 0, failed = 0;

void fail(long after, long count) {
    __atomic_store_n(&failed, 0, __ATOMIC_SEQ_CST);
    __atomic_store_n(&before, after, __ATOMIC_SEQ_CST);
    __atomic_store_n(&failing, count, __ATOMIC_SEQ_CST);
}

long failures(void) { return __atomic_load_n(&failed, __ATOMIC_SEQ_CST); }

static int is_of_forebay(const void *caller) {
    Dl_info found;
    return dladdr(caller, &found) && found.dli_fname && strstr(found.dli_fname, ".cpython-")
        && !strstr(found.dli_fname, "site-packages") && !strstr(found.dli_fname, "lib-dynload");
}

void *malloc(size_t nbytes) {
    if (__atomic_load_n(&failing, __ATOMIC_RELAXED) > 0 && is_of_forebay(__builtin_return_address(0))
        && __atomic_sub_fetch(&before, 1, __ATOMIC_SEQ_CST) < 0) {
        __atomic_sub_fetch(&failing, 1, __ATOMIC_SEQ_CST);
        __atomic_add_fetch(&failed, 1, __ATOMIC_SEQ_CST);
        return 0;
    }
    return __libc_malloc(nbytes);
}
