/* What each operation needs of its instruction, and the call that it becomes. */
#include "binder.h"

#include "proto/numerics/quantize.h"
#include "proto/numerics/value.h"

enum {
    FLOAT = sizeof(float),
    CHUNKS_PER_THREAD = 4, /* enough for an even end, when a matrix has so many rows */
    MIN_CHUNK_ROWS = 8,
};

/* ---- parts of several operations ---- */

static bool take_columns(struct binder *b)
{
    const uint32_t columns = b->instruction->columns;
    if (columns == 0 || columns > MAX_COLUMNS)
        return tern_bind_refuse(b, TERN_FAILED, "%u columns: must be 1 to %d", columns,
                                MAX_COLUMNS);
    b->call->columns = columns;
    b->call->work = columns;
    return true;
}

static bool take_groups(struct binder *b)
{
    const uint32_t groups = b->instruction->groups;
    if (groups == 0 || groups > MAX_HEADS)
        return tern_bind_refuse(b, TERN_FAILED, "%u groups: must be 1 to %d", groups, MAX_HEADS);
    b->call->groups = groups;
    return true;
}

static bool take_epsilon(struct binder *b)
{
    const float epsilon = b->instruction->epsilon;
    if (!tern_finite(epsilon) || !(epsilon >= TERN_TINY))
        return tern_bind_refuse(b, TERN_FAILED, "epsilon %g: must be finite and at least 2^-50",
                                (double)epsilon);
    b->call->epsilon = epsilon;
    return true;
}

static bool take_head_size(struct binder *b)
{
    const uint32_t size = b->instruction->head_size;
    if (size < MIN_HEAD_SIZE || size > MAX_HEAD_SIZE)
        return tern_bind_refuse(b, TERN_FAILED, "head size %u: must be %d to %d", size,
                                MIN_HEAD_SIZE, MAX_HEAD_SIZE);
    b->call->head_size = size;
    return true;
}

/* Heads that share the cache's key heads evenly. */
static bool take_heads(struct binder *b)
{
    const struct tern_instruction *in = b->instruction;
    if (in->heads == 0 || in->heads > MAX_HEADS || in->kv_heads == 0 ||
        in->heads % in->kv_heads != 0)
        return tern_bind_refuse(b, TERN_FAILED, "%u query heads do not share %u key heads",
                                in->heads, in->kv_heads);
    b->call->heads = in->heads;
    return true;
}

static bool take_cache(struct binder *b)
{
    const struct tern_instruction *in = b->instruction;
    const struct tern_kv_layout *kv = &b->program->header.kv;
    if (in->kv_layer >= kv->layers)
        return tern_bind_refuse(b, TERN_FAILED, "kv_layer %u of a cache of %u layers", in->kv_layer,
                                kv->layers);
    if (in->kv_heads != kv->kv_heads || in->head_size != kv->head_size)
        return tern_bind_refuse(b, TERN_FAILED, "%u key heads of %u values, the cache has %u of %u",
                                in->kv_heads, in->head_size, kv->kv_heads, kv->head_size);
    if (!tern_finite(in->scale))
        return tern_bind_refuse(b, TERN_FAILED, "scale is not finite");
    b->call->kv_heads = in->kv_heads;
    b->call->attention = (struct tern_attention){
        .cache = b->segments->kv.data,
        .kv = kv,
        .kv_layer = in->kv_layer,
        .window = in->window,
        .scale = in->scale,
    };
    return true;
}

/* Bytes of a row of `columns` activations in the form of the instruction; 0 after a refusal. */
static uint64_t act_row_bytes(struct binder *b, bool may_be_float)
{
    const struct tern_act act = b->instruction->act;
    const uint32_t columns = b->instruction->columns;
    if (act.block == 0 && act.bits == 0 && may_be_float)
        return (uint64_t)columns * FLOAT;
    if ((act.block != 32 && act.block != 256) || (act.bits != 8 && act.bits != 16) ||
        columns % act.block != 0) {
        tern_bind_refuse(b, TERN_FAILED, "%u activations of %u bits in blocks of %u", columns,
                         act.bits, act.block);
        return 0;
    }
    b->call->act = act;
    return tern_act_layout(act, columns).stride;
}

