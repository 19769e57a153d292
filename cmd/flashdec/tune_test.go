package main

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/flashdec/flashdec"
	"github.com/flashdec/flashdec/attn"
	"github.com/flashdec/flashdec/internal/cpu"
	"github.com/flashdec/flashdec/internal/tune"
	"github.com/flashdec/flashdec/kv"
)

// cacheVariables say where a user's folder for caches is, one a system.
var cacheVariables = []string{"XDG_CACHE_HOME", "HOME", "LocalAppData"}

// noCache gives a test a folder for caches of its own, in which nothing is tuned.
func noCache(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	for _, name := range cacheVariables {
		t.Setenv(name, dir)
	}
}

// tunedTo keeps an entry for this machine's CPU: 2 threads, the head dim 64, groups of
// 3 and f16 of the real layer.
func tunedTo(t *testing.T, minKeys, helperWork int) (path string) {
	t.Helper()
	noCache(t)
	dir, err := tune.Dir()
	if err != nil {
		t.Fatal(err)
	}
	key := tune.KeyOf(cpu.New(cpu.Options{Threads: 2}).Info(), 64, 64, 3, [2]kv.DType{kv.F16, kv.F16})
	if err := tune.Save(dir, tune.Entry{Key: key, MinKeysPerSplit: minKeys, HelperWork: helperWork, Saved: 0.1, Tuned: "2026-11-29"}); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(files) != 1 {
		t.Fatalf("%v, %v, want one file", files, err)
	}
	return files[0]
}

const layer = "../../testdata/real/layer19.safetensors"

// users are the verbs that use what was tuned, for the class of tunedTo.
var users = [][]string{
	{"run", layer, "--threads=2"},
	{"trace", layer, "--threads=2", "--rounds=1"},
	{"plan", "--lens=1475", "--q-heads=9", "--kv-heads=3", "--head-dim=64", "--width=2"},
}

// TestTunedValuesAreUsedAndTold: each verb says so, and not when it is told not
// to, when it computes something else, or when nothing was kept.
func TestTunedValuesAreUsedAndTold(t *testing.T) {
	tunedTo(t, 1024, 1<<19)
	for _, args := range users {
		r := want(t, exitDone, args...)
		fits(t, r.stdout)
		if !strings.Contains(strings.Join(strings.Fields(r.stdout), " "), "on 2026-11-29") {
			t.Errorf("%v does not say that it was tuned:\n%s", args, r.stdout)
		}
		if !strings.Contains(strings.Join(strings.Fields(r.stdout), " "), "least 1024 keys") {
			t.Errorf("%v does not say to what:\n%s", args, r.stdout)
		}
		for _, other := range [][]string{{"--no-tuned"}, {"--kv-dtype=f32"}} {
			if r := want(t, exitDone, append(slices.Clone(args), other...)...); strings.Contains(r.stdout, "2026-11-29") {
				t.Errorf("%v %v says that it was tuned:\n%s", args, other, r.stdout)
			}
		}
	}
	noCache(t)
	for _, args := range users {
		if r := want(t, exitDone, args...); strings.Contains(r.stdout, "tuned") || r.errs != "" {
			t.Errorf("%v with nothing kept:\n%s%s", args, r.stdout, r.errs)
		}
	}
}

// TestTunedPlans: the least number of keys reaches the plan, and neither forced
// splits nor invariant mode.
func TestTunedPlans(t *testing.T) {
	tunedTo(t, 700, 0)
	base := []string{"run", layer, "--threads=2", "--json"}
	for arg, splits := range map[string]float64{"--tuned": 2, "--splits=5": 5, "--invariant": 4} {
		if got := objects(t, want(t, exitDone, append(slices.Clone(base), arg)...).stdout)[0]["splits"]; got != splits {
			t.Errorf("%s: %v splits, want %v", arg, got, splits)
		}
	}
	tunedTo(t, 1024, 0)
	if got := objects(t, want(t, exitDone, base...).stdout)[0]; got["splits"] != 1.0 || !strings.HasPrefix(got["tuned"].(string), "on 2026-11-29, splits of at least 1024 keys") {
		t.Errorf("%v splits, tuned %v; want none of 1475 keys", got["splits"], got["tuned"])
	}
}

