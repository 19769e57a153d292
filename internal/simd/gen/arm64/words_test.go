package main

import (
	"encoding/binary"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/arch/arm64/arm64asm"
)

// TestWordsAreWhatTheySay disassembles every word that the generator writes and
// compares with the notation beside it, from which a reader takes it.
func TestWordsAreWhatTheySay(t *testing.T) {
	line := regexp.MustCompile(`^\tWORD \$0x([0-9a-f]{8}) // (.*)$`)
	said := map[string]int{}
	for stage, emit := range stages {
		f := new(file)
		emit(f)
		for _, text := range strings.Split(f.assembly(), "\n") {
			if !strings.Contains(text, "WORD") {
				continue
			}
			m := line.FindStringSubmatch(text)
			if m == nil {
				t.Fatalf("%s: %q is not a word and its notation", stage, text)
			}
			word, err := strconv.ParseUint(m[1], 16, 32)
			if err != nil {
				t.Fatal(err)
			}
			if got := disassemble(t, uint32(word)); got != m[2] {
				t.Errorf("%s: word %#x says %q, and is %q", stage, word, m[2], got)
			}
			name, _, _ := strings.Cut(m[2], " ")
			said[name]++
		}
	}
	if len(said) < 30 {
		t.Errorf("only %d different instructions were seen: %v", len(said), said)
	}
}

func disassemble(t *testing.T, word uint32) string {
	t.Helper()
	i, err := arm64asm.Decode(binary.LittleEndian.AppendUint32(nil, word))
	if err != nil {
		t.Fatalf("word %#x: %v", word, err)
	}
	return arm64asm.GNUSyntax(i)
}
