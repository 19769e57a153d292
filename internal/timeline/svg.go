package timeline

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"strconv"
	"strings"
)

// svg is a picture being written. Text and attributes are escaped; what has a
// class takes its looks from the style sheet.
type svg struct{ b bytes.Buffer }

// attr is an attribute: a string, or a float64 in pixels.
type attr struct {
	name  string
	value any
}

// open begins an element.
func (s *svg) open(name string, attrs ...attr) {
	s.element(name, attrs)
	s.b.WriteString(">")
}

// leaf is an element without content.
func (s *svg) leaf(name string, attrs ...attr) {
	s.element(name, attrs)
	s.b.WriteString("/>\n")
}

func (s *svg) close(name string) { fmt.Fprintf(&s.b, "</%s>\n", name) }

func (s *svg) element(name string, attrs []attr) {
	s.b.WriteString("<" + name)
	for _, a := range attrs {
		fmt.Fprintf(&s.b, ` %s="`, a.name)
		if x, ok := a.value.(float64); ok {
			s.b.WriteString(pixels(x))
		} else {
			s.escape(fmt.Sprint(a.value))
		}
		s.b.WriteString(`"`)
	}
}

// escape writes text. What XML cannot hold becomes U+FFFD. A bytes.Buffer takes
// all that is written.
func (s *svg) escape(text string) { _ = xml.EscapeText(&s.b, []byte(text)) }

// pixels is a length in hundredths, without the zeros at its end.
func pixels(x float64) string {
	return strings.TrimSuffix(strings.TrimRight(strconv.FormatFloat(x, 'f', 2, 64), "0"), ".")
}

// text writes a line of text; anchor is "start", "middle" or "end".
func (s *svg) text(class string, x, y float64, anchor, text string) {
	s.open("text", attr{"class", class}, attr{"x", x}, attr{"y", y}, attr{"text-anchor", anchor})
	s.escape(text)
	s.close("text")
}

// rect writes a rectangle, with what a pointer that rests on it is told.
func (s *svg) rect(class string, x, y, width, height float64, told string) {
	attrs := []attr{{"class", class}, {"x", x}, {"y", y}, {"width", width}, {"height", height}}
	if told == "" {
		s.leaf("rect", attrs...)
		return
	}
	s.open("rect", attrs...)
	s.open("title")
	s.escape(told)
	s.b.WriteString("</title></rect>\n")
}

func (s *svg) line(class string, x1, y1, x2, y2 float64) {
	s.leaf("line", attr{"class", class}, attr{"x1", x1}, attr{"y1", y1}, attr{"x2", x2}, attr{"y2", y2})
}
