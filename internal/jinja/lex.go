package jinja

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

type kind uint8

const (
	eof      kind = iota
	text          // between tags
	open          // {{
	closing       // }}
	blockIn       // {%
	blockOut      // %}
	name
	number
	str
	op
)

type lexeme struct {
	kind kind
	text string
	line int
}

// lexer cuts a source into lexemes.
type lexer struct {
	src       string
	pos, line int
	lineStart bool // only removed white space stands before pos on its line
	out       []lexeme
}

func lex(src string) []lexeme {
	src = strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(src)
	l := &lexer{src: strings.TrimSuffix(src, "\n"), line: 1, lineStart: true}
	for l.pos < len(l.src) {
		l.next()
	}
	return append(l.out, lexeme{eof, "", l.line})
}

func (l *lexer) emit(k kind, s string) { l.out = append(l.out, lexeme{k, s, l.line}) }

// skip moves over n bytes and counts the lines among them.
func (l *lexer) skip(n int) {
	l.line += strings.Count(l.src[l.pos:l.pos+n], "\n")
	l.pos += n
}

// next reads the text up to a tag, and the tag.
func (l *lexer) next() {
	rest := l.src[l.pos:]
	at := tagAt(rest)
	before := rest[:at]
	if at == len(rest) {
		l.emit(text, before)
		l.skip(at)
		return
	}
	sort, flag := rest[at+1], byte(0)
	if at+2 < len(rest) {
		flag = rest[at+2]
	}
	switch {
	case flag == '-':
		before = strings.TrimRightFunc(before, unicode.IsSpace)
	case flag != '+' && sort != '{':
		before = l.stripLine(before)
	}
	if before != "" {
		l.emit(text, before)
	}
	l.skip(at + 2)
	if (flag == '-' || flag == '+') && sort != '#' {
		l.skip(1)
	}
	switch sort {
	case '#':
		end := strings.Index(l.src[l.pos:], "#}")
		if end < 0 {
			fail(l.line, "a comment without an end")
		}
		trim := end > 0 && l.src[l.pos+end-1] == '-'
		l.skip(end + 2)
		l.afterTag(trim, true)
	case '%':
		l.emit(blockIn, "{%")
		l.tag("%}", blockOut)
	default:
		l.emit(open, "{{")
		l.tag("}}", closing)
	}
}

// tagAt returns where the first tag begins, the length if there is none.
func tagAt(s string) int {
	for at := 0; ; at++ {
		i := strings.IndexByte(s[at:], '{')
		if i < 0 || at+i+1 >= len(s) {
			return len(s)
		}
		if at += i; s[at+1] == '{' || s[at+1] == '%' || s[at+1] == '#' {
			return at
		}
	}
}

// stripLine removes the white space of the line that a block stands on
// (lstrip_blocks).
func (l *lexer) stripLine(before string) string {
	start := strings.LastIndexByte(before, '\n') + 1
	if (start > 0 || l.lineStart) && strings.TrimSpace(before[start:]) == "" {
		return before[:start]
	}
	return before
}

// afterTag removes white space behind a tag: all of it after a minus, and one
// line end after a block (trim_blocks).
func (l *lexer) afterTag(trim, block bool) {
	rest := l.src[l.pos:]
	n := 0
	if trim {
		n = len(rest) - len(strings.TrimLeftFunc(rest, unicode.IsSpace))
	} else if block && strings.HasPrefix(rest, "\n") {
		n = 1
	}
	l.lineStart = n > 0 && rest[n-1] == '\n'
	l.skip(n)
}

