package tensorfile

import (
	"errors"
	"fmt"

	"github.com/flashdec/flashdec/internal/filemap"
)

// The errors of this package wrap one of these, or an error of package os.
var (
	// ErrFormat: the bytes break the format's rules, or the format cannot say what is to be written.
	ErrFormat = errors.New("format violated")
	// ErrDType: the element type is unknown, or not one that the call can give.
	ErrDType = errors.New("dtype not supported")
	// ErrShape: a dimension is not a count, or shape and bytes disagree.
	ErrShape = errors.New("shape does not fit")
	// ErrTooLarge: a size passes a limit of the format, of this package, or of the address space.
	ErrTooLarge = errors.New("too large")
	// ErrCut: a mapped file was cut short, or its disk failed, and what was read of it is gone. It comes from
	// the decodes and models of this module that read a tensor where it lies; a program's own reads fault.
	ErrCut = filemap.ErrCut
)

// quote is %q for names that come from a file, kept short enough for a line.
func quote(name string) string {
	const most = 80
	if len(name) > most {
		return fmt.Sprintf("%q…", name[:most])
	}
	return fmt.Sprintf("%q", name)
}
