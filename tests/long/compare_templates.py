#!/usr/bin/env python3
"""Random templates, rendered by Tern and by jinja2 set up as transformers does: both must give the same text.

usage: compare_templates.py [--seconds N] [--seed N] [--build DIR]

Needs jinja2 (pip install jinja2). A template that jinja2 refuses says nothing: Tern may be more lenient. One that
Tern refuses for its size does not count either. Left out of the grammar, and different on purpose: integers of more
than 64 bits, complex numbers, ranges as text, capital sigma in lower case, what methods of escaped texts give, and
names from outside that only inner scopes read before the outer one sets them (jinja2 takes them for undefined).
Exit 1 if a text differed or Tern refused what jinja2 renders.
"""
import argparse
import collections
import itertools
import json
import pathlib
import random
import re
import signal
import subprocess
import sys
import time
import warnings

import jinja2
import jinja2.ext
import jinja2.sandbox

# What an @name may become, choices with ¦ between. Expressions come in parentheses where they need them.
GRAMMAR = r"""
any: @str ¦ @str ¦ @str ¦ @int ¦ @num ¦ @bool ¦ @list ¦ @dict ¦ none ¦ nope ¦ u ¦ n ¦ lst ¦ d ¦ x ¦ y ¦ messages[0]
word: '' ¦ 'a' ¦ 'ab' ¦ 'Ab cD' ¦ ' x ' ¦ 'a,b,,c' ¦ 'l1\nl2\n\nl3' ¦ '<|im_end|>' ¦ 'é ü ß' ¦ '日本語' ¦ "it's" ¦ '"'
word: '\\' ¦ '-12' ¦ ' 3.5 ' ¦ '1e3' ¦ '<b>&' ¦ 'hello world foo bar' ¦ '\t' ¦ 'aXbXc' ¦ '\xa0z\u3000' ¦ 'a\r\nb\rc'
word: '😀👍' ¦ u ¦ 'a' "b" ¦ messages[0].content ¦ messages[1]['role']
str: @word ¦ @word ¦ @word ¦ (@str ~ @any) ¦ (@str + @str) ¦ (@str * @times) ¦ (@str if @bool else @str)
str: (@str|@strfilter) ¦ (@str|@strfilter) ¦ @str.@strmethod ¦ @str.@strmethod ¦ @str[@slice] ¦ @str[@small]
str: (@list|join) ¦ (@list|join(@word)) ¦ (@any|string) ¦ (@list|tojson) ¦ (@dict|tojson(indent=2))
str: (@dict|tojson(sort_keys=true)) ¦ (@str|tojson(ensure_ascii=true)) ¦ (@num|tojson(separators=(',', ':')))
str: (@any|default('D')) ¦ (@any|d('x', true)) ¦ ('%s|%5s|%-5s|%.2s' % (@any, @any, @word, @word)) ¦ ('%r' % (@any,))
str: ('%@intform' % (@int,)) ¦ ('%@realform' % (@num,)) ¦ '{}-{}'.format(@any, @any) ¦ (@num|string) ¦ m1(@any)
str: m1(@any, b=@any) ¦ @word.join(['a', @word]) ¦ @str.split(@word, 1)[0]
intform: d ¦ 5d ¦ 05d ¦ +d ¦ x ¦ X ¦ o ¦ i ¦ -6d ¦ .3d ¦ #x ¦ #o ¦ 08.3d
realform: f ¦ .2f ¦ e ¦ g ¦ 8.3f ¦ +.1e ¦ G ¦ .0f ¦ 08.2f
strfilter: upper ¦ lower ¦ title ¦ capitalize ¦ trim ¦ string ¦ reverse ¦ list|join ¦ first ¦ last
strfilter: replace(@word, @word) ¦ replace(@word, @word, 1) ¦ indent ¦ indent(2, true) ¦ indent(3, blank=true)
strfilter: indent('>') ¦ truncate(5) ¦ center(9) ¦ truncate(8, false, '..') ¦ truncate(10, true, '', 0) ¦ trim('ax')
strfilter: format ¦ wordcount|string
strmethod: upper() ¦ lower() ¦ title() ¦ capitalize() ¦ strip() ¦ lstrip() ¦ rstrip() ¦ strip(@word)
strmethod: removeprefix(@word) ¦ removesuffix(@word) ¦ replace(@word, @word) ¦ replace(@word, @word, 1) ¦ center(9)
strmethod: ljust(8) ¦ rjust(8, '*') ¦ zfill(6) ¦ split()|join('_') ¦ splitlines()|join('|')
strmethod: partition(@word)|join('_') ¦ rsplit(none, 1)|join('_')
slice: : ¦ 1: ¦ :-1 ¦ -3: ¦ 1:3 ¦ ::2 ¦ ::-1 ¦ 2:-1:2 ¦ -2::-2 ¦ :99
small: 0 ¦ 1 ¦ 2 ¦ -1 ¦ -2 ¦ 7
times: 0 ¦ 1 ¦ 2 ¦ -1 ¦ n
int: 0 ¦ 1 ¦ 3 ¦ 7 ¦ n ¦ -5 ¦ 0x1F ¦ 1_000 ¦ 9223372036854775807 ¦ 4611686018427387904 ¦ (@list|length)
int: (@str|length) ¦ (@int + @int) ¦ (@int - @int) ¦ (@int * @int) ¦ (@int // @int) ¦ (@int % @int) ¦ (@int ** 2)
int: (-@int) ¦ (@any|int) ¦ (@any|int(5)) ¦ @str.find(@word) ¦ @str.rfind(@word) ¦ @str.count(@word) ¦ (@int|abs)
int: ([@int, @int]|max) ¦ ([@int, @int]|sum)
num: @int ¦ 1.5 ¦ 0.1 ¦ -2.25 ¦ 1e16 ¦ 1e-7 ¦ 2.0 ¦ f ¦ 1e22 ¦ 0.5 ¦ 2.5 ¦ 1e300 ¦ -0.0 ¦ 5e-324 ¦ 3.14159
num: (@num + @num) ¦ (@num - @num) ¦ (@num * @num) ¦ (@num / @num) ¦ (@num // @num) ¦ (@num % @num) ¦ (@any|float)
num: (@num ** 2) ¦ (@num|round) ¦ (@num|round(2)) ¦ (@num|round(-1)) ¦ (@num|round(1, 'ceil'))
num: (@num|round(0, 'floor')) ¦ (-@num)
bool: true ¦ false ¦ u ¦ nope ¦ n ¦ lst ¦ (@any == @any) ¦ (@any != @any) ¦ (@num < @num) ¦ (@num >= @num)
bool: (@str < @str) ¦ (not @bool) ¦ (@bool and @bool) ¦ (@bool or @bool) ¦ (@any is @test) ¦ (@any is not @test)
bool: (@int is @inttest) ¦ (@word in @str) ¦ (@any in @list) ¦ (@any not in @list) ¦ @str.startswith(@word)
bool: @str.endswith(('a', @word)) ¦ @str.@asking() ¦ ('k' in @dict) ¦ (@int < @int <= @num) ¦ (@list == @list)
bool: (@str is upper) ¦ (@str is lower)
test: defined ¦ undefined ¦ none ¦ string ¦ number ¦ integer ¦ float ¦ boolean ¦ true ¦ false ¦ mapping ¦ sequence
test: iterable ¦ callable ¦ eq 1 ¦ ne 'a' ¦ in [1, 'a'] ¦ sameas none
inttest: odd ¦ even ¦ divisibleby 3 ¦ lt 5 ¦ gt(1) ¦ ge 0 ¦ le 0
asking: isalpha ¦ isdigit ¦ isspace ¦ isalnum ¦ isupper ¦ islower ¦ isnumeric
list: lst ¦ [] ¦ [1, 2, 3] ¦ ['b', 'A', 'c'] ¦ messages ¦ [none, 1] ¦ (1, 2) ¦ [[1, 2], [3]] ¦ [{'k': 2}, {'k': 1}]
list: ('x',) ¦ [@any, @any] ¦ (@any, @any) ¦ (@list + @list) ¦ @list[@slice] ¦ (@list * @times)
list: (@list if @bool else @list) ¦ (range(@small)|list) ¦ (range(5, 0, -2)|list) ¦ (@list|@listfilter|list)
list: (@list|@listfilter|list) ¦ (@str|list) ¦ @str.split() ¦ @str.split(@word) ¦ @str.rsplit(@word, 1)
list: @str.split(none, 1) ¦ @str.splitlines() ¦ (@dict|list) ¦ (@dict|dictsort) ¦ (@dict.items()|list)
list: (@dict.values()|list) ¦ (@dict|items|list) ¦ (@dict|dictsort(false, 'value')) ¦ (@dict|dictsort(reverse=true))
listfilter: sort ¦ sort(reverse=true) ¦ sort(attribute='k') ¦ sort(case_sensitive=true) ¦ sort(attribute='k,0')
listfilter: reverse ¦ unique ¦ map('string') ¦ map(attribute='k') ¦ map(attribute='k', default=0) ¦ map('upper')
listfilter: map('default', 'q') ¦ select ¦ batch(2) ¦ select('string') ¦ reject('none') ¦ selectattr('k')
listfilter: selectattr('k', 'gt', 1) ¦ rejectattr('k', 'defined') ¦ batch(2, 'z') ¦ select('in', [1, 'a']) ¦ slice(2)
listfilter: slice(3, 'z') ¦ groupby('k') ¦ groupby('k', default=0) ¦ groupby('role')
dict: d ¦ {} ¦ {'k': 1} ¦ messages[0] ¦ {'b': 1, 'a': [2]} ¦ {1: 'x', 'y': none} ¦ {@word: @any} ¦ dict(d, z=@any)
dict: @dict.copy()
settable: x ¦ y ¦ k ¦ w
target: x ¦ y ¦ n ¦ k ¦ w
print: {{ @any }} ¦ {{ @str }} ¦ {{ @any }}@gap{{ @str }} ¦ {{ ns.a }} ¦ {{ d.k }}{{ d['a'] }}{{ d.get('q', @any) }}
loop: index ¦ index0 ¦ first ¦ last ¦ length ¦ revindex ¦ depth ¦ depth0 ¦ previtem ¦ nextitem ¦ cycle('a', 'b')
loop: changed(x)
gap: @nothing ¦ @nothing ¦ @space ¦ @newline ¦ @newline@space ¦ a ¦ {# c #} ¦ {# c #}@newline
gap: {%raw%} {{ x }}{%endraw-%} ¦ {%raw -%} {{ x }}{%- endraw%}@newline
body: @gap@stmt@gap ¦ @gap@stmt@gap@stmt@gap ¦ @gap@print@gap
stmt: @print ¦ @print ¦ @print ¦ {% set @settable = @any %} ¦ {% set x, y = 'ab' %} ¦ {% set x, y = y, x %}
stmt: {% set ns.a = @any %} ¦ {% if @bool %}@body{% endif %}
stmt: {% if @bool %}@body{% elif @bool %}@body{% else %}@body{% endif %}
stmt: {% for @target in @list %}@loopbody{% endfor %}
stmt: {% for @target in @list if @bool %}@loopbody{% else %}@body{% endfor %}
stmt: {% for k, w in @dict.items() %}@loopbody{% endfor %}
stmt: {% for x in @list recursive %}{{ loop.depth }}@loopbody{% endfor %}
stmt: {% for x in [[1, [2]], [3]] recursive %}{{ x if x is number else loop(x) }}@gap{% endfor %}
stmt: {% set x %}@body{% endset %} ¦ {% set y | upper | trim %}@body{% endset %}
stmt: {% filter replace('a', 'X') %}@body{% endfilter %} ¦ {% filter indent(1) %}@body{% endfilter %}
stmt: {% with x = @any, y = x %}@body{% endwith %} ¦ {% generation %}@body{% endgeneration %}
stmt: {% macro m1(a, b=@any) %}@body{{ a }}@gap{{ b }}{% endmacro %}
stmt: {% macro m2(a=x) %}{{ a }}{{ varargs }}{{ kwargs }}{% endmacro %} ¦ {{ m2(@any, 2, k=3) }}
stmt: {% call m3() %}@body{% endcall %} ¦ {% call(x) m4(@any) %}@body{{ x }}{% endcall %}
loopbody: @body ¦ @body{{ loop.@loop }} ¦ @body{% if @bool %}{% break %}{% endif %}@gap
loopbody: {% if @bool %}{% continue %}{% endif %}@body
"""
SPACING = {"nothing": "", "space": "  ", "newline": "\n"}
BEFORE = ("{% set ns = namespace(a=1) %}{% set x, y = 'X', 2 %}{% macro m1(a, b='B') %}<{{ a }},{{ b }}>{% endmacro %}"
          "{% macro m2() %}{{ varargs }}{{ kwargs }}{% endmacro %}{% macro m3() %}[{{ caller() }}]{% endmacro %}"
          "{% macro m4(a) %}{{ caller(a) }}{{ caller(1) }}{% endmacro %}\n")