static void need_row_scratch(struct binder *b, uint64_t bytes)
{
    if (bytes > b->program->row_scratch)
        b->program->row_scratch = bytes;
}

static bool take_activation(struct binder *b)
{
    const uint32_t activation = b->instruction->activation;
    if (activation != TERN_SILU && activation != TERN_GELU)
        return tern_bind_refuse(b, TERN_FAILED, "unknown activation function %u", activation);
    b->call->activation = (enum tern_activation)activation;
    return true;
}

static bool row_call(struct binder *b, tern_row_fn row, bool in_place)
{
    b->call->run = tern_run_rows;
    b->call->row = row;
    return tern_bind_check_overlaps(b, in_place);
}

static uint64_t row_floats(const struct binder *b)
{
    return (uint64_t)b->call->columns * FLOAT;
}

/* ---- rows ---- */

static bool bind_embed(struct binder *b)
{
    const struct tern_weight *table = &b->instruction->weight[0];
    struct tern_call *call = b->call;
    if (table->columns == 0 || table->columns > MAX_COLUMNS)
        return tern_bind_refuse(b, TERN_FAILED, "%u columns: must be 1 to %d", table->columns,
                                MAX_COLUMNS);
    if (b->call->outputs)
        return tern_bind_refuse(b, TERN_FAILED, "embeds all rows, not the outputs");
    if (!tern_finite(b->instruction->factor))
        return tern_bind_refuse(b, TERN_FAILED, "factor is not finite");
    if (!tern_bind_matrix(b, "weight[0]", table, table->columns, &call->table,
                          &call->table_row_bytes))
        return false;
    call->columns = table->columns;
    call->work = 2ull * table->columns;
    call->table_type = table->type;
    call->factor = b->instruction->factor;
    if (table->rows < b->program->token_limit)
        b->program->token_limit = table->rows;
    return tern_bind_out(b, 0, row_floats(b), b->rows) && row_call(b, tern_row_embed, false);
}

static bool bind_norm(struct binder *b)
{
    struct tern_call *call = b->call;
    if (!take_columns(b) || !take_groups(b) || !take_epsilon(b) ||
        !tern_bind_vector(b, "weight[0]", &b->instruction->weight[0], call->columns,
                          &call->gain[0]))
        return false;
    const uint64_t bytes = row_floats(b) * call->groups;
    call->work *= call->groups;
    return tern_bind_in(b, 0, bytes, b->rows) && tern_bind_out(b, 0, bytes, b->rows) &&
           row_call(b, tern_row_norm, true);
}

static bool bind_quantize(struct binder *b)
{
    if (!take_columns(b))
        return false;
    const uint64_t bytes = act_row_bytes(b, false);
    b->call->work *= 2;
    return bytes != 0 && tern_bind_in(b, 0, row_floats(b), b->rows) &&
           tern_bind_out(b, 0, bytes, b->rows) && row_call(b, tern_row_quantize, false);
}

static bool bind_add(struct binder *b)
{
    return take_columns(b) && tern_bind_in(b, 0, row_floats(b), b->rows) &&
           tern_bind_in(b, 1, row_floats(b), b->rows) &&
           tern_bind_out(b, 0, row_floats(b), b->rows) && row_call(b, tern_row_add, true);
}

static bool bind_bias(struct binder *b)
{
    return take_columns(b) &&
           tern_bind_vector(b, "weight[0]", &b->instruction->weight[0], b->call->columns,
                            &b->call->gain[0]) &&
           tern_bind_in(b, 0, row_floats(b), b->rows) &&
           tern_bind_out(b, 0, row_floats(b), b->rows) && row_call(b, tern_row_bias, true);
}

