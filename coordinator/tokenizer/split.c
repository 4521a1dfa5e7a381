/*
 * Cutting by expressions over class bytes (unicode.h): PCRE2 sees no UTF-8 and needs no Unicode
 * tables, which differ from version to version and are older than the reference's in Debian 12 (14
 * against 16).
 */
#include "coordinator/tokenizer/split.h"

#include "coordinator/tokenizer/split_run.h"
#include "coordinator/tokenizer/unicode.h"
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdlib.h>
#include <string.h>

struct splitter {
    struct unicode_classes *classes;
    pcre2_code *code[SPLIT_STEPS]; /* NULL: a run */
    bool jit[SPLIT_STEPS];         /* false where the system forbids memory that is executable */
    struct split_run run[SPLIT_STEPS];
    size_t count;
    size_t bytes_from;
};

static enum tern_status prepare(const struct split_step *step, struct splitter *splitter,
                                struct tern_error *error)
{
    const size_t level = splitter->count++;
    if (step->expression == NULL) {
        split_run_init(step, &splitter->run[level]);
        return TERN_OK;
    }
    int number;
    size_t where;
    pcre2_code *code = pcre2_compile((PCRE2_SPTR)step->expression, PCRE2_ZERO_TERMINATED,
                                     PCRE2_NEVER_UTF, &number, &where, NULL);
    if (code == NULL)
        return tern_fail(error, TERN_FAILED, "pre-tokenizer expression: error %d at %zu", number,
                         where);
    splitter->code[level] = code;
    splitter->jit[level] = pcre2_jit_compile(code, PCRE2_JIT_COMPLETE) == 0;
    return TERN_OK;
}

static bool is_step(const struct split_step *step)
{
    return step->expression != NULL || step->run != NULL;
}

enum tern_status splitter_new(const struct split_rule *rule, struct splitter **out,
                              struct tern_error *error)
{
    struct splitter *splitter = calloc(1, sizeof *splitter);
    if (splitter != NULL) {
        splitter->classes = unicode_classes_new(rule->set, rule->ranges);
        splitter->bytes_from = rule->bytes_from;
    }
    enum tern_status status =
        splitter == NULL || splitter->classes == NULL
            ? tern_fail(error, TERN_NO_MEMORY, "no memory for a pre-tokenizer")
            : TERN_OK;
    for (size_t i = 0; status == TERN_OK && i < SPLIT_STEPS && is_step(&rule->step[i]); i++)
        status = prepare(&rule->step[i], splitter, error);
    if (status != TERN_OK) {
        splitter_free(splitter);
        return status;
    }
    *out = splitter;
    return TERN_OK;
}

void splitter_free(struct splitter *splitter)
{
    if (splitter == NULL)
        return;
    for (size_t i = 0; i < splitter->count; i++)
        pcre2_code_free(splitter->code[i]);
    unicode_classes_free(splitter->classes);
    free(splitter);
}

static bool reserve_match(struct split_work *work)
{
    if (work->match != NULL)
        return true;
    work->match = pcre2_match_data_create(1, NULL);
    work->context = pcre2_match_context_create(NULL);
    if (work->match == NULL || work->context == NULL)
        return false;
    /* A run of spaces counts one step for each that is given back; that is the most there is. */
    pcre2_set_match_limit(work->context, UINT32_MAX);
    return true;
}

static bool reserve(struct split_work *work, size_t length)
{
    if (!reserve_match(work))
        return false;
    if (work->room >= length)
        return true;
    free(work->code);
    free(work->end);
    free(work->other);
    work->code = malloc(length);
    work->end = malloc(length * sizeof *work->end);
    work->other = malloc(length * sizeof *work->other);
    work->room = length;
    if (work->code != NULL && work->end != NULL && work->other != NULL)
        return true;
    work->room = 0;
    return false;
}

void split_work_free(struct split_work *work)
{
    free(work->code);
    free(work->end);
    free(work->other);
    pcre2_match_data_free(work->match);
    pcre2_match_context_free(work->context);
    *work = (struct split_work){0};
}

static void add_match(struct split_work *work, uint32_t from, uint32_t start, uint32_t end)
{
    if (start > from)
        work->end[work->count++] = start;
    work->end[work->count++] = end;
}