VARIABLES = {"u": "a<|x|>b É", "n": 3, "f": 2.5, "lst": [1, "a", 2.5], "d": {"k": 1, "a": "x", "b": None},
             "messages": [{"role": "user", "content": " Hi, <b> "}, {"role": "assistant", "content": "ok\nso"}]}
NOT_COUNTED = ("64 bits", "too many steps", "too much memory", "nested too deeply", "writes more than", "a root of",
               "a range as text")


def read_grammar():
    rules = collections.defaultdict(list)
    for line in GRAMMAR.strip().splitlines():
        name, choices = line.split(": ", 1)
        rules[name] += choices.split(" ¦ ")
    plain = {name: [c for c in choices if not set(re.findall(r"@(\w+)", c)) - set(SPACING)]
             for name, choices in rules.items()}
    return rules, plain


RULES, PLAIN = read_grammar()


def grow(chance, name, depth):
    """Something that @name stands for; deep inside, what holds nothing more."""
    if name in SPACING:
        return SPACING[name]
    choices = RULES[name] if depth > 0 or not PLAIN[name] else PLAIN[name]
    return re.sub(r"@(\w+)", lambda part: grow(chance, part[1], depth - 1), chance.choice(choices))


def make_template(seed):
    chance = random.Random(seed)
    text = BEFORE + "".join(grow(chance, "body", chance.randrange(3, 8)) for _ in range(chance.randrange(1, 4)))
    text = re.sub(r"\{%(?= )", lambda _: chance.choice(("{%", "{%", "{%", "{%-", "{%+")), text)
    text = re.sub(r"(?<= )%\}", lambda _: chance.choice(("%}", "%}", "%}", "-%}", "+%}")), text)
    return re.sub(r"\{\{(?= )", lambda _: chance.choice(("{{", "{{", "{{-")), text)


