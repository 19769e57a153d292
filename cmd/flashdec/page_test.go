package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"image/png"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/flashdec/flashdec/internal/explain"
	"github.com/flashdec/flashdec/tensorfile"
)

var pictures = flag.String("pictures", "", "keep pictures of the pages in this folder")

// These tests stand in a file after memory_test.go, so that they run after it: a
// process that Linux starts counts the peak memory of the one that started it as its own.

// pageOf writes a page and returns its path and text.
func pageOf(t *testing.T, args ...string) (path, text string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "page.html")
	want(t, exitDone, append([]string{"explain", "--html", path}, args...)...)
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return path, string(raw)
}

func pageURL(path string) string { return "file://" + filepath.ToSlash(path) }

func TestPageOutputs(t *testing.T) {
	path := filepath.Join(t.TempDir(), "page.html")
	if said := want(t, exitDone, "explain", realLayer, "--html", path).stdout; !strings.Contains(said, "wrote "+path) {
		t.Errorf("stdout is %q, want where the page is", said)
	}
	written, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got := want(t, exitDone, "explain", realLayer, "--html=-").stdout; got != string(written) {
		t.Errorf("--html=- writes %d bytes, a file gets %d", len(got), len(written))
	}
	if lines := objects(t, want(t, exitDone, "explain", realLayer, "--json", "--html", path).stdout); len(lines) != 1 || lines[0]["ok"] != true {
		t.Errorf("--json beside --html prints %v", lines)
	}
	if lines := objects(t, want(t, exitDone, "explain", "--json", "--html", path).stdout); len(lines) != 4 {
		t.Errorf("--json beside --html prints %d examples, want 4", len(lines))
	}
}

func TestPageRefuses(t *testing.T) {
	file := goodFile().write(t, filepath.Join(t.TempDir(), "good.safetensors"))
	before, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	refuses(t, []string{"input file itself"}, "explain", file, "--html", file)
	refuses(t, []string{"directory"}, "explain", file, "--html", t.TempDir())
	refuses(t, []string{"missing", "cannot be written"}, "explain", "--html", filepath.Join(t.TempDir(), "missing", "page.html"))
	refuses(t, []string{"--html=-", "--json"}, "explain", file, "--html=-", "--json")
	refuses(t, []string{"--splits", "129", "128"}, "explain", file, "--html=-", "--splits=129")
	if after, err := os.ReadFile(file); err != nil || string(after) != string(before) {
		t.Errorf("the input has changed, %v", err)
	}
}

// TestHeaviestKeys: those that a stable sort would put first.
func TestHeaviestKeys(t *testing.T) {
	for seed := range 200 {
		var all, top []explain.Key
		for i := range seed % 40 {
			k := explain.Key{Pos: i, Weight: number(i * (seed + 7) % 11)}
			if i%13 == 5 {
				k.Weight = number(math.NaN())
			}
			all, top = append(all, k), withHeavy(top, k)
		}
		all = slices.DeleteFunc(all, func(k explain.Key) bool { return !(k.Weight > 0) })
		slices.SortStableFunc(all, func(a, b explain.Key) int { return cmp.Compare(b.Weight, a.Weight) })
		if all = all[:min(len(all), maxTop)]; !slices.Equal(all, top) {
			t.Fatalf("%v, want %v", top, all)
		}
	}
}

// hostile are texts that a page, a terminal or a reader's eye could be misled by.
var hostile = []string{
	`</script><script>alert(1)</script>`, `<img src=x onerror=alert(1)>`, `--><b>`, "\u202egnp.exe\u2066", "line\nbreak\r\x00\x1b[31m",
	`{{.Title}}`, `" onmouseover="alert(1)`, `</style><!--`, "\u2028\u2029", strings.Repeat("long ", 1000),
}

// hostileFile has such texts wherever a file can have text, one key each.
func hostileFile(t *testing.T) string {
	t.Helper()
	n := len(hostile)
	f := &testFile{map[string]tensorfile.Tensor{}, map[string]string{"name": hostile[0] + hostile[3], "text": hostile[1] + hostile[2]}}
	f.put("q", 1, 1, 1, 4)
	f.put("k", 1, 1, n, 4)
	f.put("v", 1, 1, n, 3)
	pieces, err := json.Marshal(hostile)
	if err != nil {
		t.Fatal(err)
	}
	f.metadata["pieces"] = string(pieces)
	return f.write(t, filepath.Join(t.TempDir(), "a<b>&'\"\u202e.safetensors"))
}

