package cpu

import (
	"bytes"
	"encoding/binary"

	"github.com/flashdec/flashdec/kv"
)

// A sum of zeros is as small as a sum whose products were lost among the subnormals, and a row of
// zeros may have a scale of any size. Neither needs more digits than it has: only what is not zero
// counts. Rows that hold anything show it in their first bytes.

// onlyZeros reports whether all values of the keys [lo, hi) are zero, of either sign. It lists
// them where the first sweep is listed.
func (c *stream) onlyZeros(lo, hi int) bool {
	first, data, magnitude := []byte(nil), c.job.v.of(c.item.Head), magnitudes(c.job.launch.KV.V.Type)
	for ; lo < hi; lo += c.job.sweepKeys {
		t := &c.sweeps[0]
		c.gather(t, lo, min(lo+c.job.sweepKeys, hi))
		for _, at := range t.v {
			row := data[at:][:c.job.v.row]
			if first == nil {
				first = row
			} else if bytes.Equal(row, first) {
				continue
			}
			if !zero(row, magnitude) {
				return false
			}
		}
	}
	return true
}

// zero reports whether a row has no bits but those that magnitude leaves out.
func zero(row []byte, magnitude uint64) bool {
	for ; len(row) >= 8; row = row[8:] {
		if binary.LittleEndian.Uint64(row)&magnitude != 0 {
			return false
		}
	}
	var rest [8]byte
	copy(rest[:], row)
	return binary.LittleEndian.Uint64(rest[:])&magnitude == 0
}

// numbers reports whether a row of codes has one that is finite and not zero.
func numbers(row []byte, t kv.DType) bool {
	var endless byte // the first code that is not finite
	switch t {
	case kv.F8E4M3:
		endless = 0x7f
	case kv.F8E5M2:
		endless = 0x7c
	default: // integers have none
		return !zero(row, magnitudes(t))
	}
	for _, code := range row {
		if code &= 0x7f; code != 0 && code < endless {
			return true
		}
	}
	return false
}

// magnitudes are the bits of eight bytes of a type that are not signs of numbers that have two zeros.
func magnitudes(t kv.DType) uint64 {
	switch t {
	case kv.F32:
		return 0x7fffffff_7fffffff
	case kv.F16, kv.BF16:
		return 0x7fff7fff_7fff7fff
	case kv.F8E4M3, kv.F8E5M2:
		return 0x7f7f7f7f_7f7f7f7f
	}
	return ^uint64(0)
}
