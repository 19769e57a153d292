"""Makes cases.json: templates, and what Jinja makes of them.

    pip install jinja2==3.1.6
    python make.py

The environment is the one in which transformers renders chat templates. A case
whose template fails has null for its text.
"""
import json
import pathlib

try:
    from jinja2 import nodes
    from jinja2.exceptions import TemplateError
    from jinja2.ext import Extension
    from jinja2.sandbox import ImmutableSandboxedEnvironment
except (ImportError, OSError) as missing:
    raise SystemExit(f"{__file__}: {missing}; what to install stands at its head") from None


class Generation(Extension):
    """The tag {% generation %}, whose inside is rendered as it is."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        return nodes.Scope(parser.parse_statements(["name:endgeneration"], drop_needle=True), lineno=line)


def raise_exception(message):
    raise TemplateError(message)


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols", Generation])
env.filters["tojson"] = tojson
env.globals["raise_exception"] = raise_exception
env.globals["strftime_now"] = lambda layout: "<" + layout + ">"

MESSAGES = [
    {"role": "system", "content": " Be brief. \n"},
    {"role": "user", "content": "What is 2 < 3 & 'so' \"on\"?\n"},
    {"role": "assistant", "content": "<think>\nhm\n</think>\n\nYes, 你好 🙂."},
    {"role": "user", "content": "  And é?"},
]
VARS = {
    "messages": MESSAGES, "bos_token": "<s>", "eos_token": "</s>", "add_generation_prompt": True,
    "n": 7, "f": 2.5, "s": "Hello wörld", "l": [3, 1, 2, 1], "d": {"b": 1, "a": [True, None, 0.5], "c": {"x": "y\n\"z\""}},
    "empty": [], "none": None, "people": [{"name": "Bo", "age": 3}, {"name": "Al", "age": 5, "x": 1}],
}

EXPRESSIONS = """
1 + 2 * 3 - 4 // 3 % 5
(1 + 2) * -3
-7 // 2, -7 % 3, 7 // -2, 7 % -3
7 / 2, 6 / 2, 2 ** 10, 2 ** 0.5
1.5 + 1, 1e3 if false else 10.0, 100000000000000000000.0
"a" ~ 1 ~ none ~ true ~ 1.0
"a" + "b" * 3
[1, 2] + l
not n == 7 or n > 3 and n <= 7
1 < 2 < 3, 1 < 3 < 2
n in l, 3 in l, "ell" in s, "b" in d, "z" not in d
"x" if missing else "y"
"x" if missing
missing, missing is defined, n is defined, missing is undefined
none is none, n is not none
s is string, n is number, f is float, n is integer, true is boolean, d is mapping, l is sequence, s is iterable, n is iterable
n is odd, n is even, n is divisibleby 7, n is divisibleby(2), n is eq 7, n is in l
n is not odd and s is string
true is true, 1 is true, false is false
s[0], s[-1], s[1:4], s[:-2], s[::2], s[::-1], s[10:], s[20:]
l[0], l[-1], l[1:], l[:2], l[::-1], l[1:10:2], l[-2:], l[5:]
l[-9::-1], l[9::-1], l[2:-9:-1], l[-2::-1], l[9:], l[:-9]
l[9] is defined
d.b, d["b"], d.a[1], d.c.x, d.missing is defined, d["missing"] is defined
d.items() | map("join", "=") | list, d.keys() | list, d.values() | list | length, d.get("b"), d.get("q"), d.get("q", 3)
d | items | map("first") | list
people[0].name, people[1]["x"], people[0].x is defined
s | upper, s | lower, s | title, s | capitalize, s | length, s | reverse
"  x y " | trim, "  x ".strip(), "xxabxx".strip("x"), "  x".lstrip(), "x  ".rstrip() ~ "|", "xxa".lstrip("x"), "a\\n\\n".rstrip("\\n")
"a,b,c".split(","), "a,b,c".split(",", 1), "a,b,c".rsplit(",", 1), " a  b ".split(), "a</t>b".split("</t>")[-1]
"abc".startswith("ab"), "abc".endswith("bc"), "abc".startswith(("x", "a")), "abc".find("c"), "abc".find("z")
"aXbX".replace("X", "-"), "aXbX".replace("X", "-", 1), "aXbX" | replace("X", "")
"ab{}c{}".format(1, "x"), "a-b".upper(), "Ab".lower(), "ab cd".title(), "12".isdigit(), "".isdigit(), "a\\nb\\n".splitlines()
",".join(["a", "b"]), ["a", 1, none] | join("-"), [] | join
l | first, l | last, l | sort, l | sort(reverse=true), l | unique | list, l | reverse | list, l | length, l | max, l | min
missing | default("x"), "" | default("x"), "" | default("x", true), none | default("x"), n | d(1)
"12" | int, "x" | int, "x" | int(5), "2.7" | int, 2.7 | int, "2.5" | float, n | string, -3 | abs
people | map(attribute="name") | list, ["a", "b"] | map("upper") | list, people | map(attribute="x", default=0) | list
people | selectattr("x", "defined") | list | length, people | selectattr("age", "equalto", 5) | map(attribute="name") | list
people | rejectattr("age", "gt", 3) | map(attribute="name") | join, l | select("odd") | list, l | reject("odd") | list, [0, 1, ""] | select | list
none | selectattr("x") | list
people | sort(attribute="age") | map(attribute="name") | list
d | dictsort | map("first") | list
d | tojson
d | tojson(indent=2)
d | tojson(separators=(",", ":"), sort_keys=true)
"é\\n\\t\\"<>&'" | tojson, 1.0 | tojson, [] | tojson(indent=4), {} | tojson
"a\\nb\\n\\nc" | indent(2), "a\\nb" | indent(2, true), "a\\nb" | indent(first=false)
range(3) | list, range(1, 4) | list, range(5, 0, -2) | list
dict(a=1, b="x"), {"a": 1, "b": [1, [2, 3]]}, {1: "x", 2: "y"}[2]
namespace(a=1).a
[1, 2] == [1, 2], {"a": 1} == {"a": 1.0}, "a" == 1, none == false, 1 == true, "a" < "b"
'it\\'s', "tab\\there", "\\u00e9", 'a' 'b'
s is lower, "abc" is lower, "ABC" is upper
true and "x" or "y", "" or "z", 0 and 1
messages[0].content.strip() ~ "|" ~ messages[0]['content'] | length
(messages | last).role, messages[1:] | length, messages[-1]['role'] == 'user'
l | list is sequence, 5 is callable, range is callable
raise_exception("no")
missing.x
missing + 1
1 + "a"
1 // 0
none.x is defined
n()
s | nofilter
n is notest
"a" < 1
"x" | tojson | length
strftime_now("%d %b")
""".strip().splitlines()

TEMPLATES = {
    "chatml": "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\\n' + m['content'] | trim + '<|im_end|>' + '\\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}",
    "header": "{{- bos_token }}\n{%- if messages[0].role == 'system' %}\n    {%- set system = messages[0].content | trim %}\n    {%- set messages = messages[1:] %}\n{%- else %}\n    {%- set system = '' %}\n{%- endif %}\n{{- '[sys ' ~ strftime_now('%Y') ~ ']\\n' + system + '[/sys]' }}\n{%- for message in messages %}\n    {{- '[' + message.role + ']\\n' + message['content'] | trim + '[/]' }}\n{%- endfor %}\n",
    "alternate": "{{ bos_token }}{% set turns = messages | rejectattr('role', 'equalto', 'system') | list %}{% for m in turns %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('roles must alternate') }}{% endif %}{% if m.role == 'user' %}{{ '[INST] ' ~ m.content ~ ' [/INST]' }}{% else %}{{ m.content + eos_token }}{% endif %}{% endfor %}",
    "refuses": "{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('no system role') }}{% endif %}{% endfor %}",
    "thinking": "{%- set ns = namespace(last=-1) %}\n{%- for m in messages[::-1] %}\n    {%- set index = (messages | length - 1) - loop.index0 %}\n    {%- if ns.last < 0 and m.role == \"user\" and m.content is string %}\n        {%- set ns.last = index %}\n    {%- endif %}\n{%- endfor %}\n{%- for m in messages %}\n    {%- set content = m.content %}\n    {%- set reasoning = '' %}\n    {%- if '</think>' in content %}\n        {%- set reasoning = content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') %}\n        {%- set content = content.split('</think>')[-1].lstrip('\\n') %}\n    {%- endif %}\n    {{- '<' ~ m.role ~ ':' ~ loop.index ~ (' now' if loop.index0 == ns.last else '') ~ '>' ~ content ~ '(' ~ reasoning ~ ')' }}\n{%- endfor %}\n",
    "macros": "{%- macro tag(name, inside='none', close=true) -%}\n<{{ name }}>{{ inside }}{% if close %}</{{ name }}>{% endif %}\n{%- endmacro -%}\n{{ tag('a') }} {{ tag('b', 'x') }} {{ tag('c', close=false) }} {{ tag(inside=tag('d', 1), name='e') }}\n{%- macro down(k) %}{{ k }}{% if k > 0 %},{{ down(k - 1) }}{% endif %}{% endmacro %}\n{{ down(4) }}",
    "loops": "{% for a in l %}{{ loop.index }}/{{ loop.length }}{{ '!' if loop.first }}{{ '.' if loop.last else ',' }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.previtem }}<{{ loop.nextitem }}{% endfor %}{% for x in empty %}x{% else %}none{% endfor %}{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}{% for x in l if x > 1 %}{{ x }}{{ loop.length }}{% else %}no{% endfor %}{% for x in l %}{% if x == 1 %}{% continue %}{% endif %}{% if x == 2 %}{% break %}{% endif %}{{ x }}{% endfor %}{% for x in [1, 2] %}{% for y in 'ab' %}{{ x ~ y ~ loop.index }}{% endfor %}{{ loop.index }}{% endfor %}",
    "break and continue": "{% for x in range(9) %}{% if x == 2 %}{% continue %}{% endif %}{% if x == 5 %}{% break %}{% endif %}{{ x }}{% endfor %}",
    "scopes": "{% set x = 1 %}{% for i in [1, 2] %}{{ x }}{% set x = 5 %}{{ x }}{% endfor %}{{ x }}{% if true %}{% set x = 9 %}{% endif %}{{ x }}{% set ns = namespace(x=0) %}{% for i in range(3) %}{% set ns.x = ns.x + i %}{% endfor %}{{ ns.x }}{% set a, b = 1, 'z' %}{{ a ~ b }}{% for i in range(2) %}{% set q = (q | default(0)) + 1 %}{{ q }}{% endfor %}{{ q is defined }}",
    "block set": "{% set x %}a{{ n }}\n b{% endset %}[{{ x }}]{{ x | length }}",
    "generation": "a{% generation %}b{{ n }}{% endgeneration %}c",
    "white space": "a\n  {% if true %}\n    b\n  {% endif %}\nc\n{# d #}\n  {# e #}\nf {{ n }}\n\ng  {%- if true -%}  h  {%- endif -%}  i\n  {{- n -}}  \nj\n   {%+ if true %}k{% endif +%}\nl\n{% if true %}\n\nm{% endif %}\n",
    "comments": "a{# {{ n }} {% if %} #}b{#- x -#}  c\n{#\n many\n lines\n#}\nd",
    "line ends": "a\r\nb{% if true %}\r\nc{% endif %}\rd\n",
    "braces": "{{ {'a': {'b': 1}}['a']['b'] }}{{ '}}' }}{{ \"{%\" }}{ {x} %} }}",
    "elif": "{% for x in [1, 2, 3, 4] %}{% if x == 1 %}a{% elif x == 2 %}b{% elif x == 3 %}c{% else %}d{% endif %}{% endfor %}",
    "nothing": "",
    "several at once": "{{ (1, 'a') | join }}{% set t = 1, 2 %}{{ t[1] }}{{ (1, 2)[0] }}{{ () | length }}",
    "no end": "{% if true %}a",
    "no beginning": "a{% endif %}",
    "no tag": "{% frobnicate %}",
    "open": "a {{ n ",
    "break alone": "{% break %}",
    "a word too many": "{{ n n }}",
    "an empty expression": "{{ }}",
    "unpacking": "{% for a, b in [[1, 2], [3]] %}{{ a }}{% endfor %}",
    "a namespace alone": "{% set d.b = 3 %}",
}


def main():
    templates = {f"{{{{ {e} }}}}": "{{ [" + e + "] }}" for e in EXPRESSIONS if ", " in e}
    templates |= {f"{{{{ {e} }}}}": "{{ " + e + " }}" for e in EXPRESSIONS if f"{{{{ {e} }}}}" not in templates}
    templates |= TEMPLATES
    cases = []
    for name, source in templates.items():
        try:
            text = env.from_string(source).render(**VARS)
        except Exception:
            text = None
        cases.append({"name": name, "template": source, "text": text})
    out = {"variables": VARS, "cases": cases}
    (pathlib.Path(__file__).parent / "cases.json").write_text(json.dumps(out, indent=1, ensure_ascii=False) + "\n")


main()
