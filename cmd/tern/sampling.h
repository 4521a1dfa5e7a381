/* What verbs that generate text have in common: how much, and how tokens are chosen. */
#ifndef TERN_CMD_SAMPLING_H
#define TERN_CMD_SAMPLING_H

#include "cmd/tern/options.h"
#include "proto/message.h"

struct sampling_options {
    uint64_t n, seed;
    int64_t top_k;
    double temperature, top_p, min_p, penalty;
    bool has_n, has_seed, has_temperature, has_top_p, has_min_p, has_penalty, ignore_eos;
    struct option_texts bias, stop;
};

/* Rows of an option table; `s` is a struct sampling_options, all zero at first. */
#define SAMPLING_OPTIONS(s)                                                                          \
    {"n", OPTION_COUNT, &(s).n,    NULL, "tokens to generate at most (until the end token)",         \
     0,   1 << 20,      &(s).has_n},                                                                 \
        {"temp", OPTION_NUMBER, &(s).temperature,    "X", "temperature; 0 takes the best token (0)", \
         0,      1e6,           &(s).has_temperature},                                               \
        {"top-k", OPTION_INTEGER, &(s).top_k, "N", "draw from the N best; 0 or less: all (0)",       \
         -1e15,   1e15,           NULL},                                                             \
        {"top-p",                                                                                    \
         OPTION_NUMBER,                                                                              \
         &(s).top_p,                                                                                 \
         "X",                                                                                        \
         "draw from the best that together have this probability (1)",                               \
         0,                                                                                          \
         1,                                                                                          \
         &(s).has_top_p},                                                                            \
        {"min-p",                                                                                    \
         OPTION_NUMBER,                                                                              \
         &(s).min_p,                                                                                 \
         "X",                                                                                        \
         "draw from those with X times the best one's probability (0)",                              \
         0,                                                                                          \
         1,                                                                                          \
         &(s).has_min_p},                                                                            \
        {"repeat-penalty",                                                                           \
         OPTION_NUMBER,                                                                              \
         &(s).penalty,                                                                               \
         "X",                                                                                        \
         "makes the last 64 tokens less likely, above 1 (1)",                                        \
         1e-3,                                                                                       \
         1e3,                                                                                        \
         &(s).has_penalty},                                                                          \
        {"bias",                                                                                     \
         OPTION_TEXTS,                                                                               \
         &(s).bias,                                                                                  \
         "ID=X",                                                                                     \
         "add X to the logit of token ID; may be repeated",                                          \
         0,                                                                                          \
         0,                                                                                          \
         NULL},                                                                                      \
        {"seed", OPTION_COUNT, &(s).seed,    NULL, "seed of the draw (drawn, shown by --stats)",     \
         0,      0x1p64,       &(s).has_seed},                                                       \
        {"stop", OPTION_TEXTS, &(s).stop, "TEXT", "end the answer before TEXT; may be repeated", 0,  \
         0,      NULL},                                                                              \
    {                                                                                                \
        "ignore-eos", OPTION_FLAG, &(s).ignore_eos, NULL, "go on after an end token", 0, 0, NULL     \
    }

/* The fields for these settings; defaults are left out. TERN_USAGE, TERN_NO_MEMORY. */
enum tern_status pack_sampling(struct tern_pack *pack, const struct sampling_options *options,
                               struct tern_error *error);

#endif
