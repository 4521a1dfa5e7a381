#include "proto/message.h"

#include "proto/utf8.h"
#include <msgpack.h>
#include <stdlib.h>
#include <string.h>

enum field_type { U64, F64, BOOL, STR, BIN };

static const struct {
    const char *wire;
    enum field_type type;
    uint64_t limit;
} fields[TERN_FIELDS] = {
#define X(name, wire, type, limit) [TERN_F_##name] = {wire, type, limit},
    TERN_MESSAGE_FIELDS(X)
#undef X
};

static const char *const kinds[TERN_MSG_KINDS] = {
#define X(name, wire) [TERN_MSG_##name] = wire,
    TERN_MESSAGE_KINDS(X)
#undef X
};

const char *tern_message_name(enum tern_message_kind kind)
{
    return (unsigned)kind < TERN_MSG_KINDS ? kinds[kind] : "unknown";
}

/* ---- reading: a small decoder of exactly the msgpack forms that a message may hold ---- */

/*
 * msgpack-c's unpacker builds an object tree and allocates for it; a message is one flat map, so
 * a cursor over the bytes reads it without allocation and without any recursion.
 */
struct cursor {
    const uint8_t *at, *end;
};

static bool take(struct cursor *c, size_t bytes, const uint8_t **out)
{
    if ((size_t)(c->end - c->at) < bytes)
        return false;
    *out = c->at;
    c->at += bytes;
    return true;
}

static bool take_big_endian(struct cursor *c, size_t bytes, uint64_t *out)
{
    const uint8_t *p;
    if (!take(c, bytes, &p))
        return false;
    *out = 0;
    for (size_t i = 0; i < bytes; i++)
        *out = *out << 8 | p[i];
    return true;
}

/* Non-negative integers only. */
static bool take_u64(struct cursor *c, uint8_t tag, uint64_t *out)
{
    if (tag <= 0x7f) {
        *out = tag;
        return true;
    }
    if (tag >= 0xcc && tag <= 0xcf)
        return take_big_endian(c, (size_t)1 << (tag - 0xcc), out);
    if (tag >= 0xd0 && tag <= 0xd3) { /* signed forms of non-negative numbers */
        const size_t bytes = (size_t)1 << (tag - 0xd0);
        return take_big_endian(c, bytes, out) && *out >> (8 * bytes - 1) == 0;
    }
    return false;
}

static bool take_f64(struct cursor *c, uint8_t tag, double *out)
{
    uint64_t bits;
    if (tag == 0xcb && take_big_endian(c, 8, &bits)) {
        memcpy(out, &bits, sizeof *out);
        return true;
    }
    if (tag == 0xca && take_big_endian(c, 4, &bits)) {
        const uint32_t narrow = (uint32_t)bits;
        float x;
        memcpy(&x, &narrow, sizeof x);
        *out = (double)x;
        return true;
    }
    if (!take_u64(c, tag, &bits))
        return false;
    *out = (double)bits;
    return true;
}

static bool take_length(struct cursor *c, uint8_t tag, enum field_type type, size_t *length)
{
    uint64_t n;
    const uint8_t first = type == STR ? 0xd9 : 0xc4; /* str 8/16/32, bin 8/16/32 */
    if (type == STR && tag >= 0xa0 && tag <= 0xbf)
        n = tag & 31u;
    else if (tag < first || tag > first + 2 || !take_big_endian(c, (size_t)1 << (tag - first), &n))
        return false;
    *length = (size_t)n;
    return true;
}

static bool take_text(struct cursor *c, enum field_type type, const char **bytes, size_t *length)
{
    const uint8_t *tag, *p;
    if (!take(c, 1, &tag) || !take_length(c, *tag, type, length) || !take(c, *length, &p))
        return false;
    *bytes = (const char *)p;
    return true;
}

static bool take_map(struct cursor *c, size_t *pairs)
{
    const uint8_t *tag;
    uint64_t n;
    if (!take(c, 1, &tag))
        return false;
    if ((*tag & 0xf0) == 0x80)
        n = *tag & 15u;
    else if (*tag != 0xde || !take_big_endian(c, 2, &n))
        return false;
    *pairs = (size_t)n;
    return true;
}

static bool equals(const char *bytes, size_t length, const char *text)
{
    return strlen(text) == length && memcmp(bytes, text, length) == 0;
}

static int find_field(const char *bytes, size_t length)
{
    for (int i = 0; i < TERN_FIELDS; i++)
        if (equals(bytes, length, fields[i].wire))
            return i;
    return -1;
}

