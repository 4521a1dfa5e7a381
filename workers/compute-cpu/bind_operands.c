/* Where operands lie: offsets, strides and sizes from a plan against the segments they point into.
 */
#include "binder.h"

#include "proto/numerics/quantize.h"

enum { ROW_ALIGNMENT = 64, WEIGHT_ALIGNMENT = 32 };

/* End of `rows` rows of row_bytes at offset + stride * row; false on overflow. */
static bool end_of(const struct tern_operand *operand, uint64_t row_bytes, uint64_t rows,
                   uint64_t *end)
{
    uint64_t last;
    return tern_mul(operand->stride, rows - 1, &last) && tern_add(last, row_bytes, &last) &&
           tern_add(operand->offset, last, end);
}

bool tern_bind_place(struct binder *b, const char *name, const struct tern_operand *operand,
                     uint64_t row_bytes, uint64_t rows)
{
    const struct tern_segment *segment = &b->segments->activations;
    uint64_t end;
    if (operand->segment != TERN_SEGMENT_ACTIVATIONS)
        return tern_bind_refuse(b, TERN_FAILED, "%s lies in segment %u, not in the activations",
                                name, operand->segment);
    if (operand->offset % ROW_ALIGNMENT != 0 || operand->stride % ROW_ALIGNMENT != 0)
        return tern_bind_refuse(b, TERN_FAILED, "%s: offset %llu or stride %u is no multiple of %d",
                                name, (unsigned long long)operand->offset, operand->stride,
                                ROW_ALIGNMENT);
    if (operand->stride < row_bytes)
        return tern_bind_refuse(b, TERN_FAILED, "%s: stride %u is less than a row of %llu bytes",
                                name, operand->stride, (unsigned long long)row_bytes);
    if (!end_of(operand, row_bytes, rows, &end) || !tern_segment_holds(segment, 0, end))
        return tern_bind_refuse(b, TERN_FAILED,
                                "%s: %llu rows at offset %llu, stride %u, exceed the segment's "
                                "%llu bytes",
                                name, (unsigned long long)rows, (unsigned long long)operand->offset,
                                operand->stride, (unsigned long long)segment->size);
    return true;
}

static bool take(struct binder *b, const struct place *place, struct tern_buffer *buffer)
{
    if (!tern_bind_place(b, place->name, place->operand, place->row_bytes, place->rows))
        return false;
    *buffer = (struct tern_buffer){
        .base = b->segments->activations.data + place->operand->offset,
        .stride = place->operand->stride,
    };
    b->place[b->places++] = *place;
    return true;
}

bool tern_bind_in(struct binder *b, uint32_t index, uint64_t row_bytes, uint32_t rows)
{
    static const char *const names[3] = {"in[0]", "in[1]", "in[2]"};
    const struct place place = {names[index], &b->instruction->in[index], row_bytes, rows, false};
    return take(b, &place, &b->call->in[index]);
}

bool tern_bind_out(struct binder *b, uint32_t index, uint64_t row_bytes, uint32_t rows)
{
    static const char *const names[3] = {"out[0]", "out[1]", "out[2]"};
    const struct place place = {names[index], &b->instruction->out[index], row_bytes, rows, true};
    return take(b, &place, &b->call->out[index]);
}

/* Rows may be interleaved: with one stride, two buffers whose rows lie side by side are apart. */
static bool apart(const struct place *a, const struct place *b)
{
    if (a->operand->offset > b->operand->offset)
        return apart(b, a);
    uint64_t end;
    if (!end_of(a->operand, a->row_bytes, a->rows, &end) || end <= b->operand->offset)
        return true;
    const uint64_t stride = a->operand->stride;
    const uint64_t shift = (b->operand->offset - a->operand->offset) % stride;
    return stride == b->operand->stride && shift >= a->row_bytes && shift + b->row_bytes <= stride;
}

static bool same(const struct place *a, const struct place *b)
{
    return a->operand->offset == b->operand->offset && a->operand->stride == b->operand->stride &&
           a->row_bytes == b->row_bytes && a->rows == b->rows;
}

bool tern_bind_check_overlaps(struct binder *b, bool in_place)
{
    for (uint32_t i = 0; i < b->places; i++) {
        for (uint32_t j = 0; j < b->places; j++) {
            const struct place *out = &b->place[i];
            const struct place *other = &b->place[j];
            if (i == j || !out->out || apart(out, other))
                continue;
            if (in_place && !other->out && same(out, other))
                continue;
            return tern_bind_refuse(b, TERN_FAILED, "%s overlaps %s", out->name, other->name);
        }
    }
    return true;
}

/* rows x row_bytes of weights at the offset. */
static bool weight_bytes(struct binder *b, const char *name, const struct tern_weight *weight,
                         uint64_t row_bytes, const uint8_t **data)
{
    const struct tern_segment *segment = &b->segments->weights;
    uint64_t bytes;
    if (weight->offset % WEIGHT_ALIGNMENT != 0)
        return tern_bind_refuse(b, TERN_FAILED, "%s: offset %llu is no multiple of %d", name,
                                (unsigned long long)weight->offset, WEIGHT_ALIGNMENT);
    if (!tern_mul(weight->rows, row_bytes, &bytes) ||
        !tern_segment_holds(segment, weight->offset, bytes))
        return tern_bind_refuse(b, TERN_FAILED,
                                "%s: %u rows of %llu bytes at offset %llu exceed the segment's "
                                "%llu bytes",
                                name, weight->rows, (unsigned long long)row_bytes,
                                (unsigned long long)weight->offset,
                                (unsigned long long)segment->size);
    *data = segment->data + weight->offset;
    return true;
}