func TestPageEscapesFiles(t *testing.T) {
	_, text := pageOf(t, hostileFile(t))
	for _, part := range []string{"<script>alert", "<img", "--><b>", "\u202e", "\u2066", "\x00", "\x1b", "\u2028", `" onmouseover`, "<!--"} {
		if strings.Contains(text, part) {
			t.Errorf("the page holds %q", part)
		}
	}
	if !strings.Contains(text, "{{.Title}}") || !strings.Contains(text, "line⏎") {
		t.Error("a harmless text is missing")
	}
	if all, scoped := strings.Count(text, "<th "), strings.Count(text, `<th scope="`); all != scoped || strings.Contains(text, "<th>") {
		t.Errorf("%d headers of tables, %d with a scope", all, scoped)
	}
	if n := strings.Count(text, "<script"); n != 2 {
		t.Errorf("%d scripts, want the data and the page's own", n)
	}
	if len(text) > 200_000 {
		t.Errorf("%d bytes for %d keys", len(text), len(hostile))
	}
}

// largeFile has many keys, or wide values, or much text.
func largeFile(t *testing.T, keys, dim int, text bool) string {
	t.Helper()
	f := &testFile{map[string]tensorfile.Tensor{}, map[string]string{}}
	f.put("q", 1, 1, 1, 8)
	f.put("k", 1, 1, keys, 8)
	f.put("v", 1, 1, keys, dim)
	if text {
		pieces := make([]string, keys)
		for i := range pieces {
			pieces[i] = fmt.Sprintf("<%d> %s", i, strings.Repeat("<", 60))
		}
		raw, err := json.Marshal(pieces)
		if err != nil {
			t.Fatal(err)
		}
		f.metadata["pieces"] = string(raw)
	}
	return f.write(t, filepath.Join(t.TempDir(), "large.safetensors"))
}

func TestPageStaysSmall(t *testing.T) {
	for _, c := range []struct {
		keys, dim int
		text      bool
	}{{1 << 17, 16, false}, {1 << 17, 4, true}, {4096, 2, true}, {2000, 1000, false}, {256, 128, true}} {
		if testing.Short() && c.keys > 1<<16 {
			continue
		}
		_, text := pageOf(t, largeFile(t, c.keys, c.dim, c.text), "--splits=128")
		if len(text) > 2_000_000 {
			t.Errorf("%d keys of dim %d, text %v: %d bytes, want at most 2 MB", c.keys, c.dim, c.text, len(text))
		}
	}
}

// cancellingFile has large values that cancel nearly all, beside an ordinary score.
func cancellingFile(t *testing.T) string {
	t.Helper()
	const n = 600
	f := &testFile{map[string]tensorfile.Tensor{}, map[string]string{}}
	f.put("q", 1, 1, 1, 4)
	k, v := make([]float32, 4*n), make([]float32, 3*n)
	for i := range n {
		for d := range 4 {
			k[4*i+d] = float32(math.Sin(float64(i/2*4 + d)))
		}
		for d := range 3 {
			v[3*i+d] = float32(1e12 * math.Cos(float64(i/2*3+d)) * float64(1-i%2*2))
		}
	}
	f.tensors["k"], f.tensors["v"] = singles("k", k, []int{1, 1, n, 4}), singles("v", v, []int{1, 1, n, 3})
	return f.write(t, filepath.Join(t.TempDir(), "cancelling.safetensors"))
}

// TestExplainCancellingValues: what is lost where values cancel is no failure.
func TestExplainCancellingValues(t *testing.T) {
	for _, splits := range []string{"--splits=1", "--splits=7", "--splits=600"} {
		want(t, exitDone, "explain", cancellingFile(t), splits)
	}
}