static bool bind_glu(struct binder *b)
{
    if (!take_columns(b) || !take_activation(b))
        return false;
    b->call->work *= 8;
    return tern_bind_in(b, 0, row_floats(b), b->rows) &&
           tern_bind_in(b, 1, row_floats(b), b->rows) &&
           tern_bind_out(b, 0, row_floats(b), b->rows) && row_call(b, tern_row_glu, true);
}

static bool bind_gather(struct binder *b)
{
    const struct tern_plan *plan = &b->program->header;
    b->call->outputs = true;
    return take_columns(b) && tern_bind_in(b, 0, row_floats(b), plan->max_rows) &&
           tern_bind_out(b, 0, row_floats(b), plan->max_outputs) &&
           row_call(b, tern_row_gather, false);
}

static bool bind_argmax(struct binder *b)
{
    const struct tern_plan *plan = &b->program->header;
    b->call->outputs = true;
    if (b->instruction->columns != plan->vocabulary)
        return tern_bind_refuse(b, TERN_FAILED, "%u columns, the vocabulary has %u",
                                b->instruction->columns, plan->vocabulary);
    return take_columns(b) && tern_bind_in(b, 0, row_floats(b), plan->max_outputs) &&
           row_call(b, tern_row_argmax, false);
}

static bool bind_add_norm(struct binder *b)
{
    struct tern_call *call = b->call;
    const bool quantized = b->instruction->act.block != 0;
    if (!take_columns(b) || !take_epsilon(b) ||
        !tern_bind_vector(b, "weight[0]", &b->instruction->weight[0], call->columns,
                          &call->gain[0]))
        return false;
    const uint64_t bytes = act_row_bytes(b, true);
    need_row_scratch(b, row_floats(b));
    call->work *= 3;
    return bytes != 0 && tern_bind_in(b, 0, row_floats(b), b->rows) &&
           tern_bind_in(b, 1, row_floats(b), b->rows) &&
           tern_bind_out(b, 0, row_floats(b), b->rows) && tern_bind_out(b, 1, bytes, b->rows) &&
           row_call(b, quantized ? tern_row_add_norm_quantize : tern_row_add_norm, true);
}

static bool bind_norm_quantize(struct binder *b)
{
    struct tern_call *call = b->call;
    if (!take_columns(b) || !take_epsilon(b) ||
        !tern_bind_vector(b, "weight[0]", &b->instruction->weight[0], call->columns,
                          &call->gain[0]))
        return false;
    const uint64_t bytes = act_row_bytes(b, false);
    need_row_scratch(b, row_floats(b));
    call->work *= 3;
    return bytes != 0 && tern_bind_in(b, 0, row_floats(b), b->rows) &&
           tern_bind_out(b, 0, bytes, b->rows) && row_call(b, tern_row_norm_quantize, false);
}

/* ---- heads ---- */

/* Rows of the cache and of rotation tables are found by the row's position: outputs have none. */
static bool refuse_outputs(struct binder *b)
{
    return !b->call->outputs ||
           tern_bind_refuse(b, TERN_FAILED, "works on all rows, not on the outputs");
}

static uint64_t head_bytes(const struct binder *b, uint32_t heads)
{
    return (uint64_t)heads * b->call->head_size * FLOAT;
}

static bool bind_rope(struct binder *b)
{
    if (!refuse_outputs(b) || !take_head_size(b) || !take_groups(b) || !tern_bind_rope(b))
        return false;
    const uint64_t bytes = head_bytes(b, b->call->groups);
    b->call->work = bytes;
    return tern_bind_in(b, 0, bytes, b->rows) && tern_bind_out(b, 0, bytes, b->rows) &&
           row_call(b, tern_row_rope, true);
}

