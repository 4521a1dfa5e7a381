/*
 * What `tern info` shows: what a model file holds, what it would need here, and what of it is not
 * supported. Works for every file that the loader can open, whatever Tern makes of its contents.
 */
#include "coordinator/model/options.h"
#include "coordinator/service/request.h"
#include "coordinator/service/values.h"

#include <stdio.h>
#include <string.h>

enum { LEAST_CONTEXT = 512, STEP = 4 }; /* contexts of the table: 512, 2048, ... and the trained */

/* ---- tensors ---- */

static void put_key(json_t *object, const char *key, const struct tern_catalog *catalog,
                    const char *from)
{
    struct tern_string text;
    if (tern_catalog_string(catalog, from, &text))
        put_value(object, key, text_value(text.bytes, text.length));
    else
        put_value(object, key, json_null());
}

static void count_type(json_t *types, const struct tern_tensor *tensor)
{
    const struct tern_type_info *info = tern_type_info(tensor->type);
    const char *name = info != NULL ? info->name : "?";
    json_t *entry = json_object_get(types, name);
    if (entry == NULL) {
        entry = json_object();
        put_value(types, name, entry);
    }
    const json_int_t count = json_integer_value(json_object_get(entry, "count"));
    const json_int_t bytes = json_integer_value(json_object_get(entry, "bytes"));
    put_value(entry, "count", json_integer(count + 1));
    put_value(entry, "bytes", json_integer(bytes + (json_int_t)tensor->bytes));
    put_flag(entry, "supported", info != NULL && info->kernels);
}

static void put_tensors(json_t *root, const struct tern_catalog *catalog)
{
    json_t *tensors = json_object(), *types = json_object();
    uint64_t bytes = 0, parameters = 0;
    for (uint32_t i = 0; i < tern_catalog_tensors(catalog); i++) {
        struct tern_tensor tensor;
        tern_catalog_tensor(catalog, i, &tensor);
        count_type(types, &tensor);
        bytes += tensor.bytes;
        uint64_t elements = 1;
        for (uint32_t d = 0; d < tensor.dimensions; d++)
            elements *= tensor.size[d]; /* bounded by the bytes of the file */
        parameters += elements;
    }
    put_number(root, "parameters", parameters);
    put_number(tensors, "count", tern_catalog_tensors(catalog));
    put_number(tensors, "bytes", bytes);
    put_value(tensors, "types", types);
    put_value(root, "tensors", tensors);
}

/* ---- sizes ---- */

static void put_hyper(json_t *root, const struct tern_hyper *hyper)
{
    put_number(root, "context", hyper->trained_context);
    put_number(root, "layers", hyper->layers);
    put_number(root, "width", hyper->width);
    put_number(root, "heads", hyper->heads);
    put_number(root, "kv_heads", hyper->kv_heads);
    put_number(root, "head_size", hyper->head_size);
    put_number(root, "ffn", hyper->ffn);
    put_number(root, "window", hyper->window);
}

/* Of a family that Tern does not know: what files of all families say alike. */
static void put_common(json_t *root, const struct tern_catalog *catalog)
{
    static const char *const keys[][2] = {
        {"context", "context_length"},
        {"layers", "block_count"},
        {"width", "embedding_length"},
        {"heads", "attention.head_count"},
        {"kv_heads", "attention.head_count_kv"},
        {"ffn", "feed_forward_length"},
        {"experts", "expert_count"},
    };
    struct tern_string family;
    if (!tern_catalog_string(catalog, "general.architecture", &family) ||
        family.length > TERN_MAX_NAME)
        return;
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        char key[2 * TERN_MAX_NAME];
        uint64_t value;
        snprintf(key, sizeof key, "%.*s.%s", (int)family.length, family.bytes, keys[i][1]);
        if (tern_catalog_u64(catalog, key, &value) && value <= INT64_MAX)
            put_number(root, keys[i][0], value);
    }
}

/* ---- reasons ---- */

/* Once each: several questions have the same answer. */
static void put_reason(json_t *list, const char *text)
{
    size_t i;
    json_t *item;
    json_array_foreach(list, i, item) if (strcmp(json_string_value(item), text) == 0) return;
    json_array_append_new(list, json_string(text));
}

static void put_tokenizer(json_t *root, json_t *unsupported, const struct tern_model_file *file)
{
    struct tern_array tokens;
    if (file->tokenizer != NULL) {
        put_number(root, "vocabulary", tern_vocabulary(file->tokenizer));
        put_text(root, "tokenizer", tern_tokenizer_name(file->tokenizer));
        return;
    }
    if (tern_catalog_array(file->catalog, "tokenizer.ggml.tokens", TERN_V_STRING, &tokens))
        put_number(root, "vocabulary", tokens.count);
    put_key(root, "tokenizer", file->catalog, "tokenizer.ggml.pre");
    put_reason(unsupported, file->tokenizer_error.message);
}

