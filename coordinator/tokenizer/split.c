/*
 * The expressions are the published ones, written over class bytes (unicode.h): PCRE2 sees no UTF-8
 * and needs no Unicode tables, which differ from version to version and are older than the
 * reference's in Debian 12 (14 against 16).
 *
 * Nothing here nests or repeats a group, so a match takes no stack however long a run is. What must
 * give characters back (a run of spaces before a word gives its last one) scans its run once more,
 * so time stays linear.
 */
#include "coordinator/tokenizer/split.h"

#include "coordinator/tokenizer/unicode.h"
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdlib.h>
#include <string.h>

/* Contents of character classes, by enum unicode_class. */
#define LETTER "A-Za-z\\x81-\\x86"
#define NUMBER "0-9\\x88"
#define DIGIT  "0-9\\x88\\x8f"
#define SPACE  "\\t-\\r \\x8b"

/* English contractions; \x83 is the long s, which equals s when case is ignored. */
#define CONTRACTION          "'s|'t|'re|'ve|'m|'ll|'d"
#define CONTRACTION_ANY_CASE "'[sStTmMdD\\x83]|'[rRvV][eE]|'[lL][lL]"

/* A run of spaces, but for its last one if more text follows; then what is left of it. */
#define SPACES "[" SPACE "]+(?![^" SPACE "])|[" SPACE "]+"

#define GPT2 CONTRACTION "| ?[" LETTER "]++| ?[" NUMBER "]++| ?[^" SPACE LETTER NUMBER "]++|" SPACES

/* Llama 3 and Qwen2 differ in the digits that stay together only. */
#define LLAMA3(numbers)                                                                            \
    CONTRACTION_ANY_CASE "|[^\\r\\n" LETTER NUMBER "]?[" LETTER "]++|" numbers                     \
                         "| ?[^" SPACE LETTER NUMBER "]++[\\r\\n]*+|[" SPACE                       \
                         "]*[\\r\\n]++|" SPACES

static const struct split_rule rules[] = {
    {.name = "gpt-2", .expression = {GPT2}},
    {.name = "smollm", .expression = {"[" DIGIT "]", GPT2}},
    {.name = "llama-bpe",
     .expression = {LLAMA3("[" NUMBER "]{1,3}+")},
     .whole_first = true,
     .bos = true},
    {.name = "qwen2", .expression = {LLAMA3("[" NUMBER "]")}, .nfc = true},
};

const struct split_rule *split_rule_find(struct tern_string name)
{
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++)
        if (strlen(rules[i].name) == name.length &&
            memcmp(rules[i].name, name.bytes, name.length) == 0)
            return &rules[i];
    return NULL;
}

struct splitter {
    struct unicode_classes *classes;
    pcre2_code *code[SPLIT_EXPRESSIONS];
    bool jit[SPLIT_EXPRESSIONS]; /* false where the system forbids memory that is executable */
    size_t count;
};

static enum tern_status compile(const char *expression, struct splitter *splitter,
                                struct tern_error *error)
{
    int number;
    size_t where;
    pcre2_code *code = pcre2_compile((PCRE2_SPTR)expression, PCRE2_ZERO_TERMINATED, PCRE2_NEVER_UTF,
                                     &number, &where, NULL);
    if (code == NULL)
        return tern_fail(error, TERN_FAILED, "pre-tokenizer expression: error %d at %zu", number,
                         where);
    splitter->code[splitter->count] = code;
    splitter->jit[splitter->count++] = pcre2_jit_compile(code, PCRE2_JIT_COMPLETE) == 0;
    return TERN_OK;
}

enum tern_status splitter_new(const struct split_rule *rule, struct splitter **out,
                              struct tern_error *error)
{
    struct splitter *splitter = calloc(1, sizeof *splitter);
    if (splitter != NULL)
        splitter->classes = unicode_classes_new();
    enum tern_status status =
        splitter == NULL || splitter->classes == NULL
            ? tern_fail(error, TERN_NO_MEMORY, "no memory for a pre-tokenizer")
            : TERN_OK;
    for (size_t i = 0; status == TERN_OK && i < SPLIT_EXPRESSIONS && rule->expression[i]; i++)
        status = compile(rule->expression[i], splitter, error);
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

/* Cuts code[start .. end) and appends the ends of its pieces. */
static int cut_piece(const struct splitter *splitter, size_t level, uint32_t start, uint32_t end,
                     struct split_work *work)
{
    const size_t *match = pcre2_get_ovector_pointer(work->match);
    const PCRE2_SPTR subject = work->code + start;
    const pcre2_code *const code = splitter->code[level];
    const size_t length = end - start;
    for (size_t at = 0; at < length;) {
        const int found =
            splitter->jit[level]
                ? pcre2_jit_match(code, subject, length, at, 0, work->match, work->context)
                : pcre2_match(code, subject, length, at, 0, work->match, work->context);
        if (found < 0) {
            if (found != PCRE2_ERROR_NOMATCH)
                return found;
            work->end[work->count++] = end;
            return 0;
        }
        if (match[0] > at)
            work->end[work->count++] = start + (uint32_t)match[0];
        work->end[work->count++] = start + (uint32_t)match[1];
        at = match[1];
    }
    return 0;
}

static int cut_all(const struct splitter *splitter, uint32_t codes, struct split_work *work)
{
    work->end[0] = codes;
    work->count = 1;
    for (size_t level = 0; level < splitter->count; level++) {
        uint32_t *const before = work->end;
        const size_t pieces = work->count;
        work->end = work->other;
        work->other = before;
        work->count = 0;
        for (size_t i = 0; i < pieces; i++) {
            const int failed =
                cut_piece(splitter, level, i == 0 ? 0 : before[i - 1], before[i], work);
            if (failed != 0)
                return failed;
        }
    }
    return 0;
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

enum tern_status split_text(const struct splitter *splitter, const char *text, size_t length,
                            struct split_work *work, struct tern_error *error)
{
    work->count = 0;
    if (length == 0)
        return TERN_OK;
    if (!reserve(work, length))
        return tern_fail(error, TERN_NO_MEMORY, "no memory to tokenize %zu bytes", length);
    const size_t codes = unicode_encode(splitter->classes, text, length, work->code);
    const int failed = cut_all(splitter, (uint32_t)codes, work);
    if (failed != 0)
        return tern_fail(error, TERN_FAILED, "pre-tokenizer failed on %zu bytes (PCRE2 error %d)",
                         length, failed);
    if (codes != length)
        convert_ends(text, work);
    return TERN_OK;
}
