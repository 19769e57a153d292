package attn

import "errors"

// The kinds of error that public calls of this project wrap. An error's text
// says what came and what was wanted; errors.Is tells the kind.
var (
	// ErrShape: a buffer's length or a dimension does not fit the others.
	ErrShape = errors.New("shape mismatch")
	// ErrOption: a rule (scale, window, softcap, mask …) has no meaning.
	ErrOption = errors.New("invalid option")
)
