package tensorfile

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"maps"
	"slices"
	"strings"
	"testing"
)

// member is an entry of a hand-made zip, free to lie: nil or zero fields say the truth.
type member struct {
	name   string
	body   []byte // as it lies in the archive
	method uint16
	flags  uint16
	size   uint32 // uncompressed, where it is not len(body)
	crc    uint32 // where it is not that of body
}

// zipOf lays out local headers, bodies, the directory and its end as APPNOTE.TXT has them.
func zipOf(members ...member) []byte {
	var b, directory []byte
	for _, m := range members {
		if m.size == 0 {
			m.size = uint32(len(m.body))
		}
		if m.crc == 0 {
			m.crc = crc32.ChecksumIEEE(m.body)
		}
		common := slices.Concat(
			bytesOf([]uint16{20, m.flags, m.method, 0, 0}),
			bytesOf([]uint32{m.crc, uint32(len(m.body)), m.size}),
			bytesOf([]uint16{uint16(len(m.name)), 0}))
		directory = append(directory, "PK\x01\x02\x14\x00"...)
		directory = append(directory, common...)
		directory = append(directory, make([]byte, 2+2+2+4)...)
		directory = binary.LittleEndian.AppendUint32(directory, uint32(len(b)))
		directory = append(directory, m.name...)
		b = slices.Concat(b, []byte("PK\x03\x04"), common, []byte(m.name), m.body)
	}
	count := uint16(len(members))
	end := slices.Concat([]byte("PK\x05\x06"), bytesOf([]uint16{0, 0, count, count}),
		bytesOf([]uint32{uint32(len(directory)), uint32(len(b))}), []byte{0, 0})
	return slices.Concat(b, directory, end)
}

// deflated is an entry as zip's own writer makes it.
func deflated(name string, plain []byte) member {
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	f := must(w.Create(name))
	must(f.Write(plain))
	if err := w.Close(); err != nil {
		panic(err)
	}
	r := must(zip.NewReader(bytes.NewReader(b.Bytes()), int64(b.Len())))
	entry := r.File[0]
	at := must(entry.DataOffset())
	return member{
		name: name, body: b.Bytes()[at:][:entry.CompressedSize64], method: zip.Deflate,
		size: uint32(len(plain)), crc: crc32.ChecksumIEEE(plain),
	}
}

func ucs4(s string) []byte { return bytesOf([]int32([]rune(s))) }

func TestParseNPZ(t *testing.T) {
	q := bytesOf([]float32{1, 2, 3, 4, 5, 6})
	data := zipOf(
		member{name: "q.npy", body: npy("'<f4'", "False", "(2, 3)", q)},
		deflated("layers.0/k.npy", npy("'<f4'", "False", "(3, 2)", q)),
		member{name: "scale.npy", body: npy("'<f8'", "False", "()", bytesOf([]float64{0.125}))},
		member{name: "softcap.npy", body: npy("'<f4'", "False", "(1,)", bytesOf([]float32{0.1}))},
		member{name: "window.npy", body: npy("'<i8'", "False", "()", bytesOf([]int64{-1}))},
		member{name: "seed.npy", body: npy("'<u8'", "False", "()", bytesOf([]uint64{1 << 63}))},
		member{name: "causal.npy", body: npy("'|b1'", "False", "()", []byte{1})},
		member{name: "half.npy", body: npy("'<f2'", "False", "(1, 1)", []byte{0, 0x3e})},
		member{name: "name.npy", body: npy("'<U5'", "False", "()", ucs4("né\U0001F600\x00\x00"))},
		deflated("big.npy", npy("'>U2'", "False", "(1,)", []byte{0, 0, 0, 'o', 0, 0, 0, 'k'})),
		member{name: "bytes.npy", body: npy("'|S5'", "False", "()", []byte("abc\x00\x00"))},
		member{name: "none.npy", body: npy("'<U0'", "False", "()", nil)},
	)
	f, err := ParseNPZ(data)
	if err != nil {
		t.Fatal(err)
	}
	requireSame(t, f.Tensors, []Tensor{
		{"q", F32, []int{2, 3}, q},
		{"layers.0/k", F32, []int{3, 2}, q},
		{"scale", F64, nil, bytesOf([]float64{0.125})},
		{"softcap", F32, []int{1}, bytesOf([]float32{0.1})},
		{"window", I64, nil, bytesOf([]int64{-1})},
		{"seed", U64, nil, bytesOf([]uint64{1 << 63})},
		{"causal", Bool, nil, []byte{1}},
		{"half", F16, []int{1, 1}, []byte{0, 0x3e}},
	})
	want := map[string]string{
		"scale": "0.125", "softcap": "0.1", "window": "-1", "seed": "9223372036854775808", "causal": "true",
		"half": "1.5", "name": "né\U0001F600", "big": "ok", "bytes": "abc", "none": "",
	}
	if !maps.Equal(f.Metadata, want) {
		t.Errorf("metadata %q, want %q", f.Metadata, want)
	}
	stored, _ := f.Tensor("q")
	if at := bytes.Index(data, q); &stored.Data[0] != &data[at] {
		t.Error("a stored entry was copied")
	}
	if f, err := ParseNPZ(zipOf()); err != nil || len(f.Tensors) != 0 {
		t.Errorf("empty archive: %v, %v", f, err)
	}
}

