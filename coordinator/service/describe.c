/* What `tern ps`, `tern load` and `tern info` show, as JSON. */
#include "coordinator/chat/chat.h"
#include "coordinator/model/options.h"
#include "coordinator/service/request.h"
#include "proto/tier.h"
#include "proto/utf8.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MIB = 1 << 20 };

/* Text of a file or a path: JSON has only UTF-8. */
static json_t *text_value(const char *bytes, size_t length)
{
    return tern_utf8_valid(bytes, length) ? json_stringn(bytes, length) : json_string("?");
}

static void put_text(json_t *object, const char *key, const char *text)
{
    json_object_set_new(object, key, text_value(text, strlen(text)));
}

static void put_number(json_t *object, const char *key, uint64_t value)
{
    json_object_set_new(object, key, json_integer((json_int_t)value));
}

static void put_flag(json_t *object, const char *key, bool value)
{
    json_object_set_new(object, key, json_boolean(value));
}

static char *print(json_t *root)
{
    char *text = root != NULL ? json_dumps(root, JSON_COMPACT) : NULL;
    json_decref(root);
    return text;
}

/* ---- service ---- */

static json_t *process_value(const struct tern_process_info *info)
{
    json_t *value = json_object(), *calls = json_object();
    put_text(value, "role", info->role);
    put_number(value, "pid", (uint64_t)info->pid);
    put_text(value, "state", info->state);
    put_number(value, "restarts", info->restarts);
    for (int i = 0; i < TERN_TIERS; i++)
        put_number(calls, tern_tier_name((enum tern_tier)i), info->calls[i]);
    json_object_set_new(value, "calls", calls);
    return value;
}

static json_t *processes_value(const struct tern_service *service)
{
    struct tern_process_info info[32];
    json_t *list = json_array();
    size_t count = tern_supervisor_processes(service->supervisor, info, 32);
    count = count < 32 ? count : 32;
    for (size_t i = 0; i < count; i++)
        json_array_append_new(list, process_value(&info[i]));
    return list;
}

static json_t *model_value(const struct tern_model *model)
{
    json_t *value = json_object();
    put_text(value, "model", model->file->path);
    put_text(value, "state", tern_model_state_name(model->state));
    put_flag(value, "pinned", model->pinned);
    put_number(value, "requests", model->users);
    put_number(value, "context", model->size.context);
    put_number(value, "threads", model->options.threads);
    put_text(value, "tier", tern_options_tier(&model->options));
    put_number(value, "batch", model->options.batch);
    put_text(value, "precision", tern_options_precision(&model->options));
    put_text(value, "kv", tern_options_kv(&model->options));
    put_flag(value, "unfused", model->options.unfused);
    put_number(value, "mib", (tern_model_planned(model) + MIB - 1) / MIB);
    if (model->lane.pages != NULL) {
        put_number(value, "pages", tern_pages_count(model->lane.pages));
        put_number(value, "pages_free", tern_pages_available(model->lane.pages));
    }
    return value;
}

char *tern_describe_model(const struct tern_model *model)
{
    return print(model_value(model));
}

char *tern_describe_service(const struct tern_service *service)
{
    json_t *root = json_object(), *coordinator = json_object(), *models = json_array();
    put_number(coordinator, "pid", (uint64_t)getpid());
    put_text(coordinator, "version", TERN_VERSION);
    for (const struct tern_model *model = tern_models_first(service->models); model != NULL;
         model = model->next)
        json_array_append_new(models, model_value(model));
    json_object_set_new(root, "coordinator", coordinator);
    json_object_set_new(root, "workers", processes_value(service));
    json_object_set_new(root, "models", models);
    put_number(root, "requests", service->request_count - 1); /* this one is none of them */
    return print(root);
}

/* ---- file ---- */

static void put_key(json_t *object, const char *key, const struct tern_catalog *catalog,
                    const char *from)
{
    struct tern_string text;
    if (tern_catalog_string(catalog, from, &text))
        json_object_set_new(object, key, text_value(text.bytes, text.length));
    else
        json_object_set_new(object, key, json_null());
}

static void count_type(json_t *types, const struct tern_tensor *tensor)
{
    const struct tern_type_info *info = tern_type_info(tensor->type);
    const char *name = info != NULL ? info->name : "?";
    json_t *entry = json_object_get(types, name);
    if (entry == NULL) {
        entry = json_object();
        json_object_set_new(types, name, entry);
    }
    const json_int_t count = json_integer_value(json_object_get(entry, "count"));
    const json_int_t bytes = json_integer_value(json_object_get(entry, "bytes"));
    json_object_set_new(entry, "count", json_integer(count + 1));
    json_object_set_new(entry, "bytes", json_integer(bytes + (json_int_t)tensor->bytes));
}

static void put_tensors(json_t *root, const struct tern_catalog *catalog)
{
    json_t *tensors = json_object(), *types = json_object();
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < tern_catalog_tensors(catalog); i++) {
        struct tern_tensor tensor;
        tern_catalog_tensor(catalog, i, &tensor);
        count_type(types, &tensor);
        bytes += tensor.bytes;
    }
    put_number(tensors, "count", tern_catalog_tensors(catalog));
    put_number(tensors, "bytes", bytes);
    json_object_set_new(tensors, "types", types);
    json_object_set_new(root, "tensors", tensors);
}

static void put_unsupported(json_t *list, const struct tern_error *error)
{
    json_array_append_new(list, json_string(error->message));
}

/* Hyperparameters, or why there are none. */
static void put_hyper(json_t *root, json_t *unsupported, const struct tern_catalog *catalog)
{
    struct tern_hyper hyper;
    struct tern_error error;
    if (tern_hyper_read(catalog, &hyper, &error) != TERN_OK) {
        put_unsupported(unsupported, &error);
        return;
    }
    put_number(root, "context", hyper.trained_context);
    put_number(root, "layers", hyper.layers);
    put_number(root, "width", hyper.width);
    put_number(root, "heads", hyper.heads);
    put_number(root, "kv_heads", hyper.kv_heads);
    put_number(root, "head_size", hyper.head_size);
    put_number(root, "ffn", hyper.ffn);
    put_number(root, "window", hyper.window);
}

static void put_tokenizer(json_t *root, json_t *unsupported, const struct tern_model_file *file)
{
    struct tern_error error;
    if (file->tokenizer != NULL) {
        put_number(root, "vocabulary", tern_vocabulary(file->tokenizer));
        put_text(root, "tokenizer", tern_tokenizer_name(file->tokenizer));
    } else {
        put_unsupported(unsupported, &file->tokenizer_error);
    }
    if (tern_chat_check(file->catalog, &error) == TERN_OK) {
        put_text(root, "chat", "template");
    } else {
        json_object_set_new(root, "chat", json_null());
        put_unsupported(unsupported, &error);
    }
}

char *tern_describe_file(const struct tern_model_file *file)
{
    json_t *root = json_object(), *unsupported = json_array();
    put_text(root, "path", file->path);
    put_number(root, "bytes", (uint64_t)file->identity.size);
    put_key(root, "architecture", file->catalog, "general.architecture");
    put_key(root, "name", file->catalog, "general.name");
    put_tensors(root, file->catalog);
    put_hyper(root, unsupported, file->catalog);
    put_tokenizer(root, unsupported, file);
    json_object_set_new(root, "unsupported", unsupported);
    return print(root);
}
