package network

// MultiplyAdds is how many a prompt of so many tokens takes, with the logits of its last: those of its products, and of its
// queries with the keys and values that they see.
func (n *Network) MultiplyAdds(tokens int) int64 {
	seen := [NumKinds]int64{}
	for k := range seen {
		for i := range tokens {
			lo, hi := n.Attention[k].Span(tokens, tokens, i)
			seen[k] += int64(hi - lo)
		}
	}
	perKey, count := int64(n.Shape.NumHeads*(n.Shape.KeyDim+n.Shape.ValueDim)), n.Head.elements()
	for i := range n.Layers {
		l := &n.Layers[i]
		count += seen[l.Kind] * perKey
		for w := range l.products(n.ExpertsPerToken) {
			count += int64(tokens) * w.elements()
		}
	}
	return count
}

func (m *Matrix) elements() int64 { return int64(m.Rows) * int64(m.Cols) }