static enum tern_status take_scalar(struct cursor *c, int field, struct tern_message *message,
                                    struct tern_error *error)
{
    const uint8_t *tag;
    bool good = take(c, 1, &tag);
    if (good && fields[field].type == U64)
        good = take_u64(c, *tag, &message->value[field].u64);
    else if (good && fields[field].type == F64)
        good = take_f64(c, *tag, &message->value[field].f64);
    else if (good) {
        good = *tag == 0xc2 || *tag == 0xc3;
        message->value[field].boolean = *tag == 0xc3;
    }
    if (!good)
        return tern_fail(error, TERN_USAGE, "message: field '%s' has another type",
                         fields[field].wire);
    if (fields[field].type == U64 && message->value[field].u64 > fields[field].limit)
        return tern_fail(error, TERN_USAGE, "message: field '%s' is %llu, at most %llu is allowed",
                         fields[field].wire, (unsigned long long)message->value[field].u64,
                         (unsigned long long)fields[field].limit);
    return TERN_OK;
}

static enum tern_status take_sized(struct cursor *c, int field, struct tern_message *message,
                                   struct tern_error *error)
{
    const char *bytes;
    size_t length;
    if (!take_text(c, fields[field].type, &bytes, &length))
        return tern_fail(error, TERN_USAGE, "message: field '%s' has another type or is cut off",
                         fields[field].wire);
    if (length > fields[field].limit)
        return tern_fail(error, TERN_USAGE,
                         "message: field '%s' has %zu bytes, at most %llu are allowed",
                         fields[field].wire, length, (unsigned long long)fields[field].limit);
    if (fields[field].type == STR &&
        (!tern_utf8_valid(bytes, length) || memchr(bytes, '\0', length) != NULL))
        return tern_fail(error, TERN_USAGE, "message: field '%s' is not UTF-8 text without NUL",
                         fields[field].wire);
    message->value[field].text.bytes = bytes;
    message->value[field].text.length = length;
    return TERN_OK;
}

static enum tern_status refuse_twice(const char *wire, struct tern_error *error)
{
    return tern_fail(error, TERN_USAGE, "message: field '%s' appears twice", wire);
}

static enum tern_status take_field(struct cursor *c, int field, struct tern_message *message,
                                   struct tern_error *error)
{
    if (tern_message_has(message, (enum tern_field)field))
        return refuse_twice(fields[field].wire, error);
    message->present[field / 64] |= (uint64_t)1 << (field % 64);
    if (fields[field].type == STR || fields[field].type == BIN)
        return take_sized(c, field, message, error);
    return take_scalar(c, field, message, error);
}

static enum tern_status take_kind(struct cursor *c, struct tern_message *message,
                                  struct tern_error *error)
{
    const char *bytes;
    size_t length;
    if (!take_text(c, STR, &bytes, &length))
        return tern_fail(error, TERN_USAGE, "message: its kind is not a string");
    for (int i = 0; i < TERN_MSG_KINDS; i++)
        if (equals(bytes, length, kinds[i])) {
            message->kind = (enum tern_message_kind)i;
            return TERN_OK;
        }
    return tern_fail(error, TERN_USAGE, "message: unknown kind '%.*s'",
                     (int)(length < 40 ? length : 40), bytes);
}

static enum tern_status take_version(struct cursor *c, struct tern_error *error)
{
    const uint8_t *tag;
    uint64_t version;
    if (!take(c, 1, &tag) || !take_u64(c, *tag, &version) || version != TERN_PROTOCOL_VERSION)
        return tern_fail(error, TERN_USAGE,
                         "message: the other side speaks another protocol version (this is %d); "
                         "stop the running service and try again",
                         TERN_PROTOCOL_VERSION);
    return TERN_OK;
}

enum tern_status tern_message_parse(const void *buffer, size_t size, struct tern_message *message,
                                    struct tern_error *error)
{
    struct cursor c = {.at = buffer, .end = (const uint8_t *)buffer + size};
    size_t pairs;
    bool has_kind = false, has_version = false;
    memset(message->present, 0, sizeof message->present);
    if (size > TERN_MESSAGE_MAX || !take_map(&c, &pairs))
        return tern_fail(error, TERN_USAGE, "message: not a map, or too long");
    for (size_t i = 0; i < pairs; i++) {
        const char *key;
        size_t length;
        if (!take_text(&c, STR, &key, &length))
            return tern_fail(error, TERN_USAGE, "message: a key is not a string or is cut off");
        enum tern_status status;
        if (equals(key, length, "v")) {
            status = has_version ? refuse_twice("v", error) : take_version(&c, error);
            has_version = true;
        } else if (equals(key, length, "k")) {
            status = has_kind ? refuse_twice("k", error) : take_kind(&c, message, error);
            has_kind = true;
        } else {
            const int field = find_field(key, length);
            status = field < 0 ? tern_fail(error, TERN_USAGE, "message: unknown field '%.*s'",
                                           (int)(length < 40 ? length : 40), key)
                               : take_field(&c, field, message, error);
        }
        if (status != TERN_OK)
            return status;
    }
    if (!has_kind || !has_version || c.at != c.end)
        return tern_fail(error, TERN_USAGE, "message: kind or version missing, or bytes left over");
    return TERN_OK;
}

