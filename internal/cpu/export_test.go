package cpu

// NewEager returns a backend that wakes helpers however small a launch is.
func NewEager(opt Options) *Backend {
	b := New(opt)
	b.helperWork = 1
	return b
}
