/* coordinator/graph: `tern plan` in its four forms. */
#include "coordinator/graph/compile.h"

#include "model_catalog.h"
#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct tern_error error;
static struct open_catalog open_model;
static struct tern_compiled compiled;

static int begin(void **state)
{
    (void)state;
    static struct model model;
    const struct tern_options options = {.tier = -1};
    model_make(&model, "gemma3", 7, TERN_Q4_K);
    model_open(&model, &open_model);
    return tern_compile(open_model.catalog, &options, 300, &compiled, &error) == TERN_OK ? 0 : -1;
}

static int end(void **state)
{
    (void)state;
    tern_compiled_free(&compiled);
    model_close(&open_model);
    return 0;
}

static char *print(const char *format)
{
    char *text = tern_plan_print(&compiled, open_model.catalog, format, &error);
    if (text == NULL)
        fail_msg("%s", error.message);
    return text;
}

static uint32_t instructions(void)
{
    return ((const struct tern_plan *)compiled.plan)->instructions;
}

static uint32_t count(const char *text, const char *part)
{
    uint32_t n = 0;
    for (; (text = strstr(text, part)) != NULL; text += strlen(part))
        n++;
    return n;
}

static json_int_t integer(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    assert_true(json_is_integer(value));
    return json_integer_value(value);
}

static void json(void **state)
{
    (void)state;
    char *text = print("json");
    json_t *root = json_loads(text, 0, NULL);
    assert_non_null(root);
    free(text);
    const json_t *list = json_object_get(root, "instructions");
    assert_int_equal(json_array_size(list), instructions());
    const json_t *operations = json_object_get(root, "operations");
    assert_int_equal(integer(operations, "after"), instructions());
    assert_true(integer(operations, "before") > instructions());
    /* Every weight is read once, the embedding's table twice: it is the head's too. */
    json_int_t bytes = 0;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *weights = json_object_get(json_array_get(list, i), "weights");
        for (size_t k = 0; k < json_array_size(weights); k++)
            bytes += integer(json_array_get(weights, k), "bytes");
    }
    const json_int_t table = 300 * 144;
    const json_t *stage = json_array_get(json_object_get(root, "stages"), 0);
    assert_int_equal(integer(stage, "weight_bytes"), bytes - table);
    struct tern_tensor tensor;
    json_int_t all = 0;
    for (uint32_t i = 0; i < tern_catalog_tensors(open_model.catalog); i++) {
        tern_catalog_tensor(open_model.catalog, i, &tensor);
        all += (json_int_t)tensor.bytes;
    }
    assert_int_equal(all, bytes - table);
    json_decref(root);
}

static void table(void **state)
{
    (void)state;
    char *text = print("table");
    assert_non_null(strstr(text, "gemma3: 7 layers, width 256"));
    assert_non_null(strstr(text, "window      32 positions"));
    char line[100];
    snprintf(line, sizeof line, "operations  %u -> %u\n", compiled.report.operations_before,
             instructions());
    assert_non_null(strstr(text, line));
    assert_non_null(strstr(text, "Q4_K 256x256, Q4_K 128x256, Q4_K 128x256 a8/256"));
    const char *body = strstr(text, "\n\n");
    assert_non_null(body);
    assert_int_equal(count(body + 2, "\n"), instructions() + 1);
    free(text);
}

static void dot(void **state)
{
    (void)state;
    char *text = print("dot");
    assert_int_equal(count(text, " [label=\""), instructions());
    assert_int_equal(count(text, "subgraph"), 7);
    assert_int_equal(count(text, "style=dashed"), 7);
    /* Every instruction but the embedding reads something. */
    for (uint32_t i = 1; i < instructions(); i++) {
        char edge[32];
        snprintf(edge, sizeof edge, "-> n%u", i);
        assert_non_null(strstr(text, edge));
    }
    assert_int_equal(count(text, "{"), count(text, "}"));
    free(text);
}

/* Every rectangle lies inside the picture. */
static void svg(void **state)
{
    (void)state;
    char *text = print("svg");
    double width, height;
    const char *at = strstr(text, "width=");
    assert_int_equal(sscanf(at, "width=\"%lf\" height=\"%lf\"", &width, &height), 2);
    uint32_t boxes = 0;
    for (at = text; (at = strstr(at, "<rect x=")) != NULL; at++, boxes++) {
        double x, y, w, h;
        assert_int_equal(
            sscanf(at, "<rect x=\"%lf\" y=\"%lf\" width=\"%lf\" height=\"%lf\"", &x, &y, &w, &h),
            4);
        assert_true(x >= 0 && y >= 0 && x + w <= width && y + h <= height);
    }
    assert_true(boxes > 2 * instructions()); /* boxes, and at least one value each */
    assert_int_equal(count(text, "<svg"), count(text, "</svg>"));
    assert_int_equal(count(text, "<text"), count(text, "</text>"));
    free(text);
}

static void unknown_format(void **state)
{
    (void)state;
    assert_null(tern_plan_print(&compiled, open_model.catalog, "pdf", &error));
    assert_int_equal(error.status, TERN_USAGE);
    assert_non_null(strstr(error.message, "pdf"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(json), cmocka_unit_test(table),          cmocka_unit_test(dot),
        cmocka_unit_test(svg),  cmocka_unit_test(unknown_format),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