/* Cut subject[from .. to) and append the ends of its pieces. */
static void cut_by_run(const struct split_run *run, const uint8_t *subject, uint32_t from,
                       uint32_t to, struct split_work *work)
{
    const size_t length = to - from;
    size_t at = 0, start, end;
    for (; at < length && split_run_find(run, subject + from, length, at, &start, &end); at = end)
        add_match(work, from + (uint32_t)at, from + (uint32_t)start, from + (uint32_t)end);
    if (at < length)
        work->end[work->count++] = to;
}

static int cut_by_expression(const pcre2_code *code, bool jit, const uint8_t *subject,
                             uint32_t from, uint32_t to, struct split_work *work)
{
    const size_t *match = pcre2_get_ovector_pointer(work->match);
    const PCRE2_SPTR piece = subject + from;
    const size_t length = to - from;
    for (size_t at = 0; at < length; at = match[1]) {
        const int found =
            jit ? pcre2_jit_match(code, piece, length, at, 0, work->match, work->context)
                : pcre2_match(code, piece, length, at, 0, work->match, work->context);
        if (found == PCRE2_ERROR_NOMATCH) {
            work->end[work->count++] = to;
            return 0;
        }
        if (found < 0)
            return found;
        add_match(work, from + (uint32_t)at, from + (uint32_t)match[0], from + (uint32_t)match[1]);
    }
    return 0;
}

/* Most pieces hold no member of the class, or do not end in one. */
static void cut_level_by_run(const struct split_run *run, const uint8_t *subject,
                             const uint32_t *before, size_t pieces, struct split_work *work)
{
    const uint32_t all = before[pieces - 1];
    uint32_t from = 0, member = 0; /* the first member from `from` on */
    for (size_t i = 0; i < pieces; i++) {
        const uint32_t to = before[i];
        if (member < from)
            member = from;
        while (member < all && !run->run[subject[member]])
            member++;
        if (member >= to || (run->at_end && !run->run[subject[to - 1]]))
            work->end[work->count++] = to;
        else
            cut_by_run(run, subject, from, to, work);
        from = to;
    }
}

static int cut_level(const struct splitter *splitter, size_t level, const uint8_t *subject,
                     struct split_work *work)
{
    uint32_t *const before = work->end;
    const size_t pieces = work->count;
    work->end = work->other;
    work->other = before;
    work->count = 0;
    if (splitter->code[level] == NULL) {
        cut_level_by_run(&splitter->run[level], subject, before, pieces, work);
        return 0;
    }
    int failed = 0;
    for (size_t i = 0; failed == 0 && i < pieces; i++)
        failed = cut_by_expression(splitter->code[level], splitter->jit[level], subject,
                                   i == 0 ? 0 : before[i - 1], before[i], work);
    return failed;
}

/* From characters to bytes. */
static void convert_ends(const char *text, struct split_work *work)
{
    uint32_t character = 0, byte = 0;
    for (size_t i = 0; i < work->count; i++) {
        for (; character < work->end[i]; character++) {
            unsigned bytes;
            unicode_point(text + byte, &bytes);
            byte += bytes;
        }
        work->end[i] = byte;
    }
}

static int cut_all(const struct splitter *splitter, const char *text, size_t length,
                   struct split_work *work)
{
    const size_t codes = unicode_encode(splitter->classes, text, length, work->code);
    const size_t bytes_from = splitter->bytes_from > 0 ? splitter->bytes_from : splitter->count;
    work->end[0] = (uint32_t)codes;
    work->count = 1;
    int failed = 0;
    for (size_t level = 0; failed == 0 && level < bytes_from; level++)
        failed = cut_level(splitter, level, work->code, work);
    if (codes != length)
        convert_ends(text, work);
    for (size_t level = bytes_from; failed == 0 && level < splitter->count; level++)
        failed = cut_level(splitter, level, (const uint8_t *)text, work);
    return failed;
}

enum tern_status split_text(const struct splitter *splitter, const char *text, size_t length,
                            struct split_work *work, struct tern_error *error)
{
    work->count = 0;
    if (length == 0)
        return TERN_OK;
    if (!reserve(work, length))
        return tern_fail(error, TERN_NO_MEMORY, "no memory to tokenize %zu bytes", length);
    const int failed = cut_all(splitter, text, length, work);
    if (failed != 0)
        return tern_fail(error, TERN_FAILED, "pre-tokenizer failed on %zu bytes (PCRE2 error %d)",
                         length, failed);
    return TERN_OK;
}
