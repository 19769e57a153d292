package tensorfile

import (
	"context"
	"io"
	"os"

	"github.com/flashdec/flashdec/internal/filemap"
)

// room is where an array goes that cannot be used where it lies. It is written front to back.
type room struct {
	size int      // bytes that will be written
	file *os.File // without a name, or nil:
	data []byte   // in memory
}

// spillFrom is the size in bytes from which an array goes to a temporary file: smaller ones are not
// worth the calls.
const spillFrom = 1 << 20

// fileRoom makes room for exactly size bytes, where it is many and the system allows in a file.
func fileRoom(size int) *room {
	if size >= spillFrom {
		if f, err := temporaryFile(); err == nil {
			return &room{size: size, file: f}
		}
	}
	return memoryRoom(size)
}

// memoryRoom makes room for exactly size bytes in memory.
func memoryRoom(size int) *room { return &room{size: size, data: make([]byte, 0, size)} }

func (r *room) Write(p []byte) (int, error) {
	if r.file != nil {
		n, err := r.file.Write(p)
		if err == nil {
			return n, nil
		}
		if err := r.toMemory(); err != nil {
			return n, err
		}
		r.data = append(r.data, p[n:]...)
		return len(p), nil
	}
	r.data = append(r.data, p...)
	return len(p), nil
}

// toMemory moves what was written out of a file that takes no more.
func (r *room) toMemory() error {
	end, err := r.file.Seek(0, io.SeekCurrent)
	if err != nil {
		return err
	}
	r.data = make([]byte, end, r.size)
	if _, err := r.file.ReadAt(r.data, 0); err != nil {
		return err
	}
	err = r.file.Close()
	r.file = nil
	return err
}

// mapped is the room's bytes, once all are written, and what ends them, if anything has to.
func (r *room) mapped() (mapping, error) {
	if r.file == nil {
		return mapping{data: r.data}, nil
	}
	data, unmap, err := filemap.Map(r.file, r.size)
	r.drop()
	return mapping{data, unmap}, err
}

// drop gives up what is not mapped.
func (r *room) drop() {
	if r.file != nil {
		_ = r.file.Close() // nothing of it is to be kept
		r.file = nil
	}
}

// stepBytes is how much is copied or summed between two looks at a context: some milliseconds' work.
const stepBytes = 1 << 20

// steps cuts data into pieces of at most stepBytes, and ends with ctx's cause.
func steps(ctx context.Context, data []byte, each func(piece []byte) error) error {
	for len(data) > 0 {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		n := min(len(data), stepBytes)
		if err := each(data[:n]); err != nil {
			return err
		}
		data = data[n:]
	}
	return nil
}
