/* What is done inside this is what callgrind collects; it goes to a file of its own, with this name in it. */

#include <valgrind/callgrind.h>

void collected(void (*work)(void), const char *name) {
    CALLGRIND_ZERO_STATS;
    CALLGRIND_TOGGLE_COLLECT;
    work();
    CALLGRIND_TOGGLE_COLLECT;
    CALLGRIND_DUMP_STATS_AT(name);
}
