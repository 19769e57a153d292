package cuda

import (
	"github.com/flashdec/flashdec/internal/nv"
)

// Graph is launches that were captured, to be replayed at the cost of one call.
type Graph struct {
	b     *Backend
	graph *nv.Graph // nil once it is given back
}

// Capture records what launch puts into the backend's stream, without running it. It wraps [backend.ErrClosed].
func (b *Backend) Capture(launch func(*nv.Stream) error) (*Graph, error) {
	g := &Graph{b: b}
	b.mu.Lock()
	defer b.mu.Unlock()
	err := b.Do(func() (err error) {
		g.graph, err = b.stream.Capture(func() error { return launch(b.stream) })
		return err
	})
	if err != nil {
		return nil, err
	}
	b.owners[g] = struct{}{}
	return g, nil
}

// Launch replays the graph in a stream, inside [Backend.Do].
func (g *Graph) Launch(s *nv.Stream) error { return g.graph.Launch(s) }

// Close gives the graph back, where the backend's Close has not.
func (g *Graph) Close() error { return g.b.giveBack(g) }

func (g *Graph) free() error {
	if g.graph == nil {
		return nil
	}
	err := g.graph.Destroy()
	g.graph = nil
	return err
}
