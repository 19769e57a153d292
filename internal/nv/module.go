package nv

import (
	"runtime"
	"unsafe"
)

// Module is loaded device code.
type Module struct {
	ctx    *Context
	handle uintptr
}

// LoadModule loads a cubin, or PTX that ends with a NUL byte.
func (c *Context) LoadModule(image []byte) (*Module, error) {
	m := &Module{ctx: c}
	if err := c.driver.call(fnModuleLoadData, uintptr(unsafe.Pointer(&m.handle)), uintptr(unsafe.Pointer(&image[0]))); err != nil {
		return nil, err
	}
	return m, nil
}

// Unload gives the module back.
func (m *Module) Unload() error { return m.ctx.driver.call(fnModuleUnload, m.handle) }

// Function is a kernel.
type Function struct {
	ctx    *Context
	handle uintptr
}

// Function finds a kernel by its unmangled (extern "C") name.
func (m *Module) Function(name string) (*Function, error) {
	f := &Function{ctx: m.ctx}
	symbol := append([]byte(name), 0)
	if err := m.ctx.driver.call(fnModuleGetFunction, uintptr(unsafe.Pointer(&f.handle)), m.handle, uintptr(unsafe.Pointer(&symbol[0]))); err != nil {
		return nil, err
	}
	return f, nil
}

// FunctionAttribute is a CUfunction_attribute.
type FunctionAttribute int32

const (
	LocalBytes          FunctionAttribute = 3 // of a thread: stack and spills
	Registers           FunctionAttribute = 4
	MaxDynamicShared    FunctionAttribute = 8  // settable
	SharedCarveout      FunctionAttribute = 9  // settable: percent of the L1 cache that is shared memory
	NonPortableClusters FunctionAttribute = 14 // settable: clusters above 8 blocks
)

// Attribute is one number about the kernel.
func (f *Function) Attribute(a FunctionAttribute) (int, error) {
	var v int32
	err := f.ctx.driver.call(fnFuncGetAttribute, uintptr(unsafe.Pointer(&v)), uintptr(a), f.handle)
	return int(v), err
}

// SetAttribute changes one.
func (f *Function) SetAttribute(a FunctionAttribute, value int) error {
	return f.ctx.driver.call(fnFuncSetAttribute, f.handle, uintptr(a), uintptr(value))
}

// Occupancy is how many blocks of the given size run on a multiprocessor at once.
func (f *Function) Occupancy(threads, sharedBytes int) (int, error) {
	var n int32
	err := f.ctx.driver.call(fnOccupancy, uintptr(unsafe.Pointer(&n)), f.handle, uintptr(threads), uintptr(sharedBytes))
	return int(n), err
}

// Dim3 is a size in blocks or threads.
type Dim3 struct{ X, Y, Z uint32 }

// launchConfig is CUlaunchConfig.
type launchConfig struct {
	grid        Dim3
	block       Dim3
	sharedBytes uint32
	_           uint32
	stream      uintptr
	attributes  *[2]launchAttribute // count of them
	count       uint32
	_           uint32
}

// launchAttribute is CUlaunchAttribute: an id and a union of 64 bytes.
type launchAttribute struct {
	id    uint32
	_     uint32
	value [16]uint32
}

// Of CUlaunchAttributeID.
const (
	attributeCluster = 4 // CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
	attributeOverlap = 6 // CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
)

// Launch is the geometry of a kernel launch.
type Launch struct {
	Grid, Block Dim3
	SharedBytes int
	Cluster     int // blocks of a thread-block cluster along x; 0 and 1 are none
	// Overlap lets the kernel start before the one ahead of it in the stream has
	// ended, where that one allows it; the kernel itself waits (griddepcontrol.wait)
	// before it touches what earlier work reads or writes. From compute capability 9.0.
	Overlap bool
}

// attributes are the launch's, and how many.
func (l *Launch) attributes() (list *[2]launchAttribute, count uint32) {
	list = new([2]launchAttribute)
	if l.Cluster > 1 {
		list[count] = launchAttribute{id: attributeCluster, value: [16]uint32{uint32(l.Cluster), 1, 1}}
		count++
	}
	if l.Overlap {
		list[count] = launchAttribute{id: attributeOverlap, value: [16]uint32{1}}
		count++
	}
	return list, count
}

// Launch puts the kernel into the stream. params is the kernel's one parameter,
// a struct passed by value.
func (f *Function) Launch(s *Stream, geometry Launch, params unsafe.Pointer) error {
	var pin runtime.Pinner
	defer pin.Unpin()
	config := &launchConfig{
		grid:        geometry.Grid,
		block:       geometry.Block,
		sharedBytes: uint32(geometry.SharedBytes),
		stream:      s.handle,
	}
	config.attributes, config.count = geometry.attributes()
	pin.Pin(config.attributes)
	pin.Pin(params)
	args := &[1]unsafe.Pointer{params}
	return f.ctx.driver.call(fnLaunchKernelEx, uintptr(unsafe.Pointer(config)), f.handle, uintptr(unsafe.Pointer(args)), 0)
}
