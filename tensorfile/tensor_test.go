package tensorfile

import (
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/x448/float16"
)

// wantError holds an error to its sentinel, to one line, and to the words that tell its cause.
func wantError(t *testing.T, err, sentinel error, words ...string) {
	t.Helper()
	if !errors.Is(err, sentinel) {
		t.Fatalf("error %v, wanted one that is %q", err, sentinel)
	}
	for _, word := range append(words, "tensorfile: ") {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("error %q does not say %q", err, word)
		}
	}
	if strings.Contains(err.Error(), "\n") || len(err.Error()) > 2000 {
		t.Errorf("error %q is not one readable line", err)
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// bytesOf lays out values as a file does.
func bytesOf(values any) []byte {
	return must(binary.Append(nil, binary.LittleEndian, values))
}

func vector(d DType, data []byte) Tensor {
	return Tensor{Name: "x", DType: d, Shape: []int{len(data) / d.Size()}, Data: data}
}

func TestFloat32sOfEveryF16(t *testing.T) {
	for h := range 1 << 16 {
		got := math.Float32bits(widenF16(uint16(h)))
		want := math.Float32bits(float16.Frombits(uint16(h)).Float32())
		if h&0x7c00 == 0x7c00 && h&0x3ff != 0 {
			// float16 makes signalling NaNs quiet; here every payload stays.
			want = uint32(h>>15)<<31 | 0xff<<23 | uint32(h&0x3ff)<<13
		}
		if got != want {
			t.Fatalf("F16 %#04x: got %#08x, want %#08x", h, got, want)
		}
	}
}

// TestFloat32sOfEveryF8 reads the formats as the OCP paper defines them: powers of two and a fraction.
func TestFloat32sOfEveryF8(t *testing.T) {
	for b := range 256 {
		sign := 1 - 2*float64(b>>7)
		e, m := b>>3&0xf, float64(b&7)/8
		want := sign * math.Ldexp(1+m, e-7)
		if e == 0 {
			want = sign * math.Ldexp(m, -6)
		}
		got := float64(must(vector(F8E4M3, []byte{byte(b)}).Float32s())[0])
		if isNaN := b&0x7f == 0x7f; isNaN != math.IsNaN(got) || !isNaN && got != want {
			t.Errorf("F8_E4M3 %#02x: got %v, want %v", b, got, want)
		}

		e, m = b>>2&0x1f, float64(b&3)/4
		switch want = sign * math.Ldexp(1+m, e-15); {
		case e == 0:
			want = sign * math.Ldexp(m, -14)
		case e == 0x1f && m == 0:
			want = sign * math.Inf(1)
		}
		got = float64(must(vector(F8E5M2, []byte{byte(b)}).Float32s())[0])
		if isNaN := e == 0x1f && m != 0; isNaN != math.IsNaN(got) || !isNaN && got != want {
			t.Errorf("F8_E5M2 %#02x: got %v, want %v", b, got, want)
		}
	}
}

func TestFloat32sOfWiderTypes(t *testing.T) {
	signalling := []uint32{0x7f800001, 0xffc01234, 0x7f800000, 0xff800000, 0x80000000, 1}
	for i, v := range must(vector(F32, bytesOf(signalling)).Float32s()) {
		if got := math.Float32bits(v); got != signalling[i] {
			t.Errorf("F32 %#08x came out as %#08x", signalling[i], got)
		}
	}
	halves := []uint16{0x7f81, 0xff80, 0x3f80, 0x8000, 0x0001}
	for i, v := range must(vector(BF16, bytesOf(halves)).Float32s()) {
		if got := math.Float32bits(v); got != uint32(halves[i])<<16 {
			t.Errorf("BF16 %#04x came out as %#08x", halves[i], got)
		}
	}
	doubles := []float64{1 + 0x1p-30, 1e300, -math.MaxFloat32, 0x1p-149, 0.1}
	want := []float32{1, float32(math.Inf(1)), -math.MaxFloat32, 0x1p-149, 0.1}
	if got := must(vector(F64, bytesOf(doubles)).Float32s()); !slices.Equal(got, want) {
		t.Errorf("F64 %v came out as %v, want %v", doubles, got, want)
	}
	if got := must(vector(F64, bytesOf(doubles)).Float64s()); !slices.Equal(got, doubles) {
		t.Errorf("F64 %v came out as %v", doubles, got)
	}
}

func TestInts(t *testing.T) {
	for _, c := range []struct {
		dtype DType
		data  any
		want  []int
	}{
		{I8, []int8{-128, -1, 127}, []int{-128, -1, 127}},
		{I16, []int16{math.MinInt16, 7}, []int{math.MinInt16, 7}},
		{I32, []int32{math.MinInt32, math.MaxInt32}, []int{math.MinInt32, math.MaxInt32}},
		{U8, []uint8{0, 255}, []int{0, 255}},
		{U16, []uint16{0xffff}, []int{0xffff}},
		{Bool, []uint8{0, 1, 255}, []int{0, 1, 1}},
		{I64, []int64{-5}, []int{-5}},
		{U64, []uint64{5}, []int{5}},
		{U32, []uint32{}, []int{}},
	} {
		got, err := vector(c.dtype, bytesOf(c.data)).Ints()
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%v %v: got %v, %v", c.dtype, c.data, got, err)
		}
	}
	_, err := vector(U64, bytesOf([]uint64{1, math.MaxUint64})).Ints()
	wantError(t, err, ErrTooLarge, `"x"`, "element 1")
}

