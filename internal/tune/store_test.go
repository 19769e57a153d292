package tune_test

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/flashdec/flashdec/internal/tune"
)

func entry(group int) tune.Entry {
	return tune.Entry{
		Version: 1,
		Key: tune.Key{
			Device: "a “processor”", Backend: "cpu", Kernel: "generic", Threads: 16,
			KeyDim: 128, ValueDim: 64, Group: group, KVBits: 16,
		},
		MinKeysPerSplit: 512, HelperWork: 1 << 19, Saved: 0.2, Noise: 0.01, Tuned: "2026-11-30",
	}
}

// saved is a folder with one entry, and that entry's file.
func saved(t *testing.T) (dir, path string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "not", "there", "yet")
	if err := tune.Save(dir, entry(4)); err != nil {
		t.Fatal(err)
	}
	list, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(list) != 1 {
		t.Fatalf("the folder holds %v, %v, want one file", list, err)
	}
	return dir, list[0]
}

func TestSavedIsLoaded(t *testing.T) {
	dir, _ := saved(t)
	got, found, err := tune.Load(dir, entry(4).Key)
	if err != nil || !found || !reflect.DeepEqual(got, entry(4)) {
		t.Errorf("%+v, %t, %v; want what was saved", got, found, err)
	}
	for _, change := range []func(*tune.Key){
		func(k *tune.Key) { k.Device = "another" },
		func(k *tune.Key) { k.Backend = "cuda" },
		func(k *tune.Key) { k.Kernel = "avx2" },
		func(k *tune.Key) { k.Threads = 8 },
		func(k *tune.Key) { k.KeyDim = 64 },
		func(k *tune.Key) { k.ValueDim = 128 },
		func(k *tune.Key) { k.Group = 8 },
		func(k *tune.Key) { k.KVBits = 32 },
	} {
		k := entry(4).Key
		change(&k)
		if _, found, err := tune.Load(dir, k); found || err != nil {
			t.Errorf("%+v: found %t, %v; nothing is known of it", k, found, err)
		}
	}
	if _, found, err := tune.Load(filepath.Join(dir, "nowhere"), entry(4).Key); found || err != nil {
		t.Errorf("no folder: found %t, %v", found, err)
	}
}

// TestSaveReplaces: the later measurement counts.
func TestSaveReplaces(t *testing.T) {
	dir, path := saved(t)
	e := entry(4)
	e.MinKeysPerSplit = 1024
	if err := tune.Save(dir, e); err != nil {
		t.Fatal(err)
	}
	got, _, err := tune.Load(dir, e.Key)
	if list, _ := filepath.Glob(filepath.Join(dir, "*")); err != nil || got.MinKeysPerSplit != 1024 || len(list) != 1 || list[0] != path {
		t.Errorf("%+v, %v in %v; want the second value in the one file", got, err, list)
	}
}

// TestDamagedFilesAreOfNoUse: whatever a file holds, Load says that it is damaged
// and nothing of it is used.
func TestDamagedFilesAreOfNoUse(t *testing.T) {
	_, path := saved(t)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	replace := func(a, b string) string {
		text := strings.Replace(string(whole), a, b, 1)
		if text == string(whole) {
			t.Fatalf("%q is not in %s", a, whole)
		}
		return text
	}
	damage := map[string]string{
		"empty":             "",
		"garbage":           "\x00\xff\x7f{{{{",
		"another version":   replace(`"version": 1`, `"version": 2`),
		"no version":        replace(`"version": 1,`, ``),
		"another key":       replace(`"group": 4`, `"group": 8`),
		"an unknown field":  replace(`"version"`, `"surprise": 1, "version"`),
		"text after":        string(whole) + "{}",
		"few keys":          replace(`"min_keys_per_split": 512`, `"min_keys_per_split": 31`),
		"negative keys":     replace(`"min_keys_per_split": 512`, `"min_keys_per_split": -1`),
		"many keys":         replace(`"min_keys_per_split": 512`, `"min_keys_per_split": 1048577`),
		"a float":           replace(`"min_keys_per_split": 512`, `"min_keys_per_split": 512.5`),
		"beyond an int":     replace(`"helper_work": 524288`, `"helper_work": 99999999999999999999`),
		"negative work":     replace(`"helper_work": 524288`, `"helper_work": -1`),
		"much work":         replace(`"helper_work": 524288`, `"helper_work": 1073741825`),
		"all is saved":      replace(`"saved": 0.2`, `"saved": 1`),
		"negative noise":    replace(`"noise": 0.01`, `"noise": -0.01`),
		"no threads":        replace(`"threads": 16`, `"threads": 0`),
		"no day":            replace(`2026-11-30`, `\u001b[2Jyesterday`),
		"larger than large": string(whole) + strings.Repeat(" ", 1<<15),
	}
	for n := range len(whole) - 2 { // the last two are the brace and the line's end
		damage["cut at "+strings.Repeat("i", n)] = string(whole[:n])
	}
	for name, text := range damage {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		got, found, err := tune.Load(filepath.Dir(path), entry(4).Key)
		if !errors.Is(err, tune.ErrDamaged) || strings.Contains(err.Error(), "Go ") || strings.Contains(err.Error(), " json:") || found || got != (tune.Entry{}) {
			t.Errorf("%.30s: %+v, %t, %v; want ErrDamaged and nothing", name, got, found, err)
		}
		if err != nil && !strings.Contains(err.Error(), path) {
			t.Errorf("%.30s: %q does not name the file", name, err)
		}
		if list, bad, err := tune.List(filepath.Dir(path)); len(list) != 0 || len(bad) != 1 || err != nil {
			t.Errorf("%.30s: listed %v, %v, %v; want one bad file", name, list, bad, err)
		}
	}
}

