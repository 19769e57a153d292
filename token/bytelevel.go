package token

import "unicode/utf8"

// A byte-level vocabulary writes each byte as one printable character: bytes
// that are printable in Latin-1 as themselves, the others, in order, as U+0100
// and up (Radford et al., GPT-2, 2019).

// alphabet maps the characters of that writing below U+0144 to bytes; −1 marks
// those that stand for none.
var alphabet = newAlphabet()

func newAlphabet() (bytes [0x144]int16) {
	for i := range bytes {
		bytes[i] = -1
	}
	other := 0x100
	for b := range 256 {
		if '!' <= b && b <= '~' || '¡' <= b && b <= '¬' || '®' <= b && b <= 'ÿ' {
			bytes[b] = int16(b)
		} else {
			bytes[other] = int16(b)
			other++
		}
	}
	return bytes
}

// unwrite returns the bytes that a byte-level token stands for; ok is false
// where one of its characters stands for none.
func unwrite(token string) (raw string, ok bool) {
	out := make([]byte, 0, len(token))
	for i := 0; i < len(token); {
		r, n := utf8.DecodeRuneInString(token[i:])
		if int(r) >= len(alphabet) || alphabet[r] < 0 {
			return "", false
		}
		out = append(out, byte(alphabet[r]))
		i += n
	}
	return string(out), true
}

// byteToken returns the byte that a SentencePiece byte token such as <0x0A>
// stands for.
func byteToken(token string) (b byte, ok bool) {
	if len(token) != 6 || token[:3] != "<0x" || token[5] != '>' {
		return 0, false
	}
	hi, ok1 := hexDigit(token[3])
	lo, ok2 := hexDigit(token[4])
	return hi<<4 | lo, ok1 && ok2
}

func hexDigit(c byte) (byte, bool) {
	switch {
	case '0' <= c && c <= '9':
		return c - '0', true
	case 'A' <= c && c <= 'F':
		return c - 'A' + 10, true
	}
	return 0, false
}
