package gpu

import (
	"context"
	"errors"
	"fmt"

	"github.com/flashdec/flashdec/internal/nv"
)

// Reader is memory of the GPU to be read, and nothing done with it: no step that reads as much takes less.
type Reader struct {
	d      *Device
	memory memory
	data   nv.Pointer
	sink   nv.Pointer
}

// readerBytes is what a reader reads again and again: many times what caches hold.
const readerBytes = 1 << 30

// NewReader takes a gibibyte of the GPU's memory.
func (d *Device) NewReader() (*Reader, error) {
	if d == nil {
		return nil, errClosed
	}
	r := &Reader{d: d, memory: memory{ctx: d.ctx}}
	err := r.do(func() (err error) {
		if r.data, err = r.memory.take(readerBytes); err != nil {
			return err
		}
		if r.sink, err = r.memory.take(4); err != nil {
			return err
		}
		return launch(d, fillNumbers, grid(16*d.multiprocessors, 1), block, 0, fillParams{data: r.data, n: readerBytes / 4, elem: f32, spread: 1})
	})
	if err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// do runs f under the device's lock, in its context, unless it is closed.
func (r *Reader) do(f func() error) error {
	r.d.mu.Lock()
	defer r.d.mu.Unlock()
	if r.d.closed {
		return errClosed
	}
	return r.d.ctx.Do(f)
}

// Rate reads so many bytes and returns how many a second, by the GPU's clock.
func (r *Reader) Rate(ctx context.Context, bytes int) (rate float64, err error) {
	if r == nil || bytes < 1 {
		return 0, fmt.Errorf("gpu: %d bytes to read, want at least 1, and a reader", bytes)
	}
	err = r.do(func() error {
		seconds, err := r.d.seconds(func() error {
			for left := bytes; left > 0; left -= readerBytes {
				err := launch(r.d, readFloor, grid(8*r.d.multiprocessors, 1), block, 0, floorParams{
					data: r.data, chunks: int64(tiles(min(left, readerBytes), 16)), sink: r.sink,
				})
				if err != nil {
					return err
				}
			}
			return nil
		})
		rate = float64(bytes) / seconds
		return err
	})
	return rate, errors.Join(err, context.Cause(ctx))
}

// seconds is how long what f puts into the stream takes.
func (d *Device) seconds(f func() error) (float64, error) {
	start, err := d.ctx.NewEvent()
	if err != nil {
		return 0, err
	}
	defer start.Destroy()
	end, err := d.ctx.NewEvent()
	if err != nil {
		return 0, err
	}
	defer end.Destroy()
	err = start.Record(d.stream)
	for _, do := range []func() error{f, func() error { return end.Record(d.stream) }, end.Synchronize} {
		if err == nil {
			err = do()
		}
	}
	if err != nil {
		return 0, err
	}
	ms, err := end.Since(start)
	return float64(ms) / 1e3, err
}

// Close gives the memory back.
func (r *Reader) Close() error {
	if r == nil {
		return errClosed
	}
	return r.do(func() error { return errors.Join(r.d.stream.Synchronize(), r.memory.free()) })
}
