package main

import (
	"maps"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestInfo(t *testing.T) {
	line := objects(t, want(t, exitDone, "info", "--json").stdout)[0]
	wanted := []string{"backends", "commit", "cpu", "features", "go", "kernel", "platform", "threads", "version"}
	if diff := cmp.Diff(wanted, slices.Sorted(maps.Keys(line))); diff != "" {
		t.Errorf("fields (-want +got):\n%s", diff)
	}
	fits(t, want(t, exitDone, "info").stdout)
}

// The command starts, tells and ends within 50 ms, or, where starting alone takes long, within three times that:
// of the fastest of some tries, for a busy machine delays single ones.
func TestInfoIsQuick(t *testing.T) {
	if underRace() {
		t.Skip("the race detector's own start takes longer")
	}
	took := func(args ...string) time.Duration {
		start := time.Now()
		cmd := exec.Command(os.Args[0], args...)
		cmd.Env = append(os.Environ(), "FLASHDEC_TEST_MAIN=1")
		if report, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, report)
		}
		return time.Since(start)
	}
	bare, info := time.Hour, time.Hour
	for range 10 {
		bare, info = min(bare, took("--version")), min(info, took("info"))
	}
	t.Logf("--version %v, info %v", bare, info)
	if limit := max(50*time.Millisecond, 3*bare); info > limit {
		t.Errorf("info takes %v, want at most %v", info, limit)
	}
}