// check fails unless a page's own comparison came out well, in silence, and without
// asking for anything but the page.
func (b *browser) check(t *testing.T, what, url string) {
	t.Helper()
	if verdict := b.text(`document.getElementById("verdict").dataset.check`); verdict != "ok" {
		t.Errorf("%s: the page's own verdict is %q: %s", what, verdict, b.text(`document.getElementById("checks").innerText`))
	}
	if len(b.said) > 0 {
		t.Errorf("%s: the browser complains: %v", what, b.said)
	}
	if len(b.asked) != 1 || b.asked[0] != url {
		t.Errorf("%s: the page asked for %v, want itself alone", what, b.asked)
	}
}

func TestPageChecksItself(t *testing.T) {
	b := startBrowser(t)
	rows := [][]string{{}, {realLayer, "--head=5"}, {realLayer, "--splits=128"}}
	files, err := caseFiles([]string{attentionDir, capturedDir})
	if err != nil {
		t.Fatal(err)
	}
	for i, file := range files {
		if !testing.Short() || i%8 == 0 {
			rows = append(rows, []string{file.path, fmt.Sprintf("--splits=%d", 1+i%9)})
		}
	}
	rules := goodFile().write(t, filepath.Join(t.TempDir(), "rules.safetensors"))
	for _, row := range []string{"--query=0", "--query=2", "--head=3", "--seq=1"} {
		rows = append(rows, []string{rules, row})
	}
	odd := goodFile()
	x := []float32{0, 1, float32(math.NaN()), float32(math.Inf(1)), 3, -2, 0, float32(math.Inf(-1)), 1}
	odd.tensors = map[string]tensorfile.Tensor{
		"q": singles("q", []float32{1}, []int{1, 1, 1, 1}), "k": singles("k", x[4:], []int{1, 1, 5, 1}), "v": singles("v", x[:5], []int{1, 1, 5, 1}),
		"sinks": singles("sinks", x[7:8], []int{1}),
	}
	odd.metadata = nil
	rows = append(rows, []string{cancellingFile(t), "--splits=7"}, []string{hostileFile(t)}, []string{largeFile(t, 5000, 300, true)}, []string{odd.write(t, filepath.Join(t.TempDir(), "odd.safetensors"))})
	for _, args := range rows {
		path, _ := pageOf(t, args...)
		b.open(pageURL(path))
		b.check(t, strings.Join(args, " "), pageURL(path))
	}
}

// TestPageChecksSomething: a page whose numbers are not flashdec's says so.
func TestPageChecksSomething(t *testing.T) {
	b := startBrowser(t)
	path, text := pageOf(t)
	for _, wrong := range []struct{ from, to string }{
		{`"directLSE":1.2`, `"directLSE":1.3`},
		{`"states":[{"m":0.165`, `"states":[{"m":0.166`},
		{`"merged":{"m":0.165`, `"merged":{"m":0.165001`},
		{`"steps":[{"m":0.12`, `"steps":[{"m":0.13`},
	} {
		if strings.Count(text, wrong.from) != 1 {
			t.Fatalf("the page has no single %s", wrong.from)
		}
		if err := os.WriteFile(path, []byte(strings.Replace(text, wrong.from, wrong.to, 1)), 0o600); err != nil {
			t.Fatal(err)
		}
		b.open(pageURL(path))
		if verdict := b.text(`document.getElementById("verdict").dataset.check`); verdict != "failed" {
			t.Errorf("with %s the page's own verdict is %q", wrong.to, verdict)
		}
	}
}