bool tern_bind_matrix(struct binder *b, const char *name, const struct tern_weight *weight,
                      uint32_t columns, const uint8_t **data, uint64_t *row_bytes)
{
    const struct tern_type_info *type = tern_type_info(weight->type);
    if (type == NULL || !type->kernels || weight->type >= TERN_TYPE_LIMIT)
        return tern_bind_refuse(b, TERN_UNSUPPORTED, "%s is of type %u (%s): no kernels", name,
                                weight->type, type == NULL ? "unknown" : type->name);
    if (weight->rows == 0 || weight->columns != columns)
        return tern_bind_refuse(b, TERN_FAILED, "%s has %u rows of %u values, not of %u", name,
                                weight->rows, weight->columns, columns);
    if (!tern_row_bytes(weight->type, columns, row_bytes))
        return tern_bind_refuse(b, TERN_FAILED, "%s: rows of %u values are no whole %s blocks",
                                name, columns, type->name);
    return weight_bytes(b, name, weight, *row_bytes, data);
}

bool tern_bind_vector(struct binder *b, const char *name, const struct tern_weight *weight,
                      uint32_t columns, const float **data)
{
    const uint8_t *bytes;
    if (weight->type != TERN_F32 || weight->rows != 1 || weight->columns != columns)
        return tern_bind_refuse(b, TERN_FAILED,
                                "%s: type %u, %u rows of %u values; must be F32, one row of %u",
                                name, weight->type, weight->rows, weight->columns, columns);
    if (!weight_bytes(b, name, weight, columns * sizeof(float), &bytes))
        return false;
    *data = (const float *)(const void *)bytes;
    return true;
}

bool tern_bind_rope(struct binder *b)
{
    const struct tern_instruction *in = b->instruction;
    const struct tern_segment *segment = &b->segments->tables;
    const uint64_t row_bytes = (uint64_t)in->rope_size / 2 * 2 * sizeof(float);
    uint64_t end;
    if (in->rope_size == 0 || in->rope_size % 2 != 0 || in->rope_size > in->head_size)
        return tern_bind_refuse(b, TERN_FAILED, "%u rotated dimensions of %u", in->rope_size,
                                in->head_size);
    if (in->rope_pairs != TERN_ROPE_INTERLEAVED && in->rope_pairs != TERN_ROPE_HALVES)
        return tern_bind_refuse(b, TERN_FAILED, "unknown order of rotated pairs %u",
                                in->rope_pairs);
    if (in->rope.segment != TERN_SEGMENT_TABLES || in->rope.offset % sizeof(float) != 0 ||
        in->rope.stride % sizeof(float) != 0 || in->rope.stride < row_bytes)
        return tern_bind_refuse(b, TERN_FAILED,
                                "rope: segment %u, offset %llu, stride %u is no table of %u "
                                "dimensions",
                                in->rope.segment, (unsigned long long)in->rope.offset,
                                in->rope.stride, in->rope_size);
    if (!end_of(&in->rope, row_bytes, b->program->header.context, &end) ||
        !tern_segment_holds(segment, 0, end))
        return tern_bind_refuse(b, TERN_FAILED,
                                "rope: %u positions at offset %llu, stride %u, exceed the "
                                "segment's %llu bytes",
                                b->program->header.context, (unsigned long long)in->rope.offset,
                                in->rope.stride, (unsigned long long)segment->size);
    b->call->rope = (struct tern_buffer){segment->data + in->rope.offset, in->rope.stride};
    b->call->rope_pairs = (enum tern_rope_pairs)in->rope_pairs;
    b->call->rope_size = in->rope_size;
    return true;
}

bool tern_bind_cache(struct binder *b)
{
    const struct tern_kv_layout *kv = &b->program->header.kv;
    const uint64_t element = kv->type == TERN_KV_F16 ? 2 : 4;
    uint64_t layers;
    if (kv->layers == 0)
        return true; /* no instruction may use the cache then */
    if (kv->type != TERN_KV_F16 && kv->type != TERN_KV_F32)
        return tern_bind_refuse(b, TERN_FAILED, "unknown cache type %u", kv->type);
    if (kv->kv_heads == 0 || kv->kv_heads > MAX_HEADS || kv->head_size < MIN_HEAD_SIZE ||
        kv->head_size > MAX_HEAD_SIZE)
        return tern_bind_refuse(b, TERN_FAILED, "the cache has %u heads of %u values (%d to %d)",
                                kv->kv_heads, kv->head_size, MIN_HEAD_SIZE, MAX_HEAD_SIZE);
    if (kv->page_layer_bytes != 2ull * kv->kv_heads * TERN_PAGE_POSITIONS * kv->head_size * element)
        return tern_bind_refuse(b, TERN_FAILED, "%llu bytes are no layer of a page",
                                (unsigned long long)kv->page_layer_bytes);
    if (!tern_mul(kv->layers, kv->page_layer_bytes, &layers) || kv->page_bytes < layers ||
        kv->page_bytes % 4096 != 0)
        return tern_bind_refuse(b, TERN_FAILED, "a page of %llu bytes does not hold %u layers",
                                (unsigned long long)kv->page_bytes, kv->layers);
    const uint64_t pages = b->segments->kv.size / kv->page_bytes;
    b->program->pages = pages > UINT32_MAX ? UINT32_MAX : (uint32_t)pages;
    return true;
}