static bool bind_kv_write(struct binder *b)
{
    if (!refuse_outputs(b) || !take_head_size(b) || !take_cache(b))
        return false;
    const uint64_t bytes = head_bytes(b, b->call->kv_heads);
    b->call->work = bytes;
    return tern_bind_in(b, 0, bytes, b->rows) && tern_bind_in(b, 1, bytes, b->rows) &&
           row_call(b, tern_row_kv_write, false);
}

static bool bind_attention(struct binder *b)
{
    if (!refuse_outputs(b) || !take_head_size(b) || !take_heads(b) || !take_cache(b))
        return false;
    const uint64_t bytes = head_bytes(b, b->call->heads);
    b->call->work = 2ull * b->call->heads * b->call->head_size;
    b->call->run = tern_run_attention;
    return tern_bind_in(b, 0, bytes, b->rows) && tern_bind_out(b, 0, bytes, b->rows) &&
           tern_bind_check_overlaps(b, false);
}

static bool take_head_gains(struct binder *b)
{
    static const char *const names[2] = {"weight[0]", "weight[1]"};
    for (uint32_t i = 0; i < 2; i++) {
        const struct tern_weight *gain = &b->instruction->weight[i];
        if (gain->rows != 0 &&
            (!take_epsilon(b) ||
             !tern_bind_vector(b, names[i], gain, b->call->head_size, &b->call->gain[i])))
            return false;
    }
    return true;
}

static bool bind_qkv_rope_write(struct binder *b)
{
    if (!refuse_outputs(b) || !take_head_size(b) || !take_heads(b) || !take_cache(b) ||
        !tern_bind_rope(b) || !take_head_gains(b))
        return false;
    const uint64_t queries = head_bytes(b, b->call->heads);
    const uint64_t keys = head_bytes(b, b->call->kv_heads);
    need_row_scratch(b, keys);
    b->call->work = queries + 2 * keys;
    return tern_bind_in(b, 0, queries, b->rows) && tern_bind_in(b, 1, keys, b->rows) &&
           tern_bind_in(b, 2, keys, b->rows) && tern_bind_out(b, 0, queries, b->rows) &&
           row_call(b, tern_row_qkv_rope_write, true);
}

/* ---- products ---- */

static bool take_part(struct binder *b, uint32_t index)
{
    static const char *const weights[] = {"weight[0]", "weight[1]", "weight[2]"};
    static const char *const biases[] = {"bias[0]", "bias[1]", "bias[2]"};
    const struct tern_weight *weight = &b->instruction->weight[index];
    const struct tern_weight *bias = &b->instruction->bias[index];
    struct tern_part *part = &b->call->part[index];
    if (!tern_bind_matrix(b, weights[index], weight, b->call->columns, &part->weights,
                          &part->row_bytes))
        return false;
    if (tern_type_info(weight->type)->act_block != b->call->act.block)
        return tern_bind_refuse(b, TERN_FAILED, "%s does not take activations in blocks of %u",
                                weights[index], b->call->act.block);
    if (bias->rows != 0 && !tern_bind_vector(b, biases[index], bias, weight->rows, &part->bias))
        return false;
    part->matmul = b->program->kernels->matmul[weight->type];
    part->rows = weight->rows;
    if (part->matmul == NULL)
        return tern_bind_refuse(b, TERN_UNSUPPORTED, "tier %s has no product for type %s",
                                b->program->kernels->name, tern_type_info(weight->type)->name);
    return true;
}

static uint32_t chunks_of(uint32_t rows, uint32_t chunk_rows)
{
    return (rows - 1) / chunk_rows + 1;
}

/* Numbers the chunks of the parts that are dealt out (`parts` of them), small enough that every
 * thread gets some. */
