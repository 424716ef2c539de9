/* What is done inside this is what callgrind collects. */

#include <valgrind/callgrind.h>

void collected(void (*work)(void)) {
    CALLGRIND_TOGGLE_COLLECT;
    work();
    CALLGRIND_TOGGLE_COLLECT;
}