func TestAccessorsRefuse(t *testing.T) {
	_, err := vector(I32, make([]byte, 4)).Float32s()
	wantError(t, err, ErrDType, `"x"`, "I32", "float")
	_, err = vector(F32, make([]byte, 4)).Ints()
	wantError(t, err, ErrDType, `"x"`, "F32", "integer")
	_, err = View[uint32](vector(F32, make([]byte, 4)))
	wantError(t, err, ErrDType, `"x"`, "F32", "uint32")
	_, err = Tensor{Name: "x", DType: F32, Shape: []int{3}, Data: make([]byte, 8)}.Float32s()
	wantError(t, err, ErrShape, `"x"`, "12", "8")
	_, err = Tensor{Name: "x", DType: F32, Shape: []int{-1}}.Float64s()
	wantError(t, err, ErrShape, "-1")
	_, err = View[uint8](Tensor{Name: "x", Shape: []int{}})
	wantError(t, err, ErrDType, "DType(0)")
	_, err = View[uint8](Tensor{Name: "x", DType: DType(99)})
	wantError(t, err, ErrDType, "DType(99)")
}

func TestViewSharesMemoryOnlyWhenAligned(t *testing.T) {
	want := []float32{1, -2, 3.5}
	buf := make([]byte, 32)
	address := uintptr(unsafe.Pointer(unsafe.SliceData(buf)))
	for shift := range 8 {
		data := buf[shift : shift+12]
		copy(data, bytesOf(want))
		got, err := View[float32](vector(F32, data))
		if err != nil || !slices.Equal(got, want) {
			t.Fatalf("shift %d: got %v, %v", shift, got, err)
		}
		shares := unsafe.Pointer(unsafe.SliceData(got)) == unsafe.Pointer(unsafe.SliceData(data))
		aligned := (address+uintptr(shift))%unsafe.Alignof(float32(0)) == 0
		if nativeLittleEndian() && shares != aligned {
			t.Errorf("shift %d: shares %v, aligned %v", shift, shares, aligned)
		}
	}
	if got, err := View[uint16](vector(BF16, nil)); err != nil || len(got) != 0 {
		t.Errorf("empty tensor: got %v, %v", got, err)
	}
}

func TestBytesIsTheReverseOfView(t *testing.T) {
	x := []float32{1, -2, 3}
	data := Bytes(x)
	got, err := View[float32](Tensor{DType: F32, Shape: []int{3}, Data: data})
	if err != nil || !slices.Equal(got, x) || !slices.Equal(data, bytesOf(x)) {
		t.Errorf("%v from %x, %v, want %v", got, data, err, x)
	}
	if nativeLittleEndian() && &got[0] != &x[0] {
		t.Error("copied, where it need not be")
	}
	if data := Bytes([]int64(nil)); len(data) != 0 {
		t.Errorf("%x of nothing", data)
	}
}

func TestByteSize(t *testing.T) {
	const half = math.MaxInt/2 + 1
	for _, c := range []struct {
		shape    []int
		size     int
		sentinel error
	}{
		{nil, 4, nil},
		{[]int{2, 3}, 24, nil},
		{[]int{2, 0, 3}, 0, nil},
		{[]int{half, half}, 0, ErrTooLarge},
		{[]int{half}, 0, ErrTooLarge},     // 0 when it wraps
		{[]int{half / 2}, 0, ErrTooLarge}, // negative when it wraps
		{[]int{0, half, half}, 0, ErrTooLarge},
		{[]int{half, half, 0}, 0, ErrTooLarge},
		{[]int{2, -1}, 0, ErrShape},
		{make([]int, maxRank+1), 0, ErrShape},
	} {
		size, err := byteSize(c.shape, 4)
		if size != c.size || !errors.Is(err, c.sentinel) {
			t.Errorf("%v: got %d, %v, want %d, %v", c.shape, size, err, c.size, c.sentinel)
		}
	}
}
