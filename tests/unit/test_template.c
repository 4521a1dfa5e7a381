/*
 * The interpreter of chat templates: the cases of the golden folder, parts of the language that
 * those leave out, and templates made to hang, to eat memory or to kill.
 */
#include "coordinator/chat/template/template.h"
#include "tests/unit/model_file.h"

#include <dirent.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

enum { SMALL_STACK = 256 << 10, LONGEST = 1 << 20 };

static struct tern_error error;

/* Parses and renders; *out is zeroed where that fails. */
static enum tern_status render(struct tern_string text, const json_t *variables, const json_t *own,
                               struct tern_rendered *out)
{
    struct tern_template *parsed;
    *out = (struct tern_rendered){0};
    error.message[0] = '\0';
    enum tern_status status = tern_template_parse("it", text, &parsed, &error);
    if (status == TERN_OK) {
        /* The golden cases' clock stands at 2026-01-15 10:20:30. */
        const struct tern_template_input input = {variables, own, 1768472430};
        status = tern_template_render(parsed, &input, out, &error);
    }
    tern_template_free(parsed);
    return status;
}

/* ---- golden cases ---- */

static bool is_right(const json_t *chat, enum tern_status status,
                     const struct tern_rendered *rendered)
{
    const char *wanted = json_string_value(json_object_get(chat, "rendered"));
    const char *message = json_string_value(json_object_get(chat, "error"));
    const char *kind = json_string_value(json_object_get(chat, "error_kind"));
    if (wanted != NULL)
        return status == TERN_OK && strcmp(rendered->text, wanted) == 0;
    if (strcmp(kind, "raised") != 0)
        return status == TERN_BAD_MODEL || status == TERN_UNSUPPORTED;
    const size_t length = strlen(error.message), wanted_length = strlen(message);
    return status == TERN_USAGE && length > wanted_length &&
           strcmp(error.message + length - wanted_length, message) == 0;
}

static bool check_case(const char *name, struct tern_string text, const json_t *chat)
{
    static const char *const given[] = {"messages", "tools", "add_generation_prompt"},
                             *const tokens[] = {"bos_token", "eos_token"};
    json_t *variables = json_copy(json_object_get(chat, "extra")), *own = json_object();
    for (size_t i = 0; i < 3; i++)
        json_object_set(variables, given[i], json_object_get(chat, given[i]));
    for (size_t i = 0; i < 2; i++)
        json_object_set(own, tokens[i], json_object_get(chat, tokens[i]));
    json_object_set_new(variables, "documents", json_null());
    struct tern_rendered rendered;
    const enum tern_status status = render(text, variables, own, &rendered);
    const bool right = is_right(chat, status, &rendered);
    if (!right)
        fprintf(stderr, "%s, case %s: \"%s\"\n", name,
                json_string_value(json_object_get(chat, "name")),
                status == TERN_OK ? rendered.text : error.message);
    tern_rendered_free(&rendered);
    json_decref(variables);
    json_decref(own);
    return right;
}

static size_t check_template(const char *name, size_t *cases)
{
    static char text[LONGEST];
    FILE *file = fopen(test_golden("templates/%s/template.jinja", name), "r");
    if (file == NULL)
        return 0;
    const size_t length = fread(text, 1, sizeof text, file);
    fclose(file);
    file = fopen(test_golden("templates/%s/cases.jsonl", name), "r");
    assert_non_null(file);
    char *line = NULL;
    size_t room = 0, wrong = 0;
    for (; getline(&line, &room, file) > 0; ++*cases) {
        json_t *chat = json_loads(line, 0, NULL);
        assert_non_null(chat);
        wrong += !check_case(name, (struct tern_string){text, length}, chat);
        json_decref(chat);
    }
    free(line);
    fclose(file);
    return wrong;
}

