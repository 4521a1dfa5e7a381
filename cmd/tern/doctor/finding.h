/*
 * What one check of `tern doctor` found: a sentence, figures for --json, and, where something is
 * not as it should be, what to do about it.
 */
#ifndef TERN_CMD_DOCTOR_FINDING_H
#define TERN_CMD_DOCTOR_FINDING_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

enum finding_state {
    FINDING_OK,
    FINDING_NOTE,    /* Tern works; it could work better */
    FINDING_PROBLEM, /* something will fail */
};

struct finding {
    enum finding_state state;
    char text[2048];
    char remedy[2048]; /* "" with FINDING_OK */
    json_t *figures;   /* an object */
};

void finding_begin(struct finding *finding);
/* Frees the figures. */
void finding_end(struct finding *finding);

/* Appends to the text, "; " before all but the first. */
__attribute__((format(printf, 2, 3))) void finding_say(struct finding *finding, const char *format,
                                                       ...);

/* Makes the state at least `state` and appends to the remedy. */
__attribute__((format(printf, 3, 4))) void
finding_raise(struct finding *finding, enum finding_state state, const char *remedy, ...);

/* Figures. What cannot be known is null. */
void finding_number(struct finding *finding, const char *key, uint64_t value);
void finding_real(struct finding *finding, const char *key, double value);
void finding_flag(struct finding *finding, const char *key, bool value);
void finding_text(struct finding *finding, const char *key, const char *value);
void finding_unknown(struct finding *finding, const char *key);

/* "ok", "note", "problem" */
const char *finding_state_name(enum finding_state state);

/* The figures with "state", "text" and "remedy" (null if there is none); a new reference. */
json_t *finding_json(const struct finding *finding);

#endif