// TestNotAFile: a folder in an entry's place is no entry.
func TestNotAFile(t *testing.T) {
	dir, path := saved(t)
	if err := errors.Join(os.Remove(path), os.Mkdir(path, 0o755)); err != nil {
		t.Fatal(err)
	}
	if _, found, err := tune.Load(dir, entry(4).Key); found || !errors.Is(err, tune.ErrDamaged) {
		t.Errorf("found %t, %v, want ErrDamaged", found, err)
	}
}

func TestSaveRefuses(t *testing.T) {
	for _, spoil := range []func(*tune.Entry){
		func(e *tune.Entry) { e.MinKeysPerSplit = 1 },
		func(e *tune.Entry) { e.Saved = math.NaN() },
		func(e *tune.Entry) { e.Noise = math.Inf(1) },
		func(e *tune.Entry) { e.HelperWork = -1 },
		func(e *tune.Entry) { e.Threads = 0 },
		func(e *tune.Entry) { e.Tuned = "" },
	} {
		dir, e := t.TempDir(), entry(4)
		spoil(&e)
		if err := tune.Save(dir, e); !errors.Is(err, tune.ErrDamaged) {
			t.Errorf("%+v: %v, want an error", e, err)
		}
		if list, _ := os.ReadDir(dir); len(list) != 0 {
			t.Errorf("%+v: a file was left behind", e)
		}
	}
}

// TestWritersAtOnce: processes that tune at the same time leave each class with
// one writer's entry, whole; readers beside them see one or the other.
func TestWritersAtOnce(t *testing.T) {
	dir := t.TempDir()
	var running sync.WaitGroup
	const writers, times = 8, 6
	for w := range writers {
		running.Go(func() {
			for range times {
				e := entry(1 + w%4)
				e.MinKeysPerSplit = 100 * (1 + w)
				if err := tune.Save(dir, e); err != nil {
					t.Error(err)
				}
				got, found, err := tune.Load(dir, e.Key)
				if err != nil || !found || got.MinKeysPerSplit != 100*(1+w) && got.MinKeysPerSplit != 100*(1+(w+4)%8) {
					t.Errorf("%+v, %t, %v beside other writers", got, found, err)
				}
			}
		})
	}
	running.Wait()
	list, bad, err := tune.List(dir)
	if len(list) != 4 || len(bad) != 0 || err != nil {
		t.Errorf("%d entries, %v, %v; want one of each of 4 classes", len(list), bad, err)
	}
	if names, _ := os.ReadDir(dir); len(names) != 4 {
		t.Errorf("%d files, want 4: nothing is left behind", len(names))
	}
}

// TestForget removes entries, whole and damaged, and no other file.
func TestForget(t *testing.T) {
	dir, path := saved(t)
	other := filepath.Join(dir, "other.json")
	for name, text := range map[string]string{filepath.Join(dir, "tuned-0.json"): "{", other: "mine"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := tune.Forget(dir); n != 2 || err != nil {
		t.Errorf("forgot %d, %v, want 2", n, err)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("the entry is still there")
	}
	if _, err := os.Stat(other); err != nil {
		t.Error(err)
	}
	if n, err := tune.Forget(filepath.Join(dir, "nowhere")); n != 0 || err != nil {
		t.Errorf("no folder: forgot %d, %v", n, err)
	}
}

// TestListOfWhatIsForgottenMeanwhile: a name whose file is gone is neither an entry nor damaged.
func TestListOfWhatIsForgottenMeanwhile(t *testing.T) {
	dir, path := saved(t)
	gone := filepath.Join(dir, "tuned-gone.json")
	if err := os.Symlink(path+".none", gone); err != nil {
		t.Skipf("no symbolic links here: %v", err)
	}
	if list, bad, err := tune.List(dir); len(list) != 1 || len(bad) != 0 || err != nil {
		t.Errorf("listed %v, %v, %v; want the one entry that is there", list, bad, err)
	}
}

// FuzzLoad: any content is an entry whose values can be used, or an error that
// wraps ErrDamaged.
func FuzzLoad(f *testing.F) {
	f.Add([]byte(`{"version":1,"device":"a “processor”","backend":"cpu","kernel":"generic","threads":16,"key_dim":128,"value_dim":64,"group":4,"kv_bits":16,"min_keys_per_split":32,"helper_work":1,"saved":0,"tuned":"2026-11-30"}`))
	f.Add([]byte(`{"version":1`))
	f.Add([]byte(`[]`))
	f.Fuzz(func(t *testing.T, text []byte) {
		dir, path := saved(t)
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		e, found, err := tune.Load(dir, entry(4).Key)
		if found != (err == nil) || err != nil && !errors.Is(err, tune.ErrDamaged) {
			t.Fatalf("%+v, %t, %v; want an entry or ErrDamaged", e, found, err)
		}
		if n := e.MinKeysPerSplit; n != 0 && (n < 32 || n > 1<<20) || e.HelperWork < 0 || e.HelperWork > 1<<30 {
			t.Fatalf("%+v is believed", e)
		}
	})
}