// tag reads the inside of a tag, up to end.
func (l *lexer) tag(end string, k kind) {
	for depth := 0; ; {
		rest := l.src[l.pos:]
		trimmed := strings.TrimLeftFunc(rest, unicode.IsSpace)
		l.skip(len(rest) - len(trimmed))
		if rest = trimmed; rest == "" {
			fail(l.line, "a tag without an end")
		}
		if depth == 0 {
			for _, flag := range []string{"-", "+", ""} {
				if strings.HasPrefix(rest, flag+end) {
					l.emit(k, end)
					l.skip(len(flag + end))
					l.afterTag(flag == "-", k == blockOut && flag == "")
					return
				}
			}
		}
		switch rest[0] {
		case '(', '[', '{':
			depth++
		case ')', ']', '}':
			depth--
		}
		l.item(rest)
	}
}

// item reads one lexeme of an expression.
func (l *lexer) item(rest string) {
	r, _ := utf8.DecodeRuneInString(rest)
	switch {
	case r == '"' || r == '\'':
		l.quoted(rest)
	case r >= '0' && r <= '9':
		n := runLength(rest, func(r rune) bool { return unicode.IsDigit(r) || r == '_' })
		if n+1 < len(rest) && rest[n] == '.' && rest[n+1] >= '0' && rest[n+1] <= '9' {
			n += 1 + runLength(rest[n+1:], unicode.IsDigit)
		}
		n += exponent(rest[n:])
		l.emit(number, strings.ReplaceAll(rest[:n], "_", ""))
		l.skip(n)
	case r == '_' || unicode.IsLetter(r):
		n := runLength(rest, func(r rune) bool { return r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r) })
		l.emit(name, rest[:n])
		l.skip(n)
	default:
		for _, o := range operators {
			if strings.HasPrefix(rest, o) {
				l.emit(op, o)
				l.skip(len(o))
				return
			}
		}
		fail(l.line, "character %q", r)
	}
}

// operators, the longer before those that begin them.
var operators = []string{
	"==", "!=", "<=", ">=", "//", "**",
	"+", "-", "*", "/", "%", "~", "<", ">", "=", "(", ")", "[", "]", "{", "}", ",", ".", ":", "|",
}

func runLength(s string, in func(rune) bool) int {
	for i, r := range s {
		if !in(r) {
			return i
		}
	}
	return len(s)
}

// exponent returns the length of e5, E-5 or e+5 at the beginning of s.
func exponent(s string) int {
	if s == "" || s[0]|0x20 != 'e' {
		return 0
	}
	sign := 0
	if len(s) > 1 && (s[1] == '-' || s[1] == '+') {
		sign = 1
	}
	if digits := runLength(s[1+sign:], unicode.IsDigit); digits > 0 {
		return 1 + sign + digits
	}
	return 0
}

var escapes = map[byte]string{'n': "\n", 't': "\t", 'r': "\r", '\\': "\\", '\'': "'", '"': "\"", '0': "\x00", 'b': "\b", 'f': "\f", 'v': "\v", 'a': "\a"}

// quoted reads a string.
func (l *lexer) quoted(rest string) {
	var out strings.Builder
	for i := 1; i < len(rest); i++ {
		switch c := rest[i]; {
		case c == rest[0]:
			l.emit(str, out.String())
			l.skip(i + 1)
			return
		case c != '\\' || i+1 == len(rest):
			out.WriteByte(c)
		default:
			i++
			if n, r := codePoint(rest[i:]); n > 0 {
				out.WriteRune(r)
				i += n - 1
			} else if s, ok := escapes[rest[i]]; ok {
				out.WriteString(s)
			} else {
				out.WriteString(rest[i-1 : i+1])
			}
		}
	}
	fail(l.line, "a string without an end")
}

// codePoint reads x41, u0041 or U00000041; n is 0 if s does not begin so.
func codePoint(s string) (n int, r rune) {
	size := map[byte]int{'x': 2, 'u': 4, 'U': 8}[s[0]]
	if size == 0 || len(s) <= size {
		return 0, 0
	}
	for _, c := range s[1 : 1+size] {
		digit := strings.IndexRune("0123456789abcdef", unicode.ToLower(c))
		if digit < 0 {
			return 0, 0
		}
		r = r<<4 | rune(digit)
	}
	return 1 + size, r
}
