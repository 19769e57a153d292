package jinja

import (
	"errors"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"
)

// TestHostileTemplatesAreStopped: each would run or grow without end.
func TestHostileTemplatesAreStopped(t *testing.T) {
	nest := strings.Repeat("{% for x in range(1000) %}", 20) + strings.Repeat("{% endfor %}", 20)
	double := "{% set ns = namespace(s='x', l=[1]) %}{% for i in range(1000) %}"
	for name, source := range map[string]string{
		"loops in loops":        nest,
		"a long range":          "{{ range(10**18) | length }}",
		"a range that wraps":    "{{ range(9223372036854775800, 9223372036854775807, 5) | length }}{{ range(10**18) }}",
		"text doubled":          double + "{% set ns.s = ns.s + ns.s %}{% endfor %}",
		"text joined":           double + "{% set ns.s = [ns.s, ns.s] | join %}{% endfor %}",
		"text replaced":         double + "{% set ns.s = ns.s | replace('x', 'xx') %}{% endfor %}",
		"text written":          double + "{% set ns.s = ns.s ~ ns.s %}{{ ns.s }}{% endfor %}",
		"text repeated":         "{{ 'x' * 10**12 }}",
		"nothing repeated":      "{% for i in range(10**9) %}{{ '' * 10**18 }}{% endfor %}",
		"text indented":         "{{ 'a\nb' | indent(10**12) }}",
		"JSON indented":         "{{ [[[[1]]]] | tojson(indent=10**12) }}",
		"text split":            double + "{% set ns.s = ns.s ~ ns.s %}{% set p = ns.s.split('x') %}{% endfor %}",
		"lists doubled":         double + "{% set ns.l = ns.l + ns.l %}{% endfor %}",
		"lists sliced":          double + "{% set ns.l = ns.l + ns.l %}{% set q = ns.l[:] %}{% endfor %}",
		"lists in lists, shown": double + "{% set ns.l = [ns.l, ns.l] %}{% endfor %}{{ ns.l }}",
		"macros":                "{% macro f(n) %}{{ f(n + 1) }}{{ f(n + 1) }}{% endmacro %}{{ f(0) }}",
		"macros in a loop":      "{% macro f(n) %}{% if n < 60 %}{{ f(n + 1) }}{{ f(n + 1) }}{% endif %}{% endmacro %}{{ f(0) }}",
		"a block set":           double + "{% set x %}{{ ns.s }}{{ ns.s }}{% endset %}{% set ns.s = x %}{% endfor %}",
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		start := time.Now()
		_, err := render(source, nil, nil)
		runtime.ReadMemStats(&after)
		if !errors.Is(err, ErrBudget) && !errors.Is(err, ErrTemplate) {
			t.Errorf("%s: error %v, want ErrBudget", name, err)
		}
		if d := time.Since(start); d > 5*time.Second {
			t.Errorf("%s: %v", name, d)
		}
		if grown := after.TotalAlloc - before.TotalAlloc; grown > 1<<29 {
			t.Errorf("%s: %d MiB", name, grown>>20)
		}
	}
}

// TestLongStringsCostWhatComparingThemTakes: a step a comparison would let a
// template compare a megabyte a million times.
func TestLongStringsCostWhatComparingThemTakes(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	variables := map[string]any{"a": long + "a", "b": long + "b"}
	for _, comparison := range []string{"a == b", "a < b", "a in b", "a in [b]"} {
		source := "{% for i in range(100) %}{% set x = " + comparison + " %}{% endfor %}"
		if _, err := render(source, variables, nil); !errors.Is(err, ErrBudget) {
			t.Errorf("%s: error %v, want ErrBudget", comparison, err)
		}
	}
}

// TestCallsDoNotNestWithoutEnd: a budget alone would let the stack grow.
func TestCallsDoNotNestWithoutEnd(t *testing.T) {
	parsed, err := Parse("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := parsed.Execute(nil, nil, 1<<24); !errors.Is(err, ErrTemplate) || !strings.Contains(err.Error(), "deep") {
		t.Errorf("error %v, want one of the depth", err)
	}
}

