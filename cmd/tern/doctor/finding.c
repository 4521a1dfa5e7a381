#include "cmd/tern/doctor/finding.h"

#include "proto/utf8.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const char *const names[] = {
    [FINDING_OK] = "ok", [FINDING_NOTE] = "note", [FINDING_PROBLEM] = "problem"};

void finding_begin(struct finding *finding)
{
    *finding = (struct finding){.figures = json_object()};
}

void finding_end(struct finding *finding)
{
    json_decref(finding->figures);
    finding->figures = NULL;
}

/* Names of files and what programs say may hold anything. */
__attribute__((format(printf, 3, 0))) static void append(char *text, size_t room,
                                                         const char *format, va_list values)
{
    const size_t used = strlen(text);
    const int join = snprintf(text + used, room - used, "%s", used > 0 ? "; " : "");
    if (used + (size_t)join < room)
        vsnprintf(text + used + join, room - used - (size_t)join, format, values);
    tern_utf8_show(text);
}

void finding_say(struct finding *finding, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    append(finding->text, sizeof finding->text, format, values);
    va_end(values);
}

void finding_raise(struct finding *finding, enum finding_state state, const char *remedy, ...)
{
    va_list values;
    if (state > finding->state)
        finding->state = state;
    va_start(values, remedy);
    append(finding->remedy, sizeof finding->remedy, remedy, values);
    va_end(values);
}

void finding_number(struct finding *finding, const char *key, uint64_t value)
{
    const json_int_t shown = value < INT64_MAX ? (json_int_t)value : INT64_MAX;
    json_object_set_new(finding->figures, key, json_integer(shown));
}

void finding_real(struct finding *finding, const char *key, double value)
{
    json_object_set_new(finding->figures, key, json_real(value));
}

void finding_flag(struct finding *finding, const char *key, bool value)
{
    json_object_set_new(finding->figures, key, json_boolean(value));
}

void finding_text(struct finding *finding, const char *key, const char *value)
{
    char text[4096];
    snprintf(text, sizeof text, "%s", value);
    tern_utf8_show(text);
    json_object_set_new(finding->figures, key, json_string(text));
}

void finding_unknown(struct finding *finding, const char *key)
{
    json_object_set_new(finding->figures, key, json_null());
}

const char *finding_state_name(enum finding_state state)
{
    return names[state];
}

json_t *finding_json(const struct finding *finding)
{
    json_t *section =
        json_pack("{s:s, s:s, s:s?}", "state", names[finding->state], "text", finding->text,
                  "remedy", finding->remedy[0] != '\0' ? finding->remedy : NULL);
    json_object_update(section, finding->figures);
    return section;
}