static void golden_cases_are_right(void **state)
{
    (void)state;
    size_t wrong = 0, cases = 0;
    DIR *folder = opendir(test_golden("templates"));
    assert_non_null(folder);
    for (const struct dirent *entry; (entry = readdir(folder)) != NULL;)
        if (entry->d_name[0] != '.')
            wrong += check_template(entry->d_name, &cases);
    closedir(folder);
    printf("templates: %zu cases, %zu wrong\n", cases, wrong);
    assert_int_equal(wrong, 0);
    assert_true(cases > 0);
}

/* ---- the language ---- */

/* `u` is a user's text, `m` the model's own. */
static enum tern_status render_text(const char *text, struct tern_rendered *out)
{
    json_t *variables = json_pack("{s:s, s:[{s:s, s:s}], s:n}", "u", "a<|x|>b", "messages", "role",
                                  "user", "content", " Hi, <b> ", "nothing"),
           *own = json_pack("{s:s}", "m", "<s>");
    const enum tern_status status =
        render((struct tern_string){text, strlen(text)}, variables, own, out);
    json_decref(variables);
    json_decref(own);
    return status;
}

static void gives(const char *text, const char *wanted)
{
    struct tern_rendered rendered;
    if (render_text(text, &rendered) != TERN_OK)
        fail_msg("%s: %s", text, error.message);
    if (strcmp(rendered.text, wanted) != 0)
        fail_msg("%s gives \"%s\", not \"%s\"", text, rendered.text, wanted);
    tern_rendered_free(&rendered);
}