static void put_chat(json_t *root, json_t *notes, const struct tern_model_file *file)
{
    const struct tern_error *why = &file->chat_error;
    put_flag(root, "chat_template", tern_catalog_has(file->catalog, "tokenizer.chat_template"));
    put_flag(root, "chat", why->status == TERN_OK);
    if (why->status != TERN_OK)
        put_reason(notes, why->message);
}

/* ---- memory ---- */

static void put_need(json_t *list, const struct tern_catalog *catalog,
                     const struct tern_options *options, uint32_t context, uint64_t room)
{
    struct tern_sizes sizes;
    struct tern_error error;
    if (tern_sizes_read(catalog, options, context, &sizes, &error) != TERN_OK)
        return;
    json_t *need = json_object();
    put_number(need, "context", context);
    put_text(need, "kv", tern_options_kv(options));
    put_number(need, "weights_bytes", sizes.weights);
    put_number(need, "kv_bytes", sizes.kv);
    put_number(need, "buffers_bytes", sizes.total - sizes.weights - sizes.kv);
    put_number(need, "total_bytes", sizes.total);
    put_flag(need, "fits", sizes.total <= room);
    json_array_append_new(list, need);
}

static json_t *needs(const struct tern_catalog *catalog, struct tern_options *options,
                     uint32_t trained, uint64_t room)
{
    json_t *list = json_array();
    for (int kv = 0; kv < 2; kv++) {
        options->kv = kv == 0 ? TERN_KV_F16 : TERN_KV_F32;
        for (uint64_t context = LEAST_CONTEXT; context < trained; context *= STEP)
            put_need(list, catalog, options, (uint32_t)context, room);
        put_need(list, catalog, options, trained, room);
    }
    options->kv = TERN_KV_F16;
    return list;
}

/* What the model needs with default settings, and the context that `tern run` would choose now.
 * Counted without what it holds already, if it is loaded: that is in "loaded". */
static void put_memory(json_t *root, json_t *notes, const struct tern_model_file *file,
                       const struct tern_models *models, const struct tern_hyper *hyper)
{
    const struct tern_message defaults = {.kind = TERN_MSG_INFO};
    struct tern_options options;
    struct tern_size_choice choice;
    struct tern_error error;
    uint64_t room;
    if (tern_options_read(&defaults, &options, &error) != TERN_OK ||
        tern_models_room(models, &room, &error) != TERN_OK) {
        put_reason(notes, error.message);
        return;
    }
    const uint32_t trained =
        hyper->trained_context < TERN_MAX_CONTEXT ? hyper->trained_context : TERN_MAX_CONTEXT;
    json_t *memory = json_object();
    put_number(memory, "available_bytes", room);
    if (tern_choose_size(file->catalog, &options, room, &choice, &error) == TERN_OK) {
        put_number(memory, "default_context", choice.context);
    } else {
        put_value(memory, "default_context", json_null());
        put_reason(notes, error.message);
    }
    put_value(memory, "needs", needs(file->catalog, &options, trained, room));
    put_value(root, "memory", memory);
}

static bool is_loaded(const struct tern_model_file *file, const struct tern_models *models)
{
    for (const struct tern_model *model = tern_models_first(models); model != NULL;
         model = model->next)
        if (model->state == TERN_MODEL_READY &&
            tern_same_file(&model->file->identity, &file->identity))
            return true;
    return false;
}

char *tern_describe_file(const struct tern_model_file *file, const struct tern_models *models,
                         bool metadata)
{
    json_t *root = json_object(), *unsupported = json_array(), *notes = json_array();
    const struct tern_catalog *catalog = file->catalog;
    const struct tern_options smallest = {.batch = 1};
    struct tern_hyper hyper;
    struct tern_sizes sizes;
    struct tern_error error;
    put_text(root, "path", file->path);
    put_number(root, "bytes", (uint64_t)file->identity.size);
    put_key(root, "architecture", catalog, "general.architecture");
    put_key(root, "name", catalog, "general.name");
    put_tensors(root, catalog);
    const bool known = tern_hyper_read(catalog, &hyper, &error) == TERN_OK;
    if (known) {
        put_hyper(root, &hyper);
    } else {
        put_common(root, catalog);
        put_reason(unsupported, error.message);
    }
    /* Builds the graph: finds tensors and types that are missing or not supported. */
    const bool built = known && tern_sizes_read(catalog, &smallest, 1, &sizes, &error) == TERN_OK;
    if (known && !built)
        put_reason(unsupported, error.message);
    put_tokenizer(root, unsupported, file);
    put_chat(root, notes, file);
    put_flag(root, "loaded", is_loaded(file, models));
    if (built)
        put_memory(root, notes, file, models, &hyper);
    put_flag(root, "supported", json_array_size(unsupported) == 0);
    put_value(root, "unsupported", unsupported);
    put_value(root, "notes", notes);
    if (metadata)
        tern_describe_metadata(root, catalog);
    return print_value(root);
}
