//go:build !unix

package tensorfile

import (
	"errors"
	"os"
)

// release has no counterpart here: what a mapping read stays.
func release([]byte) {}

// temporaryFile has no counterpart here: an open file keeps its name.
func temporaryFile() (*os.File, error) { return nil, errors.ErrUnsupported }
