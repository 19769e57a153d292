package kv

import (
	"fmt"

	"github.com/flashdec/flashdec/attn"
)

// Forget gives back the pages whose tokens all stand before position n, and says
// how many tokens went. What is left counts its positions from its own first
// token, and Len is that much less: scores, windows and causality know only
// distances, so a query whose window reaches no further back than n sees the same.
// It is how a layer with a sliding window keeps no more than its window. It wraps
// [attn.ErrShape] or [ErrFreed].
func (s *Sequence) Forget(n int) (forgotten int, err error) {
	if err := s.enter(); err != nil {
		return 0, err
	}
	defer s.mu.Unlock()
	if n < 0 || n > s.n {
		return 0, fmt.Errorf("%w: forgetting what is before token %d of a sequence of %d", attn.ErrShape, n, s.n)
	}
	size := s.cache.cfg.PageSize
	gone := n / size
	if gone > 0 {
		s.version.raise(byForget)
	}
	s.release(s.pages[:gone])
	s.pages, s.n = s.pages[gone:], s.n-gone*size
	return gone * size, nil
}
