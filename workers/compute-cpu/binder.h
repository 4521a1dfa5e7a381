/*
 * What binding has at hand for one instruction: bind.c walks the plan, bind_operands.c checks
 * places, bind_ops.c knows what each operation needs.
 */
#ifndef TERN_CPU_BINDER_H
#define TERN_CPU_BINDER_H

#include "bind.h"

enum {
    MAX_COLUMNS = 1 << 24, /* values of a row or group; the limit of quantized rows */
    MAX_HEADS = 4096,
    MIN_HEAD_SIZE = 16,
    MAX_HEAD_SIZE = 256,
    MAX_PLACES = 6, /* operands of an instruction */
};

/* Rows of an operand in the activations segment, to find operands that overlap. */
struct place {
    const char *name;
    const struct tern_operand *operand;
    uint64_t row_bytes, rows;
    bool out;
};

struct binder {
    const struct tern_program_segments *segments;
    const struct tern_plan *plan; /* the sealed plan, for labels */
    struct tern_program *program;
    struct tern_error *error;
    enum tern_status status; /* of the first refusal */
    const struct tern_instruction *instruction;
    struct tern_call *call;
    uint32_t rows; /* most rows the instruction works on */
    struct place place[MAX_PLACES];
    uint32_t places;
};

/* Notes why the plan is refused, with the instruction's name in front; always false. */
bool tern_bind_refuse(struct binder *b, enum tern_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* ---- bind_operands.c: each false after a refusal ---- */

/* in[index] or out[index] of the instruction: rows of row_bytes in the activations. */
bool tern_bind_in(struct binder *b, uint32_t index, uint64_t row_bytes, uint32_t rows);
bool tern_bind_out(struct binder *b, uint32_t index, uint64_t row_bytes, uint32_t rows);
/* Outputs must not overlap other operands; `in_place`: one may be exactly an input. */
bool tern_bind_check_overlaps(struct binder *b, bool in_place);
/* Buffers that belong to no instruction: checks only. */
bool tern_bind_place(struct binder *b, const char *name, const struct tern_operand *operand,
                     uint64_t row_bytes, uint64_t rows);
/* A matrix of a type with kernels: where it lies, and the bytes of a row. */
bool tern_bind_matrix(struct binder *b, const char *name, const struct tern_weight *weight,
                      uint32_t columns, const uint8_t **data, uint64_t *row_bytes);
/* One F32 row of `columns` values: gains and biases. */
bool tern_bind_vector(struct binder *b, const char *name, const struct tern_weight *weight,
                      uint32_t columns, const float **data);
/* The rotation table: rope_size / 2 pairs for every position of the context. */
bool tern_bind_rope(struct binder *b);
/* The KV layout of the plan against the KV segment; sets program->pages. */
bool tern_bind_cache(struct binder *b);

/* ---- bind_ops.c ---- */

/* Fills *b->call from *b->instruction. */
bool tern_bind_instruction(struct binder *b);

#endif
