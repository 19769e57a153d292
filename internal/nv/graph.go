package nv

import "unsafe"

// captureThreadLocal is CU_STREAM_CAPTURE_MODE_THREAD_LOCAL: other threads may
// go on using the driver.
const captureThreadLocal = 1

// Graph is captured device work, ready to replay.
type Graph struct {
	ctx    *Context
	handle uintptr
	exec   uintptr
}

// Capture records what f puts into the stream, without running it, and makes it
// ready to replay. It must run on one OS thread: inside [Context.Do].
func (s *Stream) Capture(f func() error) (*Graph, error) {
	d := s.ctx.driver
	if err := d.call(fnStreamBeginCapture, s.handle, captureThreadLocal); err != nil {
		return nil, err
	}
	g := &Graph{ctx: s.ctx}
	err := f()
	if endErr := d.call(fnStreamEndCapture, s.handle, uintptr(unsafe.Pointer(&g.handle))); err == nil {
		err = endErr
	}
	if err != nil {
		g.destroyGraph()
		return nil, err
	}
	if err := d.call(fnGraphInstantiate, uintptr(unsafe.Pointer(&g.exec)), g.handle, 0); err != nil {
		g.destroyGraph()
		return nil, err
	}
	return g, nil
}

// Launch replays the graph in a stream.
func (g *Graph) Launch(s *Stream) error {
	return g.ctx.driver.call(fnGraphLaunch, g.exec, s.handle)
}

// Destroy gives the graph back.
func (g *Graph) Destroy() error {
	err := g.ctx.driver.call(fnGraphExecDestroy, g.exec)
	if graphErr := g.destroyGraph(); err == nil {
		err = graphErr
	}
	return err
}

func (g *Graph) destroyGraph() error {
	if g.handle == 0 {
		return nil
	}
	return g.ctx.driver.call(fnGraphDestroy, g.handle)
}