/* What jinja2 3.1.6 gives for each. */
static const char *const language[][2] = {
    {"a\n{% if true %}\nb\n{% endif %}\nc\n", "a\nb\nc"},
    {"  {% if true %}x{% endif %}", "x"},
    {"{% for x in [1]: %}{% if false: %}{% else: %}{{ x }}{% endif %}{% endfor %}", "1"},
    {"  {%+ if true %}x{% endif +%}\ny", "  x\ny"},
    {"a {#- c -#} b", "ab"},
    {"{% raw %}{{ x }}{% endraw %}", "{{ x }}"},
    {"{{ {'a': {'b': 1}}.a.b }}", "1"},
    {"{{ 'a' 'b' ~ 1 ~ none ~ 1.0 ~ true }}", "ab1None1.0True"},
    {"{{ 'abcdef'[1:-1:2] }}{{ 'abc'[::-1] }}{{ [1,2,3][-2:] }}", "bdcba[2, 3]"},
    {"{{ 7 // -2 }} {{ 7 % -2 }} {{ 2 ** 10 }} {{ 7 / 2 }} {{ -2 * 3 + 1 }}", "-4 -1 1024 3.5 -5"},
    {"{{ 1 < 2 < 3 and not 2 in [1, 3] }}", "True"},
    {"{{ 'y' if false }}{{ 'y' if false else 'n' }}", "n"},
    {"{% set ns = namespace(n=0) %}{% for i in range(3) %}{% set ns.n = ns.n + i %}{% endfor %}"
     "{{ ns.n }}",
     "3"},
    {"{% set x = 1 %}{% for i in [1] %}{% set x = 2 %}{% endfor %}{{ x }}", "1"},
    {"{% for i in [1, 2, 3] if i != 2 %}{{ loop.index }}/{{ loop.length }}{{ i }}"
     "{{ ',' if not loop.last }}{% else %}none{% endfor %}",
     "1/21,2/23"},
    {"{% for i in [] %}x{% else %}none{% endfor %}", "none"},
    {"{% for i in range(9) %}{% if i == 1 %}{% continue %}{% endif %}{% if i == 3 %}{% break %}"
     "{% endif %}{{ i }}{% endfor %}",
     "02"},
    {"{% for x in [[1, [2]]] recursive %}{{ x if x is number else loop(x) }}{% endfor %}", "12"},
    {"{% macro f(a, b='d') %}{{ a }}{{ b }}{{ varargs }}{{ kwargs }}{% endmacro %}"
     "{{ f(1) }}{{ f(1, 2, 3, k=4) }}",
     "1d(){}12(3,){'k': 4}"},
    {"{% macro f() %}[{{ caller(1) }}]{% endmacro %}{% call(x) f() %}{{ x }}!{% endcall %}",
     "[1!]"},
    {"{% set x | upper %}a{{ 1 }}{% endset %}{{ x }}{% filter trim %} b {% endfilter %}", "A1b"},
    {"{% with a = 1, b = 2 %}{{ a + b }}{% endwith %}{{ a is defined }}", "3False"},
    {"{% generation %}g{% endgeneration %}", "g"},
    {"{{ 'a,b,c'.split(',', 1) }}{{ ' a  b '.split() }}{{ 'a.b.c'.rsplit('.', 1) }}",
     "['a', 'b,c']['a', 'b']['a.b', 'c']"},
    {"{{ 'xxaxx'.strip('x') }}{{ ' a '.lstrip() }}|{{ 'ab'.startswith(('b', 'a')) }}", "aa |True"},
    {"{{ 'aXa'.replace('a', 'b', 1) }}{{ 'hello wOrld'.title() }}{{ 'ab'.capitalize() }}",
     "bXaHello WorldAb"},
    {"{{ {'b': 1, 'a': [1.5, none, 'ü\"']} | tojson }}",
     "{\"b\": 1, \"a\": [1.5, null, \"ü\\\"\"]}"},
    {"{{ {'b': [], 'a': {'c': 1}} | tojson(indent=2) }}",
     "{\n  \"b\": [],\n  \"a\": {\n    \"c\": 1\n  }\n}"},
    {"{{ [3, 1, 2] | sort | join('-') }}{{ ['b', 'A'] | sort }}", "1-2-3['A', 'b']"},
    {"{{ [{'a': 1}, {'a': 2}] | selectattr('a', 'gt', 1) | map(attribute='a') | list }}", "[2]"},
    {"{{ {'b': 1, 'a': 2} | dictsort }}{{ {'k': 1}.items() | list }}",
     "[('a', 2), ('b', 1)][('k', 1)]"},
    {"{{ [1, 2, 3, 4, 5] | batch(2) | list }}{{ [1, 1, 2] | unique | list }}",
     "[[1, 2], [3, 4], [5]][1, 2]"},
    {"{% for k, g in [{'t': 1}, {'t': 2}, {'t': 1}] | groupby('t') %}{{ k }}{{ g | length }}{% "
     "endfor %}",
     "1221"},
    {"{{ nothing_here }}{{ nothing_here | default('d') }}{{ nothing is none }}", "dTrue"},
    {"{{ '%s-%03d' % ('a', 7) }}{{ 'x' * 3 }}{{ [0] * 2 }}", "a-007xxx[0, 0]"},
    {"{{ 1e16 }} {{ 0.1 + 0.2 }} {{ 1e-5 }} {{ 100.0 }}", "1e+16 0.30000000000000004 1e-05 100.0"},
    {"{{ 'l1\nl2' | indent(2) }}{{ '12' | int + 1 }}{{ 'x' | int }}{{ '1.5' | float }}",
     "l1\n  l21301.5"},
    {"{{ strftime_now('%d %b %Y') }}", "15 Jan 2026"},
    {"{%- set tools = none %}{{ tools }}", "None"},
    {"{{ \"\\u00fc\\x41\\n\" }}", "üA\n"},
    {"{{ '<a>' | escape }}{{ 'x' | safe + '<' }}", "&lt;a&gt;x&lt;"},
    {"{% set j = joiner('|') %}{{ j() }}a{{ j() }}b", "a|b"},
    {"{{ 1 // 0.1 }} {{ -7.5 // 2 }} {{ -7.5 % 2 }} {{ 0.0 % -2 }} {{ 6 % 0.5 }}",
     "9.0 -4.0 0.5 -0.0 0.0"},
    {"{{ 9007199254740993 == 9007199254740992.0 }}{{ 9007199254740993 > 9007199254740992.0 }}",
     "FalseTrue"},
    {"{{ -9223372036854775807 - 1 }} {{ (-9223372036854775807 - 1) % 10 }} "
     "{{ -9223372036854775807 // 10 }}",
     "-9223372036854775808 2 -922337203685477581"},
    {"{{ 5e-324 }} {{ 1.7976931348623157e308 }} {{ 2.0 ** 53 }} {{ 123456789012345680.0 }} "
     "{{ 0.0001 }} {{ -0.0 }} {{ 1e308 * 10 }}",
     "5e-324 1.7976931348623157e+308 9007199254740992.0 1.2345678901234568e+17 0.0001 -0.0 "
     "inf"},
    {"{{ 42 | round }} {{ 2.5 | round }} {{ 1.115 | round(2) }} {{ 25 | round(-1) }} "
     "{{ -35 | round(-1) }} {{ -0.027 | round(1, 'ceil') }} {{ -0.0 | round(0, 'floor') }}",
     "42 2.0 1.11 20 -40 0.0 0.0"},
    {"{{ 'a-b (cD\u00a0eF' | title }}", "A-B (Cd\u00a0Ef"},
    {"{{ {'a': 1} | truncate(3) }}{{ 'hello big world' | truncate(12, leeway=0) }}",
     "{'a': 1}hello..."},
    {"{{ '%x|%#X|%#o|%05d|%-4d|%+d|% d|%08.3d' % (-255, 255, 8, -7, 7, 7, 7, 5) }}",
     "-ff|0XFF|0o10|-0007|7   |+7| 7|00000005"},
    {"{{ '%08.2f|%-8.1e|%G|%5s|%-5.2s|%%' % (-1.5, 15.0, 1e-10, 'ü', 'abc') }}",
     "-0001.50|1.5e+01 |1E-10|    ü|ab   |%"},
    {"{{ ('%.999f' % 1e308) | length }}", "1309"},
    {"{{ ' a  b '.split(none, 1) }}{{ ' a  b '.rsplit(none, 1) }}", "['a', 'b '][' a', 'b']"},
    {"{{ 'a\\r\\nb\\x0bc\\u2028d\\n'.splitlines() }}{{ 'a\\r\\nb\\n\\nc' | indent(1) }}",
     "['a', 'b', 'c', 'd']a\n b\n\n c"},
    {"{{ [1, 2] | slice(2, 'f') | list }}{{ [1, 2, 3] | slice(2, 'f') | list }}",
     "[[1, 'f'], [2, 'f']][[1, 2], [3, 'f']]"},
    {"{{ [{}, {'a': 'b'}, {'a': 'A'}] | groupby('a', default='z') }}",
     "[('A', [{'a': 'A'}]), ('b', [{'a': 'b'}]), ('z', [{}])]"},
    {"{{ [{'a': 'b', 'n': 2}, {'a': 'B', 'n': 1}] | sort(attribute='a,n') | map(attribute='n') "
     "| list }}{{ [{}, {}] | sort(attribute='a') }}",
     "[1, 2][{}, {}]"},
    {"{{ \"it's a_b (1.5)\" | wordcount }}{{ 1[0:1] is undefined }}", "5True"},
    {"{{ '1_000' | int }} {{ '0x1f' | int(base=16) }} {{ '0x1f' | int }} {{ 'nan(1)' | float "
     "}} "
     "{{ '1__0' | int(7) }}",
     "1000 31 0 0.0 7"},
    {"{% for x in [1, 2] %}{% if true %}{% continue %}{% endif %}{% else %}none{% endfor %}",
     "none"},
    {"{{ namespace(a=1) }}{{ ['<' | e] }}", "<Namespace {'a': 1}>[Markup('&lt;')]"},
    {"{{ 'a{{b}}{}c{1}{k}'.format('x', 'y', k='z') }}", "a{b}xcyz"},
};