bool tern_message_has(const struct tern_message *message, enum tern_field field)
{
    return message->present[field / 64] >> (field % 64) & 1;
}

uint64_t tern_message_u64(const struct tern_message *message, enum tern_field field,
                          uint64_t otherwise)
{
    return tern_message_has(message, field) ? message->value[field].u64 : otherwise;
}

double tern_message_f64(const struct tern_message *message, enum tern_field field, double otherwise)
{
    return tern_message_has(message, field) ? message->value[field].f64 : otherwise;
}

bool tern_message_bool(const struct tern_message *message, enum tern_field field)
{
    return tern_message_has(message, field) && message->value[field].boolean;
}

const char *tern_message_text(const struct tern_message *message, enum tern_field field,
                              size_t *length)
{
    if (!tern_message_has(message, field)) {
        *length = 0;
        return NULL;
    }
    *length = message->value[field].text.length;
    return message->value[field].text.bytes;
}

char *tern_message_copy(const struct tern_message *message, enum tern_field field)
{
    size_t length;
    const char *text = tern_message_text(message, field, &length);
    return text == NULL ? NULL : strndup(text, length);
}

/* ---- writing ---- */

/*
 * A map's header holds the number of pairs, which is known only at the end: messages always start
 * with a map16 header that tern_pack_end fills in.
 */
static void write_raw(struct tern_pack *pack, const void *bytes, size_t length)
{
    if (!pack->failed && msgpack_sbuffer_write(pack->buffer, bytes, length) != 0)
        pack->failed = true;
}

static msgpack_packer packer(struct tern_pack *pack)
{
    msgpack_packer p;
    msgpack_packer_init(&p, pack->buffer, msgpack_sbuffer_write);
    return p;
}

static void pack_string(struct tern_pack *pack, const char *bytes, size_t length)
{
    msgpack_packer p = packer(pack);
    if (msgpack_pack_str(&p, length) != 0)
        pack->failed = true;
    write_raw(pack, bytes, length);
}

static bool pack_key(struct tern_pack *pack, const char *key)
{
    if (pack->failed)
        return false;
    pack->fields++;
    pack_string(pack, key, strlen(key));
    return !pack->failed;
}

void tern_pack_begin(struct tern_pack *pack, enum tern_message_kind kind)
{
    *pack = (struct tern_pack){.buffer = msgpack_sbuffer_new()};
    if (pack->buffer == NULL) {
        pack->failed = true;
        return;
    }
    write_raw(pack, "\xde\0\0", 3);
    if (pack_key(pack, "v")) {
        msgpack_packer p = packer(pack);
        pack->failed |= msgpack_pack_uint64(&p, TERN_PROTOCOL_VERSION) != 0;
    }
    if (pack_key(pack, "k"))
        pack_string(pack, kinds[kind], strlen(kinds[kind]));
}

void tern_pack_u64(struct tern_pack *pack, enum tern_field field, uint64_t value)
{
    if (!pack_key(pack, fields[field].wire))
        return;
    msgpack_packer p = packer(pack);
    pack->failed |= msgpack_pack_uint64(&p, value) != 0;
}

void tern_pack_f64(struct tern_pack *pack, enum tern_field field, double value)
{
    if (!pack_key(pack, fields[field].wire))
        return;
    msgpack_packer p = packer(pack);
    pack->failed |= msgpack_pack_double(&p, value) != 0;
}

void tern_pack_bool(struct tern_pack *pack, enum tern_field field, bool value)
{
    if (!pack_key(pack, fields[field].wire))
        return;
    msgpack_packer p = packer(pack);
    pack->failed |= (value ? msgpack_pack_true(&p) : msgpack_pack_false(&p)) != 0;
}

void tern_pack_text(struct tern_pack *pack, enum tern_field field, const char *text)
{
    tern_pack_bytes(pack, field, text, strlen(text));
}

void tern_pack_bytes(struct tern_pack *pack, enum tern_field field, const void *bytes,
                     size_t length)
{
    if (!pack_key(pack, fields[field].wire))
        return;
    if (fields[field].type == STR) {
        pack_string(pack, bytes, length);
        return;
    }
    msgpack_packer p = packer(pack);
    if (msgpack_pack_bin(&p, length) != 0)
        pack->failed = true;
    if (length > 0)
        write_raw(pack, bytes, length);
}

const void *tern_pack_end(struct tern_pack *pack, size_t *size)
{
    *size = 0;
    if (pack->failed)
        return NULL;
    pack->buffer->data[1] = (char)(pack->fields >> 8);
    pack->buffer->data[2] = (char)(pack->fields & 0xff);
    *size = pack->buffer->size;
    return pack->buffer->data;
}

void tern_pack_free(struct tern_pack *pack)
{
    if (pack->buffer != NULL)
        msgpack_sbuffer_free(pack->buffer);
    *pack = (struct tern_pack){0};
}