// TestPageSlider moves the slider by keys and by its buttons, and compares what the
// page then shows with the command's own numbers for as many splits.
func TestPageSlider(t *testing.T) {
	b := startBrowser(t)
	file := filepath.Join(attentionDir, "sinks_window_128.safetensors")
	path, _ := pageOf(t, file, "--splits=3")
	b.open(pageURL(path))
	at := func(n int) {
		t.Helper()
		if got := b.text(`document.getElementById("number").textContent + "/" + document.getElementById("splits").value`); got != fmt.Sprintf("%d/%[1]d", n) {
			t.Fatalf("the slider stands at %s, want %d", got, n)
		}
		x := objects(t, want(t, exitDone, "explain", file, fmt.Sprintf("--splits=%d", n), "--json").stdout)[0]
		states := x["states"].([]any)
		if rows := b.number(`document.querySelectorAll("#states tr").length`); int(rows) != len(states) {
			t.Fatalf("%d splits: %v rows of states, want %d", n, rows, len(states))
		}
		for i, s := range states {
			state := s.(map[string]any)
			said := fmt.Sprintf("%v–%v %.4f %.4f", state["begin"], state["end"].(float64)-1, state["m"], state["l"])
			if n == 128 {
				said = fmt.Sprintf("%v %.4f %.4f", state["begin"], state["m"], state["l"])
			}
			said = strings.ReplaceAll(said, "-", "−")
			if got := b.text(fmt.Sprintf(`[...document.querySelectorAll("#states tr")[%d].children].slice(0, 3).map((c) => c.textContent).join(" ")`, i)); got != said {
				t.Errorf("%d splits: state %d is told as %q, want %q", n, i, got, said)
			}
		}
		live := b.text(`document.getElementById("result").textContent`)
		for _, say := range []string{fmt.Sprintf("%d split", n), fmt.Sprintf("LSE = %.4f", x["lse"])} {
			if !strings.Contains(live, say) {
				t.Errorf("%d splits: the live line is %q, want it to say %q", n, live, say)
			}
		}
		if said := b.text(`document.getElementById("splits").getAttribute("aria-valuetext")`); !strings.HasPrefix(said, fmt.Sprintf("%d split", n)) {
			t.Errorf("%d splits: the slider says %q", n, said)
		}
	}
	at(3)
	var tree struct {
		Nodes []struct {
			Role, Name, Value struct{ Value any }
			Properties        []struct {
				Name  string
				Value struct{ Value any }
			}
		}
	}
	b.call("Accessibility.getFullAXTree", nil, &tree)
	slider := ""
	for _, n := range tree.Nodes {
		if n.Role.Value == "slider" {
			slider += fmt.Sprintf("%v: %v", n.Name.Value, n.Value.Value)
			for _, p := range n.Properties {
				if p.Name == "valuemax" {
					slider += fmt.Sprint(" of ", p.Value.Value)
				}
			}
		}
	}
	if slider != "Number of splits: 3 of 128" {
		t.Errorf("a screen reader is told of the slider %q", slider)
	}
	b.eval(`document.getElementById("splits").focus() || true`, new(bool))
	for _, step := range []struct {
		key     string
		code, n int
	}{{"ArrowRight", 39, 4}, {"ArrowLeft", 37, 3}, {"End", 35, 128}, {"Home", 36, 1}} {
		b.press(step.key, step.code)
		at(step.n)
	}
	b.eval(`document.getElementById("more").click() || true`, new(bool))
	at(2)
	b.eval(`document.getElementById("fewer").click() || true`, new(bool))
	at(1)
	if !strings.Contains(b.text(`document.activeElement.id`), "splits") {
		t.Error("the slider has lost the focus")
	}
	b.check(t, file, pageURL(path))
}

// tooFaint lists the texts of a page whose contrast is below 4.5, as WCAG 2 counts it.
const tooFaint = `(() => {
	const parse = (c) => c.match(/[\d.]+/g).map(Number);
	const light = (c) => { const [r, g, b] = parse(c).map((x) => (x /= 255) <= .04045 ? x / 12.92 : ((x + .055) / 1.055) ** 2.4); return .2126 * r + .7152 * g + .0722 * b; };
	const behind = (e) => { for (; e; e = e.parentElement) { const c = getComputedStyle(e).backgroundColor, p = parse(c); if (p.length === 3 || p[3] === 1) return c; } return "rgb(0,0,0)"; };
	const found = [];
	const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
	while (walk.nextNode()) {
		const e = walk.currentNode.parentElement;
		if (!walk.currentNode.textContent.trim() || ["SCRIPT", "STYLE"].includes(e.tagName) || e.disabled) continue;
		const [a, b] = [light(getComputedStyle(e).color), light(behind(e))];
		const ratio = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
		if (ratio < 4.5) found.push(e.tagName + "." + e.className + " " + ratio.toFixed(2));
	}
	return [...new Set(found)].join(", ");
})()`