// TestTunedWorkWakesHelpers: where a helper is worth waking for far more than the
// step, the caller does all of it.
func TestTunedWorkWakesHelpers(t *testing.T) {
	tunedTo(t, 64, 1<<30)
	r := objects(t, want(t, exitDone, "trace", "--lens=50000", "--q-heads=9", "--kv-heads=3", "--head-dim=64", "--mb=64", "--threads=2", "--splits=8", "--rounds=3", "--json").stdout)[0]
	for _, x := range r["decodes"].([]any) {
		d := x.(map[string]any)
		if first := d["workers"].([]any)[0].(map[string]any); first["items"] != d["items"] {
			t.Errorf("worker 0 has %v of %v items, want all", first["items"], d["items"])
		}
	}
}

// TestTunedForAGPU: what was found for a GPU reaches its plans, and its backend stays
// open.
func TestTunedForAGPU(t *testing.T) {
	noCache(t)
	dir, err := tune.Dir()
	if err != nil {
		t.Fatal(err)
	}
	types := [2]kv.DType{kv.F16, kv.BF16}
	key := tune.KeyOf(fakeGPU{}.Info(), 128, 128, 4, types)
	if err := tune.Save(dir, tune.Entry{Key: key, MinKeysPerSplit: 1024, Saved: 0.1, Tuned: "2026-11-29"}); err != nil {
		t.Fatal(err)
	}
	u := tunedFlag{Tuned: true}.tuner(&terminal{})
	found := u.find(fakeGPU{}.Info(), 128, 128, 4, types)
	if told := found.tells(); told != "on 2026-11-29, splits of at least 1024 keys" {
		t.Errorf("told %q", told)
	}
	b, eng, err := found.on(fakeGPU{})
	if err != nil || b != (fakeGPU{}) {
		t.Fatalf("%v, %v, want the same GPU", b, err)
	}
	shape := attn.Shape{NumHeads: 4, NumKVHeads: 1, KeyDim: 128, ValueDim: 128}
	step, err := eng.Plan(flashdec.Batch{Shape: shape, Lens: []int{3000}})
	if err != nil || step.Plan().MaxSplits() != 2 {
		t.Errorf("%v, %v, want 3000 keys in two splits of at least 1024", step, err)
	}
	if other := u.find(fakeGPU{}.Info(), 64, 64, 4, types); other.source() != "" {
		t.Errorf("another class is %+v", other)
	}
}