static void language_is_right(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof language / sizeof language[0]; i++)
        gives(language[i][0], language[i][1]);
}

/* Templates that collect their text bit by bit do not copy it each time, and what else was made
 * of it stays as it was. */
static void long_texts_grow(void **state)
{
    (void)state;
    struct tern_rendered rendered;
    assert_int_equal(render_text("{% set n = namespace(s='ab') %}{% for i in range(20000) %}"
                                 "{% set n.s = n.s ~ 'x' * 50 %}{% endfor %}{{ n.s | length }}",
                                 &rendered),
                     TERN_OK);
    assert_string_equal(rendered.text, "1000002");
    tern_rendered_free(&rendered);
    gives("{% set a = 'x' * 2000 %}{% set b = a ~ '1' %}{% set c = a ~ '2' %}{% set d = b ~ '3' %}"
          "{% set e = a[1000:] ~ '4' %}{% set f = b[1990:] ~ '5' %}{{ a[1998:] }} {{ b[1998:] }} "
          "{{ c[1998:] }} {{ d[1998:] }} {{ e[998:] }} {{ f }} {{ a | length }}",
          "xx xx1 xx2 xx13 xx4 xxxxxxxxxx15 2000");
}

/* ---- provenance ---- */

/* The bytes that come from the input, '.' for each of the template's. */
static void marks(const char *text, const char *wanted)
{
    struct tern_rendered rendered;
    if (render_text(text, &rendered) != TERN_OK)
        fail_msg("%s: %s", text, error.message);
    for (size_t i = 0; i < rendered.length; i++)
        if (!rendered.input[i])
            rendered.text[i] = '.';
    if (strcmp(rendered.text, wanted) != 0)
        fail_msg("%s marks \"%s\", not \"%s\"", text, rendered.text, wanted);
    tern_rendered_free(&rendered);
}

