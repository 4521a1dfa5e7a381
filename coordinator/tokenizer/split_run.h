/* Steps that take runs of one class: a scan does them many times faster than an expression. */
#ifndef TERN_TOKENIZER_SPLIT_RUN_H
#define TERN_TOKENIZER_SPLIT_RUN_H

#include "coordinator/tokenizer/split.h"

struct split_run {
    bool run[256], before[256]; /* members of the classes */
    size_t least, most;
    bool at_end;
};

void split_run_init(const struct split_step *step, struct split_run *run);

/* The first match in subject[at .. length), at < length: puts its place into *start and *end. */
bool split_run_find(const struct split_run *run, const uint8_t *subject, size_t length, size_t at,
                    size_t *start, size_t *end);

#endif
