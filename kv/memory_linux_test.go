package kv_test

import (
	"errors"
	"math"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/flashdec/flashdec/kv"
)

// Caches that pass every check, and together all that can be addressed, are refused by
// a kind of error of their own; those before them are not touched.
func TestTooLittleMemory(t *testing.T) {
	if math.MaxInt == math.MaxInt32 {
		t.Skip("such sizes fit no int here")
	}
	const most = 5 // of 35 TB of keys and as much of values, where 128 TB can be addressed
	for range most {
		c, err := kv.New(kv.Config{NumKVHeads: 1, KeyDim: 1, ValueDim: 1, PageSize: 1 << 20, NumPages: 1 << 23})
		if err == nil {
			defer c.Close()
			continue
		}
		if !errors.Is(err, kv.ErrMemory) || !errors.Is(err, unix.ENOMEM) {
			t.Fatalf("%v, want it to wrap ErrMemory and ENOMEM", err)
		}
		return
	}
	t.Errorf("%d caches of 70 TB were made", most)
}
