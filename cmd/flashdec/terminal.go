package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/term"

	"github.com/flashdec/flashdec/internal/explain"
)

// columns is the width that every report fits into.
const columns = 80

// terminal is where a verb reports to.
type terminal struct {
	out      *bufio.Writer // the report
	errs     io.Writer     // progress and prose beside it
	progress bool          // errs is watched by someone
	watched  bool          // out is, too
	tells    time.Duration // between two lines of progress, where nobody watches
}

func newTerminal(stdout, stderr io.Writer) *terminal {
	return &terminal{bufio.NewWriter(stdout), stderr, isTerminal(stderr), isTerminal(stdout), tellEvery}
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// flush writes what waits. A full disk or a closed pipe must not look like success.
func (t *terminal) flush() error {
	if err := t.out.Flush(); err != nil {
		return fmt.Errorf("writing to standard output: %w", err)
	}
	return nil
}

// printf writes to the report. The buffered writer keeps the first error until
// flush returns it.
func (t *terminal) printf(format string, args ...any) { fmt.Fprintf(t.out, format, args...) }

// stream writes text at once: to a file as it is, to a terminal what one can print.
// Errors wait for flush, as those of printf.
func (t *terminal) stream(text string) {
	if t.watched {
		text = strings.Map(func(r rune) rune {
			if r == '\n' || r == '\t' {
				return r
			}
			return explain.Showable(r)
		}, text)
	}
	t.printf("%s", text)
	_ = t.out.Flush() // the writer keeps the error
}

// emit writes one JSON object as a line, at once: whoever reads along sees each
// when it is known.
func (t *terminal) emit(v any) error {
	encoder := json.NewEncoder(t.out)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(v)
	if flushErr := t.flush(); flushErr != nil {
		return flushErr
	}
	return err
}

// printable is a text with showable runes only: text in files is anyone's.
func printable(s string) string { return strings.Map(explain.Showable, s) }

// quotePath is a path as reports and errors show it: as it is where a terminal
// prints all of it, and otherwise quoted, with the rest escaped as in Go.
func quotePath(path string) string {
	if strings.HasPrefix(path, `"`) || strings.ContainsFunc(path, hidden) {
		return strconv.Quote(path)
	}
	return path
}

// shellWord is a name as a word of a command line that a shell of POSIX reads.
func shellWord(name string) string {
	if strings.HasPrefix(name, "-") {
		name = "./" + name
	}
	if name != "" && !strings.ContainsFunc(name, special) {
		return name
	}
	return "'" + strings.ReplaceAll(name, "'", `'\''`) + "'"
}

// special tells a rune that may mean something to a shell.
func special(r rune) bool {
	return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("_@%+=:,./-", r)
}

// hidden tells a rune that a terminal does not print, and a byte that is part of
// none.
func hidden(r rune) bool { return r == utf8.RuneError || !strconv.IsPrint(r) }

// escape is a text with what a terminal does not print escaped as in Go.
func escape(s string) string {
	if !strings.ContainsFunc(s, hidden) {
		return s
	}
	quoted := strconv.Quote(s)
	return strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`)
}
