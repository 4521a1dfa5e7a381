/* Orders to the fake worker: tokens of a row. Obeyed in the incarnation that is the row's position;
 * every other token, and an order in another incarnation, is answered by token + 1. */
#ifndef TERN_TESTS_FAKE_WORKER_H
#define TERN_TESTS_FAKE_WORKER_H

enum {
    FAKE_CRASH = 1001, /* SIGSEGV */
    FAKE_SPIN,         /* use the CPU for ever */
    FAKE_SLEEP,        /* for ever */
    FAKE_STOP,         /* SIGSTOP to itself */
    FAKE_EXIT,         /* with code 9 */
    FAKE_LIE,          /* an impossible result */
};

enum { FAKE_SLOW = 77777 }; /* as the first row's position: the step takes 1 ms */

#endif