// TestBenchTellsWhatIsTuned, in each row of its own ways.
func TestBenchTellsWhatIsTuned(t *testing.T) {
	noCache(t)
	dir, err := tune.Dir()
	if err != nil {
		t.Fatal(err)
	}
	key := tune.KeyOf(cpu.New(cpu.Options{Threads: 2}).Info(), 128, 128, 4, [2]kv.DType{kv.F16, kv.F16})
	if err := tune.Save(dir, tune.Entry{Key: key, MinKeysPerSplit: 32, Tuned: "2026-11-29"}); err != nil {
		t.Fatal(err)
	}
	args := []string{"bench", "--suite=window", "--match=1024", "--mb=8", "--rounds=1", "--threads=2"}
	rows := objects(t, want(t, exitDone, append(slices.Clone(args), "--json")...).stdout)
	if len(rows) < 4 {
		t.Fatalf("%d rows, want one of each way at least", len(rows))
	}
	for _, row := range rows {
		told, _ := row["tuned"].(string)
		ours := row["impl"] == "flashdec" || row["impl"] == "unsplit"
		if ours != strings.Contains(told, "on 2026-11-29") {
			t.Errorf("%v: tuned %q", row["impl"], told)
		}
	}
	if text := want(t, exitDone, args...).stdout; !strings.Contains(text, "\ntuned on 2026-11-29") {
		t.Errorf("the table does not tell:\n%s", text)
	}
	if text := want(t, exitDone, append(slices.Clone(args), "--no-tuned")...).stdout; strings.Contains(text, "tuned") {
		t.Errorf("the table tells of what is not used:\n%s", text)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(files) != 1 {
		t.Fatalf("%v, %v, want one file", files, err)
	}
	if err := os.WriteFile(files[0], nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if r := want(t, exitDone, args...); strings.Count(r.errs, "\n") != 1 || strings.Contains(r.stdout, "tuned") {
		t.Errorf("damaged: stderr %q, want one line for all cases", r.errs)
	}
}

// TestBuiltInIsToldAsFound: where tune found nothing better, verbs say that, and do not advise to tune.
func TestBuiltInIsToldAsFound(t *testing.T) {
	tunedTo(t, 0, 0)
	told := want(t, exitDone, "run", layer, "--threads=2").stdout
	fits(t, told)
	words := strings.Join(strings.Fields(told), " ")
	for _, say := range []string{"tuned on 2026-11-29: what is built in is kept", "(built in: flashdec tune found nothing better on 2026-11-29)"} {
		if !strings.Contains(words, say) {
			t.Errorf("run does not say %q:\n%s", say, told)
		}
	}
	tunedTo(t, 0, 1<<22)
	if told := strings.Join(strings.Fields(want(t, exitDone, "run", layer, "--threads=2").stdout), " "); !strings.Contains(told, "4.2 million (as flashdec tune found on 2026-11-29)") {
		t.Errorf("run does not say where the work is from:\n%s", told)
	}
}

// TestTuneTellsOfChance: a choice that rounds differ too much for is told of in a line, what to do among it; a clear one
// is not, and shows how far it may be off.
func TestTuneTellsOfChance(t *testing.T) {
	cmd := &tuneCmd{Seconds: 30}
	class := tune.Class{Dim: 128, Group: 4, DType: kv.F16}
	for _, c := range []struct {
		saved, noise float64
		shown, told  string
	}{
		{0.3, 0.01, "30.0% ±1.0%", ""},
		{0.3, 0, "30.0%", ""},
		{0, 0.25, "0.0% ±25.0%", "flashdec: head dim 128, groups of 4, f16: uncertain, what is built in may not be best: rounds differed, so that what is saved may be off by 25.0%; tune again while nothing else runs, or with more --seconds than 30\n"},
		{0.1, 0.25, "10.0% ±25.0%", "flashdec: head dim 128, groups of 4, f16: uncertain, what was chosen may save nothing: rounds differed, so that what is saved may be off by 25.0%; tune again while nothing else runs, or with more --seconds than 30\n"},
	} {
		e := tune.Entry{Saved: c.saved, Noise: c.noise}
		var errs strings.Builder
		cmd.tellUncertain(newTerminal(io.Discard, &errs), class, e)
		if errs.String() != c.told || saves(e) != c.shown {
			t.Errorf("%v ±%v: shown %q, told %q, want %q and %q", c.saved, c.noise, saves(e), &errs, c.shown, c.told)
		}
	}
}

// TestDamagedTuningIsPassedOver: one line on stderr, and the same result as
// without.
func TestDamagedTuningIsPassedOver(t *testing.T) {
	path := tunedTo(t, 64, 1)
	for _, text := range []string{"", "{", `{"version":7}`, "\x1b[2J", strings.Repeat("[", 1<<13)} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, args := range users {
			r := want(t, exitDone, args...)
			if strings.Count(r.errs, "\n") != 1 || !strings.Contains(r.errs, "going on with what is built in") || strings.ContainsRune(r.errs, '\x1b') {
				t.Errorf("%v with %.20q kept: stderr %q, want one line", args, text, r.errs)
			}
			if strings.Contains(r.stdout, "tuned") {
				t.Errorf("%v uses what is damaged:\n%s", args, r.stdout)
			}
		}
	}
}

// TestTune measures a class for a moment, shows what was kept, and forgets it.
func TestTune(t *testing.T) {
	noCache(t)
	measured := want(t, exitDone, "tune", "--head-dim=16", "--group=1", "--threads=2", "--seconds=0.1", "--json").stdout
	list := objects(t, measured)
	if len(list) != 1 || list[0]["key_dim"] != 16.0 || list[0]["group"] != 1.0 || list[0]["kv_bits"] != 16.0 || list[0]["threads"] != 2.0 {
		t.Errorf("measured %v, want the class asked for", list)
	}
	if shown := want(t, exitDone, "tune", "--show", "--json").stdout; shown != measured {
		t.Errorf("shown\n%s\nmeasured\n%s", shown, measured)
	}
	text := want(t, exitDone, "tune", "--show").stdout
	fits(t, text)
	for _, say := range []string{"cpu: ", "2 threads", "head dim", "keys a split", "one more thread is woken for each", "16 "} {
		if !strings.Contains(text, say) {
			t.Errorf("the table lacks %q:\n%s", say, text)
		}
	}
	if r := want(t, exitDone, "tune", "--forget"); r.stdout != "forgot 1 measurement\n" {
		t.Errorf("%q", r.stdout)
	}
	if r := want(t, exitDone, "tune", "--show"); !strings.Contains(r.stdout, "Nothing has been tuned") {
		t.Errorf("%q after all was forgotten", r.stdout)
	}
}

// TestTuneShowsWhatIsDamaged on stderr, and the rest on stdout.
func TestTuneShowsWhatIsDamaged(t *testing.T) {
	path := tunedTo(t, 64, 1)
	if err := os.WriteFile(filepath.Join(filepath.Dir(path), "tuned-bad.json"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := want(t, exitDone, "tune", "--show", "--json")
	if len(objects(t, r.stdout)) != 1 || strings.Count(r.errs, "\n") != 1 || !strings.Contains(r.errs, "tuned-bad.json") {
		t.Errorf("stdout %q, stderr %q; want one entry, and a word about the other", r.stdout, r.errs)
	}
}

func TestTuneRefuses(t *testing.T) {
	noCache(t)
	for _, c := range []struct {
		args  []string
		words []string
	}{
		{[]string{"tune", "--seconds=0"}, []string{"--seconds", "0"}},
		{[]string{"tune", "--seconds=1e-9"}, []string{"--seconds is 1e-09, want 0.1 to 3600"}},
		{[]string{"tune", "--seconds=NaN"}, []string{"--seconds", "NaN"}},
		{[]string{"tune", "--threads=-1"}, []string{"--threads", "-1"}},
		{[]string{"tune", "--head-dim=0"}, []string{"--head-dim", "0", "1024"}},
		{[]string{"tune", "--head-dim=1000000"}, []string{"--head-dim", "1000000", "1024"}},
		{[]string{"tune", "--group=129"}, []string{"--group", "129", "128"}},
		{[]string{"tune", "--kv-dtype=f8"}, []string{"--kv-dtype", "f8"}},
		{[]string{"tune", "--kv-dtype=int4", "--head-dim=33"}, []string{"--head-dim", "33", "int4"}},
		{[]string{"tune", "--group=1,2,3,4,5,6,7,8,9", "--head-dim=1,2,3,4,5,6,7,8"}, []string{"72 classes", "64"}},
		{[]string{"tune", "--backend=cuda", "--threads=2"}, []string{"--threads is 2", "only the CPU"}},
		{[]string{"tune", "--show", "--forget"}, []string{"--show", "--forget"}},
	} {
		t.Run(strings.Join(c.args, " "), func(t *testing.T) { refuses(t, c.words, c.args...) })
	}
}

// TestTunePrintsWhatItCannotKeep: half a minute's measurement is not lost with the folder for it.
func TestTunePrintsWhatItCannotKeep(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file") // where a folder would have to be
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range cacheVariables {
		t.Setenv(name, file)
	}
	args := []string{"tune", "--seconds=0.2", "--group=1,2", "--head-dim=32", "--threads=1"}
	r := want(t, exitBadInput, args...)
	if !strings.Contains(r.stdout, "keys a split") || strings.Contains(r.stdout, "kept in") || !strings.Contains(r.errs, "cannot be kept") {
		t.Errorf("tune printed %q and %q, want a table, and that it is not kept", r.stdout, r.errs)
	}
	r = want(t, exitBadInput, append(args, "--json")...)
	if lines := objects(t, r.stdout); len(lines) != 1 || lines[0]["kv_bits"] == nil {
		t.Errorf("tune --json printed %v, want the class that was measured", lines)
	}
}
