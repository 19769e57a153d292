// Package kv holds the keys and values that decode attention reads: a paged cache,
// and views of tensors that lie elsewhere.
//
//	New ──▶ Cache ──NewSequence, Fork──▶ Sequence ──Append──▶ pages ──Cache.View──▶ View
//	                                     tensors of the caller's ──Contiguous──▶ View
//
// A page holds the keys and values of PageSize tokens, for all KV heads, in the
// order of a [Layout]; a sequence takes pages as it grows and gives them back when it is cut or
// freed. A [View] is all that a kernel needs to know: two planes with strides, and a
// table of pages a sequence. It may be written by hand, for pages that another program
// has laid out.
//
// Elements are stored as a [DType]: floats are rounded to it, quantised ones have
// [Scales].
package kv

// Layout is the order of the dimensions inside a page. Both keep the elements
// of one key (and of one value) together.
type Layout uint8

const (
	// HND keeps each head's tokens together: [NumKVHeads, PageSize, dim]. A
	// decode step walks one head at a time, so this is the faster one to read.
	HND Layout = iota
	// NHD keeps each token's heads together: [PageSize, NumKVHeads, dim].
	NHD
)

// PageID numbers a cache's pages from 0.
type PageID int32

// Plane says where the keys (or the values) of a cache lie: the row of a page,
// KV head and slot starts at element
//
//	page·PageStride + head·HeadStride + slot·SlotStride
//
// of Data and runs over Dim adjacent elements. Strides count elements and are
// not negative; rows may overlap (a stride of 0 repeats a head). A row begins at
// a whole byte, so strides of I4 are even.
type Plane struct {
	Type       DType
	Dim        int
	Data       []byte // little-endian elements; nil where they are in a device's Memory
	PageStride int
	HeadStride int
	SlotStride int
	Scales     Scales // what codes are multiplied by
	Device     Memory

	keep *memory // what Data lies in, when it is not Go's
}

// Table is one sequence's page table: position p lies in slot p mod PageSize of
// page Pages[p / PageSize]. Entries that Len does not need are never read.
//
// One that [Cache.View] made knows its sequence, and [View.Validate] refuses it once
// that has changed. One that is written by hand, or of [Contiguous], has none.
type Table struct {
	Pages []PageID
	Len   int // keys

	of      *Sequence
	version uint64 // of the sequence, when the table was made
}

// View is all that a kernel needs to know of the cached keys and values of a
// decode step's sequences. It borrows the cache's memory: it is valid until one of
// its sequences changes, by Append, Truncate, Forget or Free, or its cache is closed:
// from then on [View.Validate], and so every decode, wraps [ErrStale]. Others may
// change meanwhile.
type View struct {
	K, V       Plane
	NumKVHeads int
	PageSize   int
	NumPages   int
	Seqs       []Table
}