// unnamed lists what a reader who does not see the page would miss.
const unnamed = `(() => {
	const found = [];
	const say = (ok, what) => ok || found.push(what);
	say(document.documentElement.lang === "en", "language");
	say(document.title.length > 0, "title");
	let level = 0;
	for (const h of document.querySelectorAll("h1, h2, h3, h4, h5, h6")) { const n = Number(h.tagName[1]); say(n <= level + 1, "heading " + h.textContent); level = n; }
	say(document.querySelectorAll("h1").length === 1, "one h1");
	for (const t of document.querySelectorAll("table")) say(t.caption && t.caption.textContent.trim(), "caption");
	for (const th of document.querySelectorAll("th")) say(["row", "col"].includes(th.scope), "scope of " + th.textContent);
	for (const s of document.querySelectorAll("svg")) say(s.getAttribute("aria-hidden") === "true" || s.getAttribute("role") === "img" && s.getAttribute("aria-label"), "name of a picture");
	for (const s of document.querySelectorAll("[tabindex], section")) say(s.getAttribute("aria-label") || document.getElementById(s.getAttribute("aria-labelledby")), "name of a region");
	for (const i of document.querySelectorAll("input")) say(i.labels.length > 0, "label");
	for (const e of document.querySelectorAll("[id]")) say(document.querySelectorAll("#" + CSS.escape(e.id)).length === 1, "id " + e.id);
	say(document.getElementById("result").getAttribute("aria-live") === "polite", "live result");
	return found.join(", ");
})()`

// weightsWidth is the width from which all columns of the most weighted keys are in view,
// where tokens are words.
const weightsWidth = 480

func TestPageLooks(t *testing.T) {
	b := startBrowser(t)
	for name, args := range map[string][]string{"examples": {}, "layer19": {"../../testdata/real/layer19.safetensors", "--head=5"}, "context": {largeFile(t, 5000, 16, true)}} {
		path, _ := pageOf(t, args...)
		for _, look := range []struct {
			scheme string
			width  int
		}{{"light", 1100}, {"dark", 1100}, {"light", weightsWidth}, {"light", 360}, {"dark", 360}} {
			b.prefer(look.scheme, look.width)
			b.open(pageURL(path))
			what := fmt.Sprintf("%s-%s-%d", name, look.scheme, look.width)
			if found := b.text(tooFaint); found != "" {
				t.Errorf("%s: too faint: %s", what, found)
			}
			if wide := b.number(`document.documentElement.scrollWidth`); int(wide) > look.width {
				t.Errorf("%s: the page is %v wide", what, wide)
			}
			if right := b.number(`document.getElementById("top-caption").closest("table").getBoundingClientRect().right`); name != "context" && look.width >= weightsWidth && int(right) > look.width {
				t.Errorf("%s: the column of weights ends at %v", what, right)
			}
			if found := b.text(unnamed); found != "" {
				t.Errorf("%s: without a name: %s", what, found)
			}
			if *pictures != "" {
				keep(t, b, "body", what)
			}
		}
	}
}

// TestPagePicture makes docs/explain.png, the part of the page with the slider:
//
//	go test ./cmd/flashdec -run TestPagePicture -pictures ../../docs
func TestPagePicture(t *testing.T) {
	b := startBrowser(t)
	path, _ := pageOf(t, "../../testdata/real/layer19.safetensors", "--head=5", "--splits=4")
	b.prefer("light", 1000)
	b.open(pageURL(path))
	keep(t, b, "#cut", "explain")
}

// keep takes a picture of a part of the page, and keeps it if pictures are wanted.
func keep(t *testing.T, b *browser, part, name string) {
	t.Helper()
	picture, err := b.screenshot(part)
	if err != nil {
		t.Fatal(err)
	}
	if image, err := png.DecodeConfig(bytes.NewReader(picture)); err != nil || image.Width < 300 || image.Height < 300 {
		t.Errorf("%s: a picture of %d × %d, %v", name, image.Width, image.Height, err)
	}
	if *pictures != "" {
		if err := os.WriteFile(filepath.Join(*pictures, name+".png"), picture, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
