package cuda

import (
	"errors"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/flashdec/flashdec/backend"
	"github.com/flashdec/flashdec/internal/nv"
	"github.com/flashdec/flashdec/kv"
)

var fakeDriver = flag.Bool("fake-driver", false, "the driver is the stand-in")

// TestCloseGivesBackWhatIsOpen, on the stand-in for the driver that package nv is
// tested with. The loader finds it for a process that is started with its folder.
func TestCloseGivesBackWhatIsOpen(t *testing.T) {
	b, err := Open(Config{})
	if *fakeDriver && err != nil {
		t.Fatal(err)
	}
	if err == nil {
		if strings.HasPrefix(b.Info().Device, "Fake ") {
			closeGivesBack(t, b)
			return
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}
	gcc, err := exec.LookPath("gcc")
	if err != nil || runtime.GOOS != "linux" {
		t.Skip("no gcc, or no Linux, to build the fake libcuda.so with")
	}
	const source = "../nv/testdata/fake.c"
	if _, err := os.Stat(source); err != nil {
		t.Skip("the stand-in's source is not here: the test binary runs elsewhere")
	}
	folder := t.TempDir()
	if out, err := exec.Command(gcc, "-shared", "-fPIC", "-o", filepath.Join(folder, "libcuda.so.1"), source).CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v\n%s", err, out)
	}
	again := exec.Command(os.Args[0], "-test.run=^TestCloseGivesBackWhatIsOpen$", "-test.v", "-fake-driver")
	again.Env = append(os.Environ(), "LD_LIBRARY_PATH="+folder)
	if out, err := again.CombinedOutput(); err != nil || !strings.Contains(string(out), "all given back") {
		t.Errorf("with the fake driver: %v\n%s", err, out)
	}
}

func closeGivesBack(t *testing.T, b *Backend) {
	cfg := kv.Config{NumKVHeads: 1, KeyDim: 8, ValueDim: 8, PageSize: 4, NumPages: 8, KeyType: kv.I8, ValueType: kv.F16}
	before := freeMemory(t)
	var caches [2]*kv.Cache
	var views [2]kv.View
	for i := range caches {
		store, err := b.NewStore(cfg)
		if err != nil {
			t.Fatal(err)
		}
		if caches[i], err = kv.NewOn(store, cfg); err != nil {
			t.Fatal(err)
		}
		if views[i], err = caches[i].View(); err != nil {
			t.Fatal(err)
		}
		views[i].Seqs = []kv.Table{{Pages: []kv.PageID{0}, Len: 1}}
	}
	s := &Step{b: b} // a step's kernel is not in the fake driver
	if err := b.Do(func() error { return s.alloc(&s.lost, 4) }); err != nil {
		t.Fatal(err)
	}
	b.owners[s] = struct{}{}
	g, err := b.Capture(func(*nv.Stream) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	if err := caches[0].Close(); err != nil {
		t.Fatal(err)
	}
	if err := views[1].Validate(); err != nil {
		t.Error(err)
	}
	if len(b.owners) != 3 || freeMemory(t) >= before {
		t.Errorf("%d owners of memory, want the open cache, the step and the graph; %d bytes free of %d before", len(b.owners), freeMemory(t), before)
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	if after := freeMemory(t); after != before {
		t.Errorf("%d bytes are not given back", before-after)
	}
	if err := views[1].Validate(); !errors.Is(err, kv.ErrFreed) {
		t.Errorf("a view of the cache: %v, want ErrFreed", err)
	}
	if g.graph != nil {
		t.Error("a graph is not given back")
	}
	if err := errors.Join(caches[1].Close(), s.Close(), g.Close()); err != nil {
		t.Errorf("closing what the backend has closed: %v", err)
	}
	if err := b.Close(); !errors.Is(err, backend.ErrClosed) {
		t.Errorf("a second Close: %v", err)
	}
	if err := b.Do(func() error { return g.Launch(b.stream) }); !errors.Is(err, backend.ErrClosed) {
		t.Errorf("a replay after Close: %v", err)
	}
	if !t.Failed() {
		t.Log("all given back")
	}
}

// freeMemory is what the driver says, in the context that outlives the backend.
func freeMemory(t *testing.T) (free uint64) {
	t.Helper()
	driver, err := nv.Open()
	if err != nil {
		t.Fatal(err)
	}
	device, err := driver.Device(0)
	if err != nil {
		t.Fatal(err)
	}
	ctx, err := device.Retain()
	if err != nil {
		t.Fatal(err)
	}
	defer ctx.Release()
	if err := ctx.Do(func() (err error) {
		free, _, err = ctx.MemInfo()
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return free
}
