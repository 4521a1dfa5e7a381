/*
 * Models for tests of what reads a catalog: small ones made from nothing, whose keys and tensors a
 * test can then spoil, and those of real files through the loader's parser.
 */
#ifndef MODEL_CATALOG_H
#define MODEL_CATALOG_H

#include "proto/catalog.h"

enum { MODEL_MAX_KEYS = 64, MODEL_MAX_TENSORS = 512 };

struct model_key {
    char name[TERN_MAX_NAME + 1];
    enum tern_value_type type;
    bool is_array;
    union {
        uint32_t u32;
        float f32;
        bool boolean;
        uint32_t list[8];
        bool flags[8];
        char text[64];
    } value;
    uint64_t count;
};

struct model_tensor {
    char name[TERN_MAX_NAME + 1];
    uint32_t type;
    uint64_t columns, rows;
};

struct model {
    char architecture[32];
    struct model_key key[MODEL_MAX_KEYS];
    uint32_t keys;
    struct model_tensor tensor[MODEL_MAX_TENSORS];
    uint32_t tensors;
};

/* A valid model of one of the families: `layers` layers, width 256, 4 heads, 2 KV heads, head size
 * 64, FFN 512, vocabulary 300, all matrices of `type`. */
void model_make(struct model *model, const char *architecture, uint32_t layers, uint32_t type);

/* Adds or replaces. Keys without the architecture unless they start with "general." or such. */
void model_u32(struct model *model, const char *key, uint32_t value);
void model_f32(struct model *model, const char *key, float value);
void model_text(struct model *model, const char *key, const char *value);
void model_list(struct model *model, const char *key, const uint32_t *values, uint64_t count);
void model_flags(struct model *model, const char *key, const bool *values, uint64_t count);
void model_remove_key(struct model *model, const char *key);
void model_tensor(struct model *model, const char *name, uint32_t type, uint64_t columns,
                  uint64_t rows);
void model_remove_tensor(struct model *model, const char *name);

/* An open catalog and what it lies in. */
struct open_catalog {
    struct tern_segment segment;
    struct tern_catalog *catalog;
};
void model_open(const struct model *model, struct open_catalog *out);
/* False if there is no such file; fails the test if it is there and cannot be read. */
bool model_open_file(const char *path, struct open_catalog *out);
void model_close(struct open_catalog *open);

#endif