// TestDeepTemplatesAreRefused: what would be recursion without end.
func TestDeepTemplatesAreRefused(t *testing.T) {
	const n = 50000
	for name, source := range map[string]string{
		"parentheses":  "{{ " + strings.Repeat("(", n) + "1" + strings.Repeat(")", n) + " }}",
		"lists":        "{{ " + strings.Repeat("[", n) + strings.Repeat("]", n) + " }}",
		"mappings":     "{{ " + strings.Repeat("{'a':", n) + "1" + strings.Repeat("}", n) + " }}",
		"not":          "{{ " + strings.Repeat("not ", n) + "1 }}",
		"minus":        "{{ " + strings.Repeat("- ", n) + "1 }}",
		"sums":         "{{ 1" + strings.Repeat("+1", n) + " }}",
		"powers":       "{{ 1" + strings.Repeat("**1", n) + " }}",
		"filters":      "{{ 1" + strings.Repeat("|trim", n) + " }}",
		"fields":       "{{ a" + strings.Repeat(".b", n) + " }}",
		"calls":        "{{ a" + strings.Repeat("()", n) + " }}",
		"or":           "{{ 1" + strings.Repeat(" or 1", n) + " }}",
		"conditionals": "{{ " + strings.Repeat("1 if 0 else ", n) + "1 }}",
		"blocks":       strings.Repeat("{% if 1 %}", n),
		"elif":         "{% if 0 %}" + strings.Repeat("{% elif 0 %}", n) + "{% endif %}",
		"tests":        "{{ 1" + strings.Repeat(" is eq 1", n) + " }}",
		"bytes":        strings.Repeat("a", maxSource+1),
	} {
		if _, err := Parse(source); !errors.Is(err, ErrTemplate) {
			t.Errorf("%s: error %v, want ErrTemplate", name, err)
		}
	}
}

// TestNothingOutsideIsReached: what Jinja reaches by import, include or
// Python's attributes.
func TestNothingOutsideIsReached(t *testing.T) {
	for _, source := range []string{
		"{% include '/etc/passwd' %}", "{% import 'x' as y %}", "{% from 'x' import y %}", "{% extends 'x' %}",
		"{{ ''.__class__.__mro__ }}", "{{ x.__globals__.os }}", "{{ self.__init__ }}", "{{ lipsum() }}", "{{ cycler.__init__ }}",
		"{% set messages[0] = 1 %}", "{{ [].append(1) }}", "{{ {}.update(a=1) }}", "{{ {}.pop('a') }}",
	} {
		if got, err := render(source, nil, nil); !errors.Is(err, ErrTemplate) {
			t.Errorf("%s gave %q, error %v, want ErrTemplate", source, got, err)
		}
	}
}

// TestTemplatesCutOffAreErrors: every beginning of one that uses everything.
func TestTemplatesCutOffAreErrors(t *testing.T) {
	whole := "{% macro f(a, b=1) %}{{ a[1:2] | join(', ') if b is not eq 1 else {'x': -b} }}{% endmacro %}" +
		"{% for k, v in d.items() if v %}{% if not k in l %}{% elif k %}{% else %}{% break %}{% endif %}{% else %}{% set x %}{% endset %}{% endfor %}"
	if _, err := Parse(whole); err != nil {
		t.Fatalf("the whole: %v", err)
	}
	for n := range whole {
		_, err := Parse(whole[:n])
		complete := n == 0 || n == strings.Index(whole, "{% for")
		if (err == nil) != complete && !strings.HasSuffix(whole[:n], "{") { // a brace alone is text
			t.Errorf("%q: error %v", whole[:n], err)
		}
	}
}

func TestErrorsNameTheLine(t *testing.T) {
	for _, source := range []string{"a\n\n{{ missing.x }}", "{#\n#}\n{{ ) }}", "{% if 1 %}\n{% endif %}\n{% set x = 1 // 0 %}"} {
		if _, err := render(source, nil, nil); err == nil || !strings.Contains(err.Error(), "line 3") {
			t.Errorf("%q: error %v, want one in line 3", source, err)
		}
	}
}

func TestAVariableOfAnotherTypeIsAnError(t *testing.T) {
	if _, err := render("", map[string]any{"x": make(chan int)}, nil); !errors.Is(err, ErrTemplate) {
		t.Errorf("error %v, want ErrTemplate", err)
	}
}

func FuzzTemplate(f *testing.F) {
	data, err := os.ReadFile("testdata/cases.json")
	if err != nil {
		f.Fatal(err)
	}
	for _, part := range strings.Split(string(data), `"template": "`)[1:] {
		f.Add(strings.NewReplacer(`\n`, "\n", `\"`, `"`).Replace(strings.SplitN(part, "\",\n", 2)[0]))
	}
	variables := map[string]any{"messages": []any{[]Field{{"role", "user"}, {"content", "é\xff"}}}, "n": 3, "l": []any{1, 2}, "s": "text"}
	f.Fuzz(func(t *testing.T, source string) {
		parsed, err := Parse(source)
		if err != nil {
			return
		}
		text, err := parsed.Execute(variables, nil, 1<<16)
		if err == nil && len(text) > 1<<16 {
			t.Errorf("%d bytes from a budget of %d", len(text), 1<<16)
		}
		if err != nil && text != "" {
			t.Errorf("an error, and the text %q", text)
		}
	})
}