func TestParseNPZRefuses(t *testing.T) {
	array := npy("'<f4'", "False", "(2,)", make([]byte, 8))
	many := npy("'<f4'", "False", "(4096,)", make([]byte, 4*4096))
	edit := func(m member, change func(*member)) []byte { change(&m); return zipOf(m) }
	plain := member{name: "x.npy", body: array}
	for _, c := range []struct {
		name     string
		data     []byte
		sentinel error
		words    string
	}{
		{"nothing", nil, ErrFormat, "zip"},
		{"no directory", zipOf(plain)[:60], ErrFormat, "zip"},
		{"absurd count", slices.Concat([]byte("PK\x05\x06"), make([]byte, 4), []byte{0xff, 0xff, 0xff, 0xff}, make([]byte, 10)), ErrFormat, "zip"},
		{"parent", zipOf(member{name: "../x.npy", body: array}), ErrFormat, `"../x.npy": is not a plain relative path`},
		{"parent inside", zipOf(member{name: "a/../x.npy", body: array}), ErrFormat, "plain relative path"},
		{"root", zipOf(member{name: "/x.npy", body: array}), ErrFormat, "plain relative path"},
		{"backslash", zipOf(member{name: `..\x.npy`, body: array}), ErrFormat, "plain relative path"},
		{"NUL", zipOf(member{name: "a\x00b.npy", body: array}), ErrFormat, "plain relative path"},
		{"not UTF-8", zipOf(member{name: "\xff.npy", body: array}), ErrFormat, "plain relative path"},
		{"no name", zipOf(member{name: ".npy", body: array}), ErrFormat, "plain relative path"},
		{"no npy", zipOf(member{name: "x.pkl", body: array}), ErrFormat, `"x.pkl"`},
		{"folder", zipOf(member{name: "x/"}), ErrFormat, `"x/"`},
		{"twice", zipOf(plain, plain), ErrFormat, `"x.npy" comes twice`},
		{"encrypted", edit(plain, func(m *member) { m.flags = 1 }), ErrFormat, "encrypted"},
		{"bzip2", edit(plain, func(m *member) { m.method = 12 }), ErrFormat, "method 12"},
		{"checksum", edit(plain, func(m *member) { m.crc = 1 }), ErrFormat, "directory says 00000001"},
		{"deflated checksum", edit(deflated("x.npy", array), func(m *member) { m.crc = 1 }), ErrFormat, "checksum"},
		{"stored, but other size", edit(plain, func(m *member) { m.size = 5 }), ErrShape, "5"},
		{"stored in more", edit(plain, func(m *member) { m.body, m.size = append(slices.Clone(array), 0), uint32(len(array)) }), ErrFormat, "stored in"},
		{"stored in less", edit(plain, func(m *member) { m.body, m.size = array[:len(array)-1], uint32(len(array)) }), ErrFormat, "stored in"},
		{"not an npy", zipOf(member{name: "x.npy", body: []byte("hello")}), ErrFormat, `tensor "x"`},
		{"objects", zipOf(member{name: "x.npy", body: npy("'|O'", "False", "()", []byte("\x80\x04N."))}), ErrDType, "pickle"},
		{"npy data missing", zipOf(member{name: "x.npy", body: array[:len(array)-1]}), ErrShape, `tensor "x"`},
		{"npy data left", zipOf(member{name: "x.npy", body: append(slices.Clone(array), 0)}), ErrShape, `tensor "x"`},
		{"strings", zipOf(member{name: "x.npy", body: npy("'<U1'", "False", "(2,)", make([]byte, 8))}), ErrDType, "wanted one"},
		{"no string", zipOf(member{name: "x.npy", body: npy("'<U1'", "False", "(0,)", nil)}), ErrDType, "wanted one"},
		{"past Unicode", zipOf(member{name: "x.npy", body: npy("'<U1'", "False", "()", []byte{0, 0, 0x11, 0})}), ErrFormat, "0x110000"},
		{"past a rune", zipOf(member{name: "x.npy", body: npy("'<U1'", "False", "()", []byte{65, 0, 0, 0x80})}), ErrFormat, "0x80000041"},
		{"surrogate", zipOf(member{name: "x.npy", body: npy("'<U1'", "False", "()", []byte{0, 0xd8, 0, 0})}), ErrFormat, "0xd800"},
		{"bytes not UTF-8", zipOf(member{name: "x.npy", body: npy("'|S1'", "False", "()", []byte{0xff})}), ErrFormat, "UTF-8"},
		{"deflate garbage", edit(deflated("x.npy", array), func(m *member) { m.body = bytes.Repeat([]byte{7}, len(m.body)) }), ErrFormat, `tensor "x"`},
		{"deflate cut", edit(deflated("x.npy", many), func(m *member) { m.body = m.body[:len(m.body)-4] }), ErrFormat, "unexpected EOF"},
		// A small array that is said to be, or that is, large: known from the npy header alone.
		{"declares more than its header", edit(deflated("x.npy", array), func(m *member) { m.size = 5000 }), ErrShape, "directory says 5000"},
		{"declares more than it has", edit(deflated("x.npy", many[:len(many)-9]), func(m *member) { m.size += 9 }), ErrFormat, "inflated"},
		{"ends in its header", edit(deflated("x.npy", array[:70]), func(m *member) { m.size = uint32(len(array)) }), ErrFormat, "inflated 12 bytes of 83"},
		{"string too long", zipOf(deflated("x.npy", npy("'<U5000000'", "False", "()", nil))), ErrTooLarge, "20000000 bytes"},
		{"declares more than deflate can", edit(deflated("x.npy", array), func(m *member) { m.size = 1 << 30 }), ErrTooLarge, "cannot become"},
		{"inflates to more than its header", zipOf(deflated("x.npy", append(slices.Clone(array), make([]byte, 1<<20)...))), ErrShape, "directory says"},
		{"inflates to more than declared", edit(deflated("x.npy", append(slices.Clone(array), make([]byte, 1<<20)...)), func(m *member) {
			m.size = uint32(len(array))
		}), ErrFormat, "wanted the end"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var err error
			got := allocated(func() { _, err = ParseNPZ(c.data) })
			wantError(t, err, c.sentinel, c.words)
			if limit := memoryFor(len(c.data)); got > limit {
				t.Errorf("%d bytes made the parser allocate %d, limit %d", len(c.data), got, limit)
			}
		})
	}
}