static void cut_chunks(struct binder *b, uint32_t parts)
{
    struct tern_call *call = b->call;
    uint64_t rows = 0;
    for (uint32_t i = 0; i < parts; i++)
        rows += call->part[i].rows;
    const uint64_t wanted = (uint64_t)b->program->threads * CHUNKS_PER_THREAD;
    call->chunk_rows = b->program->kernels->row_chunk;
    while (b->program->threads > 1 && call->chunk_rows >= 2 * MIN_CHUNK_ROWS &&
           rows / call->chunk_rows < wanted)
        call->chunk_rows /= 2;
    for (uint32_t i = 0; i < parts; i++) {
        call->part[i].first_chunk = call->chunks;
        call->chunks += chunks_of(call->part[i].rows, call->chunk_rows);
    }
}

static bool take_parts(struct binder *b, uint32_t parts)
{
    if (!take_columns(b))
        return false;
    const uint64_t bytes = act_row_bytes(b, true);
    if (bytes == 0 || !tern_bind_in(b, 0, bytes, b->rows))
        return false;
    b->call->parts = parts;
    b->call->work = 0;
    for (uint32_t i = 0; i < parts; i++) {
        if (!take_part(b, i))
            return false;
        b->call->work += (uint64_t)b->call->columns * b->call->part[i].rows;
    }
    return true;
}

static bool bind_matmul(struct binder *b)
{
    const uint32_t parts = b->instruction->weights;
    if (parts == 0 || parts > TERN_OP_WEIGHTS)
        return tern_bind_refuse(b, TERN_FAILED, "%u weights: must be 1 to %d", parts,
                                TERN_OP_WEIGHTS);
    if (!take_parts(b, parts))
        return false;
    for (uint32_t i = 0; i < parts; i++) {
        if (!tern_bind_out(b, i, (uint64_t)b->call->part[i].rows * FLOAT, b->rows))
            return false;
        b->call->part[i].out = b->call->out[i];
    }
    cut_chunks(b, parts);
    b->call->run = tern_run_product;
    return tern_bind_check_overlaps(b, false);
}

static bool bind_matmul_glu(struct binder *b)
{
    if (!take_activation(b) || !take_parts(b, 2))
        return false;
    const uint32_t rows = b->call->part[0].rows;
    if (b->call->part[1].rows != rows)
        return tern_bind_refuse(b, TERN_FAILED, "gate has %u rows, up has %u", rows,
                                b->call->part[1].rows);
    cut_chunks(b, 1);
    b->call->part[1].first_chunk = b->call->chunks; /* gate and up go together: none of its own */
    need_row_scratch(b, 2ull * b->rows * b->call->chunk_rows * FLOAT);
    b->call->run = tern_run_glu;
    return tern_bind_out(b, 0, (uint64_t)rows * FLOAT, b->rows) &&
           tern_bind_check_overlaps(b, false);
}

bool tern_bind_instruction(struct binder *b)
{
    static bool (*const binders[TERN_OPS])(struct binder *) = {
        [TERN_OP_EMBED] = bind_embed,
        [TERN_OP_NORM] = bind_norm,
        [TERN_OP_QUANTIZE] = bind_quantize,
        [TERN_OP_MATMUL] = bind_matmul,
        [TERN_OP_BIAS] = bind_bias,
        [TERN_OP_ROPE] = bind_rope,
        [TERN_OP_KV_WRITE] = bind_kv_write,
        [TERN_OP_ATTENTION] = bind_attention,
        [TERN_OP_GLU] = bind_glu,
        [TERN_OP_ADD] = bind_add,
        [TERN_OP_GATHER] = bind_gather,
        [TERN_OP_ARGMAX] = bind_argmax,
        [TERN_OP_ADD_NORM] = bind_add_norm,
        [TERN_OP_NORM_QUANTIZE] = bind_norm_quantize,
        [TERN_OP_MATMUL_GLU] = bind_matmul_glu,
        [TERN_OP_QKV_ROPE_WRITE] = bind_qkv_rope_write,
    };
    const uint32_t op = b->instruction->op;
    if (op >= TERN_OPS || binders[op] == NULL)
        return tern_bind_refuse(b, TERN_UNSUPPORTED, "unknown operation %u", op);
    return binders[op](b);
}
