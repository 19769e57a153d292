package gpu

import "github.com/flashdec/flashdec/internal/nv"

// The structs of kernels/params.cuh, field by field.

type matrixParams struct {
	data         nv.Pointer
	pitch        int64 // bytes
	expertStride int64
	rows         int32
	elem         elem
}

type outputParams struct {
	w    matrixParams
	bias nv.Pointer
	y    nv.Pointer
}

type storeParams struct {
	data                               nv.Pointer
	pageStride, headStride, slotStride int64 // bytes
	scales                             nv.Pointer
	scalePage, scaleHead, scaleSlot    int64 // floats
}

type rotationParams struct {
	turns          nv.Pointer // float64
	positions      nv.Pointer
	places         nv.Pointer
	kStore, vStore storeParams
	kType, vType   elem
	dim            int32
	pageSize       int32
	adjacent       int32
	scale          float32
}

// finish is what is done with a product.
type finish int32

const (
	store  finish = iota // y = W·x, capped
	add                  // y += W·x
	gated                // y = act(first)·second
	turned               // of q, k and v: turned, and into the cache
)

type productParams struct {
	x          nv.Pointer
	norm       nv.Pointer
	experts    nv.Pointer
	outputs    [3]outputParams
	numOutputs int32
	cols       int32
	tokens     int32
	perToken   int32
	slots      int32
	finish     finish
	gate       int32
	eps        float32
	softcap    float32
	_          int32
	rotation   rotationParams
}

type normParams struct {
	x      nv.Pointer
	weight nv.Pointer
	rows   nv.Pointer
	y      nv.Pointer
	cols   int32
	add    int32
	eps    float32
	_      int32
}

type turnParams struct {
	q, k, v        nv.Pointer
	qNorm, kNorm   nv.Pointer
	rotation       rotationParams
	heads, kvHeads int32
	eps            float32
	_              int32
}

type embedParams struct {
	w     matrixParams
	ids   nv.Pointer
	x     nv.Pointer
	cols  int32
	scale float32
}

type eachParams struct {
	y       nv.Pointer
	u       nv.Pointer
	n       int64
	cols    int32
	gate    int32
	softcap float32
	_       int32
}

type routeParams struct {
	scores   nv.Pointer
	chosen   nv.Pointer
	weights  nv.Pointer
	experts  int32
	perToken int32
}

type mixParams struct {
	answers  nv.Pointer
	weights  nv.Pointer
	y        nv.Pointer
	cols     int32
	perToken int32
	add      int32
	_        int32
}

type convertParams struct {
	from matrixParams
	high nv.Pointer
	low  nv.Pointer
	cols int32
	_    int32
}

type transposeParams struct {
	from       nv.Pointer
	to         matrixParams
	rows, cols int32
	bytes      int32
	_          int32
}

type fillParams struct {
	data   nv.Pointer
	n      int64
	seed   uint64
	elem   elem
	spread float32
}

type floorParams struct {
	data   nv.Pointer
	chunks int64
	sink   nv.Pointer
}