func TestParseNPZRefusesOverlap(t *testing.T) {
	// Two entries of the directory that share one body: a quoted bomb in its simplest form. The second
	// local header is the first one's, so its name in the directory is as long.
	array := npy("'<f4'", "False", "(2,)", make([]byte, 8))
	data := zipOf(member{name: "a.npy", body: array}, member{name: "b.npy", body: array})
	second := bytes.LastIndex(data, []byte("PK\x01\x02"))
	binary.LittleEndian.PutUint32(data[second+42:], 0)
	_, err := ParseNPZ(data)
	wantError(t, err, ErrFormat, "overlap", `"a.npy"`, `"b.npy"`)
}

func TestParseNPZRefusesEntryPastTheFile(t *testing.T) {
	array := npy("'<f4'", "False", "(2,)", make([]byte, 8))
	for _, m := range []member{{name: "x.npy", body: array}, deflated("x.npy", array)} {
		data := zipOf(m)
		directory := bytes.LastIndex(data, []byte("PK\x01\x02"))
		binary.LittleEndian.PutUint32(data[directory+20:], 1<<31-1) // compressed size
		_, err := ParseNPZ(data)
		wantError(t, err, ErrFormat, `"x.npy"`, "2147483647 bytes from")
	}
}

func TestParseNPZBoundsInflation(t *testing.T) {
	array := npy("'|u1'", "False", "(10000,)", make([]byte, 10000))
	data := zipOf(deflated("a.npy", array), deflated("b.npy", array))
	budget := 2 * uint64(len(array))
	if _, err := parseNPZ(data, budget); err != nil {
		t.Errorf("at the limit: %v", err)
	}
	_, err := parseNPZ(data, budget-1)
	if err == nil || !strings.Contains(err.Error(), `tensor "b"`) {
		t.Fatalf("past the limit: %v", err)
	}
	stored := zipOf(member{name: "a.npy", body: array})
	if _, err := parseNPZ(stored, 0); err != nil {
		t.Errorf("stored entries count against the limit: %v", err)
	}
}

// TestInflateBudget: what an archive may inflate to is in proportion to its size.
func TestInflateBudget(t *testing.T) {
	for size, want := range map[int]uint64{100: 16 << 20, 1 << 20: 32 << 20, 1 << 30: 4 << 30} {
		if got := inflateBudget(size); got != want {
			t.Errorf("an archive of %d bytes may inflate to %d, want %d", size, got, want)
		}
	}
}