static void input_is_known(void **state)
{
    (void)state;
    marks("{{ m }}{{ u }}.", "...a<|x|>b.");
    marks("{{ '<|' + u + '|>' }}{{ '<' ~ u ~ m }}", "..a<|x|>b...a<|x|>b...");
    marks("{{ u[1:-1] }}{{ u | upper }}{{ u.replace('b', 'c') }}", "<|x|>A<|X|>Ba<|x|>c");
    marks("{{ u.split('|') | join('-') }}", "a<.x.>b");
    marks("{{ u | tojson }}{{ [u] }}", ".a<|x|>b...a<|x|>b..");
    marks("{% set s %}{{ u }}{{ m }}{% endset %}{{ s | trim }}", "a<|x|>b...");
    marks("{% macro f(t) %}<{{ t }}>{% endmacro %}{{ f(u) | replace('x', m) }}", ".a<|<s>|>b.");
    marks("{{ messages[0].content | trim }}{{ messages[0].role }}", "Hi, <b>....");
    marks("{{ '%s!' % u }}{{ u * 2 }}{{ u | list | reverse | join }}",
          "a<|x|>b.a<|x|>ba<|x|>bb>|x|<a");
    marks("{{ '<x>' | replace('x', u) }}", ".a<|x|>b.");
    marks("{% set a = m * 500 %}{% set b = a ~ u %}{% set c = b ~ m %}{% set d = a ~ m ~ u %}"
          "{{ b[1499:] }} {{ c[1499:] }} {{ d[1499:] }} {{ (b ~ u)[1499:] }}",
          ".a<|x|>b..a<|x|>b........a<|x|>b..a<|x|>ba<|x|>b");
    marks("{{ u.partition('|')[1] }}{{ u.rpartition('|') | join }}", "|a<|x|>b");
    marks("{{ u.splitlines(true)[0] }}{{ (u ~ u.replace('b', '\\n')) | indent(1, true) }}",
          "a<|x|>b.a<|x|>ba<|x|>\n");
    marks("{{ u.replace('x', '%d%%%s') % (1, m) }}{{ u.replace('x', '{}').format(m) }}",
          "a<|1%<s>|>ba<|<s>|>b");
}

