/* What requests about a model have in common: the model's path and the settings it is loaded with.
 */
#ifndef TERN_CMD_REQUEST_H
#define TERN_CMD_REQUEST_H

#include "cmd/tern/client.h"
#include "cmd/tern/options.h"
#include "cmd/tern/output.h"

struct model_options {
    uint64_t threads, batch, context;
    const char *tier, *precision, *kv;
    bool unfused;
};

/* Rows of an option table; `o` is a struct model_options. */
#define MODEL_OPTIONS(o)                                                                           \
    {"threads", OPTION_COUNT, &(o).threads, NULL, "compute threads (0: as many as fit)",           \
     0,         512,          NULL},                                                               \
        {"tier",                                                                                   \
         OPTION_CHOICE,                                                                            \
         &(o).tier,                                                                                \
         "scalar|avx2|avx512|avx512vnni",                                                          \
         "instructions to use (the best)",                                                         \
         0,                                                                                        \
         0,                                                                                        \
         NULL},                                                                                    \
        {"batch", OPTION_COUNT, &(o).batch, NULL, "rows of a step at most (512)", 0, 1024, NULL},  \
        {"precision",                                                                              \
         OPTION_CHOICE,                                                                            \
         &(o).precision,                                                                           \
         "fast|high",                                                                              \
         "bits of activations: 8 or 16 (fast)",                                                    \
         0,                                                                                        \
         0,                                                                                        \
         NULL},                                                                                    \
        {"kv", OPTION_CHOICE, &(o).kv, "f16|f32", "type of keys and values (f16)", 0, 0, NULL},    \
        {"ctx",                                                                                    \
         OPTION_COUNT,                                                                             \
         &(o).context,                                                                             \
         NULL,                                                                                     \
         "positions (0: the trained length or what memory allows)",                                \
         0,                                                                                        \
         0x1p64,                                                                                   \
         NULL},                                                                                    \
    {                                                                                              \
        "unfused", OPTION_FLAG, &(o).unfused, NULL, "run the graph as built, without fusion", 0,   \
            0, NULL                                                                                \
    }

/* The fields for these settings; defaults are left out. */
void pack_options(struct tern_pack *pack, const struct model_options *options);

/* Parses a verb whose first positional argument is MODEL, checks their number, makes the path
 * absolute (path[4096]) and opens the client, starting the service. Returns true, or the
 * verb ends with exit code *code. */
bool begin_model_verb(const struct verb *verb, const struct option *options, int *argc, char **argv,
                      int most, char *path, struct client *client, int *code);

/* The same without starting a service: none running is TERN_NO_SERVICE. `path` may be NULL for
 * verbs without MODEL. */
bool begin_idle_verb(const struct verb *verb, const struct option *options, int *argc, char **argv,
                     int most, char *path, struct client *client, int *code);

/* The service's description of the model file at `path` (tern info --json). */
enum tern_status ask_info(struct client *client, const char *path, bool metadata,
                          struct result *result, struct tern_error *error);

#endif