class Generation(jinja2.ext.Extension):
    """The tag that transformers adds."""
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("give"), [], [], body).set_lineno(line)

    def give(self, caller):
        return caller()


def make_environment():
    environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols])
    environment.filters["tojson"] = lambda value, ensure_ascii=False, **style: json.dumps(
        value, ensure_ascii=ensure_ascii, **style)
    return environment


class TooSlow(Exception):
    pass


def too_slow(*_):
    raise TooSlow


def ask_jinja(environment, template):
    """The text, or None where there is none."""
    signal.setitimer(signal.ITIMER_REAL, 2)
    try:
        return environment.from_string(template).render(**json.loads(json.dumps(VARIABLES)))
    except Exception:  # of whatever kind: the template says nothing
        return None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def ask_tern(program, template):
    program.stdin.write(json.dumps({"template": template, "variables": VARIABLES}).encode() + b"\n")
    program.stdin.flush()
    return json.loads(program.stdout.readline())


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=time.time_ns() % 10**9)
    parser.add_argument("--build", default=pathlib.Path(__file__).resolve().parents[2] / "build")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    signal.signal(signal.SIGALRM, too_slow)
    environment = make_environment()
    program = subprocess.Popen([pathlib.Path(options.build) / "tests/long/render-template"],
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    counts, end = collections.Counter(), time.monotonic() + options.seconds
    for seed in itertools.count(options.seed):
        if time.monotonic() > end:
            break
        template = make_template(seed)
        wanted = ask_jinja(environment, template)
        got = ask_tern(program, template)
        if wanted is None:
            counts["refused by jinja2"] += 1
        elif got.get("text") == wanted:
            counts["equal"] += 1
        elif any(words in got.get("error", "") for words in NOT_COUNTED):
            counts["beyond Tern"] += 1
        else:
            counts["different"] += 1
            if counts["different"] <= 10:
                print(f"seed {seed}: {template!r}\n  tern   {got}\n  jinja2 {wanted!r}")
    program.stdin.close()
    program.wait()
    print(", ".join(f"{count} {what}" for what, count in sorted(counts.items())))
    return 1 if counts["different"] or not counts["equal"] else 0


if __name__ == "__main__":
    sys.exit(main())