/* ---- what is refused ---- */

static void fails(const char *text, enum tern_status wanted, const char *message)
{
    struct tern_rendered rendered;
    const enum tern_status status = render_text(text, &rendered);
    tern_rendered_free(&rendered);
    if (status != wanted || strstr(error.message, message) == NULL)
        fail_msg("%s: status %d, \"%s\"", text, status, error.message);
}

static void errors_say_where(void **state)
{
    (void)state;
    fails("a\n {{ x", TERN_BAD_MODEL, "it, line 2, column 6: ");
    fails("a\n{{- /* x */ }}", TERN_BAD_MODEL, "line 2, column 5");
    fails("{% if x %}", TERN_BAD_MODEL, "'endif'");
    fails("{% endfor %}", TERN_BAD_MODEL, "ends nothing");
    fails("{% include 'x' %}", TERN_UNSUPPORTED, "'include'");
    fails("{{ 1 | no_filter }}", TERN_UNSUPPORTED, "no_filter");
    fails("{{ 1 is no_test }}", TERN_UNSUPPORTED, "no_test");
    fails("{{ no_function() }}", TERN_UNSUPPORTED, "no_function");
    fails("{{ raise_exception('Not so') }}", TERN_USAGE, ": Not so");
    fails("{{ x.y }}", TERN_BAD_MODEL, "'x' is undefined");
    fails("{{ 'a' + 1 }}", TERN_BAD_MODEL, "line 1, column");
    fails("{{ [1].append(2) }}", TERN_BAD_MODEL, "may not change");
    fails("{{ 9223372036854775807 + 1 }}", TERN_BAD_MODEL, "64 bits");
    fails("{{ (-9223372036854775807 - 1) // -1 }}", TERN_BAD_MODEL, "64 bits");
    fails("{{ 1 / 0 }}{{ 1 % 0 }}", TERN_BAD_MODEL, "zero");
    fails("{{ 0 ** -1 }}", TERN_BAD_MODEL, "zero");
    fails("{{ (-8) ** 0.5 }}", TERN_BAD_MODEL, "root");
    fails("{{ 1e300 ** 2 }}", TERN_BAD_MODEL, "too large");
    fails("{{ '99999999999999999999' | int }}", TERN_BAD_MODEL, "64 bits");
    fails("{{ 9223372036854775807 | round(-1) }}", TERN_BAD_MODEL, "64 bits");
    fails("{{ no | int }}", TERN_BAD_MODEL, "undefined");
    fails("{{ 1 | round(0, 'up') }}", TERN_BAD_MODEL, "round");
    fails("{{ 'abc' | truncate(-9223372036854775807 - 1) }}", TERN_BAD_MODEL, "truncate");
    fails("{{ '%5-d' % 1 }}", TERN_UNSUPPORTED, "format");
    fails("{{ 'x' % 1 }}", TERN_BAD_MODEL, "more values");
    fails("{{ '%x' % 1.5 }}", TERN_BAD_MODEL, "number");
    fails("{{ range(3) }}", TERN_UNSUPPORTED, "range");
    gives("{{ 'é'.zfill(-9223372036854775807 - 1) }}", "é");
    fails("\xff", TERN_BAD_MODEL, "UTF-8");
    gives("{% if false %}{{ 1 | no_filter }}{% endif %}", "");
}

