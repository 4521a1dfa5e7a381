/* Requests that need a model's file but no weights and no text work: info, plan. */
#include "coordinator/model/options.h"
#include "coordinator/service/request.h"

#include <stdlib.h>
#include <string.h>

static void reply_text(struct tern_request *request, char *json, char *text)
{
    struct tern_error error;
    const char *found = json != NULL ? json : text;
    if (found == NULL) {
        tern_fail(&error, TERN_NO_MEMORY, "out of memory");
        tern_reply_error(request, &error);
    } else if (strlen(found) > TERN_MESSAGE_MAX - 4096) {
        tern_fail(&error, TERN_FAILED, "the answer is longer than a message can be");
        tern_reply_error(request, &error);
    } else {
        tern_reply_result(request, json, text);
    }
    free(json);
    free(text);
}

void tern_request_info(struct tern_request *request)
{
    size_t length;
    const char *format = tern_message_text(&request->message, TERN_F_FORMAT, &length);
    const bool metadata =
        format != NULL && length == strlen("metadata") && memcmp(format, "metadata", length) == 0;
    reply_text(request, tern_describe_file(request->file, request->service->models, metadata),
               NULL);
}

/* Compiled as a load would, but without asking for memory: the plan of a model too large for this
 * machine can be looked at. */
void tern_request_plan(struct tern_request *request)
{
    char *format = tern_message_copy(&request->message, TERN_F_FORMAT);
    struct tern_compiled compiled = {0};
    struct tern_size_choice size;
    struct tern_error error;
    char *text = NULL;
    const struct tern_catalog *catalog = request->file->catalog;
    enum tern_status status = tern_options_read(&request->message, &request->options, &error);
    if (status == TERN_OK)
        status = tern_choose_size(catalog, &request->options, UINT64_MAX, &size, &error);
    if (status == TERN_OK)
        status = tern_compile(catalog, &request->options, size.context, &compiled, &error);
    if (status == TERN_OK) {
        text = tern_plan_print(&compiled, catalog, format != NULL ? format : "table", &error);
        status = text != NULL ? TERN_OK : error.status;
    }
    if (status != TERN_OK)
        tern_reply_error(request, &error);
    else if (format != NULL && strcmp(format, "json") == 0)
        reply_text(request, text, NULL);
    else
        reply_text(request, NULL, text);
    tern_compiled_free(&compiled);
    free(format);
}
