/* What is done inside this is what callgrind collects; it goes to a file of its own, with this name in it. Only for that
   does callgrind watch: the start of Python takes several times as long under its eyes. */

#include <valgrind/callgrind.h>

void collected(void (*work)(void), const char *name) {
    CALLGRIND_START_INSTRUMENTATION;
    CALLGRIND_ZERO_STATS;
    CALLGRIND_TOGGLE_COLLECT;
    work();
    CALLGRIND_TOGGLE_COLLECT;
    CALLGRIND_DUMP_STATS_AT(name);
    CALLGRIND_STOP_INSTRUMENTATION;
}