static void within_a_second(const char *what, struct tern_string text)
{
    struct tern_rendered rendered;
    struct timespec before, after;
    json_t *variables = json_pack("{s:[{s:s, s:s}]}", "messages", "role", "user", "content", "hi");
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &before);
    const enum tern_status status = render(text, variables, NULL, &rendered);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &after);
    const double seconds =
        (double)(after.tv_sec - before.tv_sec) + 1e-9 * (double)(after.tv_nsec - before.tv_nsec);
    tern_rendered_free(&rendered);
    json_decref(variables);
    if (status != TERN_BAD_MODEL || strstr(error.message, "it, line ") == NULL)
        fail_msg("%s: status %d, \"%s\"", what, status, error.message);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    if (seconds > 1)
        fail_msg("%s: %.2f s", what, seconds);
#endif
    (void)seconds;
}

/* `part` again and again. */
static void repeated(const char *start, const char *part, size_t times)
{
    const size_t before = strlen(start), length = strlen(part);
    char *text = malloc(before + times * length);
    memcpy(text, start, before);
    for (size_t i = 0; i < times; i++)
        memcpy(text + before + i * length, part, length);
    within_a_second(part, (struct tern_string){text, before + times * length});
    free(text);
}

static void *hostile_templates(void *unused)
{
    static const char *const texts[] = {
        "{% for i in range(1000000000) %}{% endfor %}",
        "{{ '-' * 10000000000 }}",
        "{{ '-' * 9223372036854775807 }}",
        "{{ [1] * 9223372036854775807 }}",
        "{{ [[]] * 100000000 }}",
        "{% for a in range(10000) %}{% for b in range(10000) %}{% for c in range(10000) %}"
        "{% endfor %}{% endfor %}{% endfor %}",
        "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
        "{% macro f(x) %}{{ f(x) }}{{ f(x) }}{% endmacro %}{{ f(1) }}",
        "{% macro f() %}{% call f() %}{% endcall %}{% endmacro %}{{ f() }}",
        "{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}",
        "{% set n = namespace(s='ab') %}{% for i in range(100) %}{% set n.s = n.s + n.s %}{% "
        "endfor %}",
        "{% set n = namespace(s='ab') %}{% for i in range(99999) %}{% set n.s = n.s ~ 'x' * 100 %}"
        "{% endfor %}",
        "{% set n = namespace(s='ab') %}{% for i in range(99999) %}{% set n.s = 'x' ~ n.s %}{% "
        "endfor %}",
        "{% set n = namespace(l=[]) %}{% for i in range(99999) %}{% set n.l = [n.l] %}{% endfor %}"
        "{{ n.l }}",
        "{% set n = namespace(l=[]) %}{% for i in range(99999) %}{% set n.l = [n.l, n.l] %}{% "
        "endfor %}"
        "{{ n.l == [n.l] }}{{ n.l | tojson }}",
        "{% set n = namespace() %}{% set n.n = n %}{{ n }}",
        "{% set n = namespace(d={}) %}{% for i in range(50000) %}"
        "{% set n.d = dict(n.d, **{i ~ '': i}) %}{% endfor %}",
        "{% set s = 'a' * 1000000 %}{% for i in range(100000) %}{{ s.find('b') }}{% endfor %}",
        "{% set s = 'a' * 1000000 %}{% for i in range(100000) %}{{ s.rfind('ab') }}{% endfor %}",
        "{% set s = 'a' * 1000000 %}{% for i in range(100000) %}{{ s[999999] }}{% endfor %}",
        "{% set s = 'a' * 1000000 %}{% for i in range(100000) %}{{ s == s ~ '' }}{% endfor %}",
        "{% set s = 'a' * 1000000 %}{% for i in range(100000) %}{{ s | length }}{% endfor %}",
        "{% set s = 'a' * 1000000 %}{{ s.replace('', s) }}",
        "{{ ('a' * 100000) | list | map('center', 1000000) | join }}",
        "{{ 'x' | center(999999999999) }}{{ 'x'.ljust(999999999999) }}",
        "{{ 'x' | indent(9999999999) }}",
        "{{ [1] | tojson(indent=99999999999) }}",
        "{{ [1] | batch(999999999, 0) | list }}",
        "{{ [1] | slice(999999999) | list }}",
        "{{ '%999999999d' % 1 }}",
        "{{ strftime_now('%999999999d') }}",
        "{{ 1 | round(99999999999) }}",
        "{{ range(0, 9223372036854775807, 3) | list }}",
        "{{ 2 ** 9223372036854775807 }}",
        "{{ range(100000) | sort(attribute='a.b.c.d.e.f.g.h.i.j') }}{{ range(100000) | sum | x }}",
        "{{ range(100000) | unique | list }}",
        "{% set a = [1] * 300000 %}{% set b = [1] * 300000 %}"
        "{% for i in range(100000) %}{{ a == b }}{% endfor %}",
        "{% set a = [1] * 300000 %}{% set b = [1] * 300000 %}"
        "{% for i in range(100000) %}{{ a < b }}{% endfor %}",
        "{{ ([1.7976931348623157e308] * 300000) | join }}",
        "{{ ([2.2250738585072011e-308] * 300000) | join }}",
        "{% for i in range(100000) %}{{ '%.999f' % 1e308 == 1 }}{% endfor %}",
        "{% set f = '%c' * 42 %}{% for i in range(100000) %}{{ strftime_now(f) == 1 }}{% endfor %}",
        "{% set s = 'x' * 400000 %}{% set t = 'x' * 400000 %}"
        "{% for i in range(100000) %}{% set x = s.removeprefix(t) %}{% endfor %}",
        "{% set s = 'a' * 1000000 %}{% set n = 'a' * 128 ~ 'b' ~ 'a' * 127 %}"
        "{% for i in range(100000) %}{{ s.find(n) }}{% endfor %}",
        "{% set s = ' ' * 1000000 %}{% for i in range(100000) %}{{ s.strip() }}{% endfor %}",
        "{% set s = '\\n' * 1000000 %}{% for i in range(100000) %}{{ s.splitlines() | length }}"
        "{% endfor %}",
        "{% for i in range(100000) %}{{ 2.5 ** 300.3 }}{% endfor %}{{ 1 + {} }}",
    };
    (void)unused;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        within_a_second(texts[i], (struct tern_string){texts[i], strlen(texts[i])});
    repeated("{{", "(", 60000);
    repeated("{{", "[", 60000);
    repeated("{{", "{1:", 60000);
    repeated("{{", "-", 60000);
    repeated("{{", "not ", 60000);
    repeated("{{ x", "[x", 60000);
    repeated("{{ x", "(x", 60000);
    repeated("{{ x", " if x else x", 60000);
    repeated("{{ 1", "+1", 60000);
    repeated("{{ 1", "~1", 60000);
    repeated("{{ x", ".x", 60000);
    repeated("{{ x", "|x(1", 60000);
    repeated("", "{% if 1 %}", 60000);
    repeated("", "{% for i in x %}", 60000);
    repeated("{% for i in x %}", "{% else %}", 60000);
    repeated("{% set ", "(", 60000);
    repeated("", "{#", 60000);
    repeated("{% raw %}", "{% endraw ", 60000);
    repeated("{{ '", "\\", 60001);
    repeated("", "x", 2 << 20);
    return NULL;
}

/* In a thread with a small stack, as the service may run them. */
static void hostile_templates_are_bounded(void **state)
{
    (void)state;
    pthread_t thread;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, SMALL_STACK);
    assert_int_equal(pthread_create(&thread, &attributes, hostile_templates, NULL), 0);
    pthread_join(thread, NULL);
    pthread_attr_destroy(&attributes);
}

int main(void)
{
    setenv("TZ", "UTC", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden_cases_are_right), cmocka_unit_test(language_is_right),
        cmocka_unit_test(long_texts_grow),        cmocka_unit_test(input_is_known),
        cmocka_unit_test(errors_say_where),       cmocka_unit_test(hostile_templates_are_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
