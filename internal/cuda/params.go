package cuda

import (
	"unsafe"

	"github.com/flashdec/flashdec/internal/nv"
)

// The structs of kernels/params.cuh, field by field.

type planeParams struct {
	data                               nv.Pointer
	pageStride, headStride, slotStride int64 // bytes
}

type scaleParams struct {
	values                             nv.Pointer
	pageStride, headStride, slotStride int64 // floats
	kind                               int32
	_                                  int32
}

type work struct {
	partial    int64
	head       int32
	query      int32 // the item's first query, among all queries of the step
	pos        int32 // position of that query
	maskRow    int32
	origin     int32 // key of the mask's first column
	row, rows  int32 // of the item's rows, those that the block takes
	begin, end int32
	split      int32
	numSplits  int32
	itemRows   int32
	counter    int32
	pageTable  int32
	page       int32 // the page that holds all keys, or -1
	seq        int32 // this and the next two where lengths are read on the device
	capacity   int32
	_          int32
}

const workBytes = int(unsafe.Sizeof(work{}))

type regularParams struct {
	splits              int32
	heads               int32
	begin, end          int32
	step                int32
	each, more          int32
	rows                int32
	pos                 int32
	queries             int32
	pageFirst, pageStep int32
}

type params struct {
	k, v        planeParams
	kScales     scaleParams
	vScales     scaleParams
	q           nv.Pointer // [queries, numHeads, keyDim] float32
	works       nv.Pointer
	pages       nv.Pointer
	out         nv.Pointer // [queries, numHeads, valueDim] float32
	lse         nv.Pointer
	stateM      nv.Pointer
	stateL      nv.Pointer
	partialML   nv.Pointer
	partialO    nv.Pointer
	counters    nv.Pointer
	slopes      nv.Pointer
	sinks       nv.Pointer
	mask        nv.Pointer
	maskKeys    int64
	trace       nv.Pointer
	lens        nv.Pointer
	lost        nv.Pointer
	places      int64
	groupMagic  uint64
	pageMagic   uint64
	regular     regularParams
	numHeads    int32
	group       int32
	keyDim      int32
	valueDim    int32
	pageSize    int32
	causal      int32
	window      int32
	scale       float32
	softcap     float32
	stages      int32
	near        int32
	kType       int32
	vType       int32
	keyChunks   int32
	valueChunks int32
	settled     int32
	byWords     int32
	_           int32
}

type storeParams struct {
	plane        planeParams
	scales       scaleParams
	from         nv.Pointer // [slots, heads, dim] float32, or 0: rows are copied
	spoilt       nv.Pointer
	page, source int64
	slot         int32
	dim          int32
	rowBytes     int32
	kind         int32 // kv.DType
}
