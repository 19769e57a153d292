// Package explain draws the page of flashdec explain --html: one row of attention
// taken apart, in a file that needs nothing else.
//
// The page has its numbers from its caller, and a script that computes the same
// law again for every number of splits and compares. It loads nothing: its
// Content-Security-Policy admits its own script and style, by their hashes, and no
// connection at all.
package explain

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
)

// Page is what the page shows. Texts may be anyone's: they are escaped, and
// characters that would steer the display instead of showing are replaced.
type Page struct {
	Title   string
	Which   string // which row of what
	Command string // that makes the page
	Facts   []Fact

	Softmax   *Softmax   // §2.3.2, or nil
	Vectors   *Vectors   // what the scores were made from, or nil
	Rescaling *Rescaling // §2.4.2, or nil

	Rule       string // how a score comes about
	Keys       int    // the sequence's
	Visible    int    // of them
	Min, Mean  Number // of the visible keys' scores
	Max        Number
	Top        []Key    // the most weighted, in falling order
	HasText    bool     // keys have their tokens' text
	Strip      []Bin    // weights over positions, none for no key
	Text       []Token  // the keys' text under their weights, or nil
	Context    []Phrase // the text around the most weighted keys, or nil
	Steps      []Step   // the recurrence over the whole row, those worth showing
	AllSteps   bool     // Steps has every visible key
	Grew       int      // how often the maximum grew
	States     []Split  // of Data.Splits, beside the merge
	Sink       *Split   // or nil
	Difference Number   // largest, merged beside direct, over all elements and the LSE
	OK         bool     // it is within Data.Limit
	Data       Data
}

// Fact is a line of the page's head.
type Fact struct{ Name, Value string }

// Long reports whether a fact takes a line of its own.
func (f Fact) Long() bool { return len(f.Value) > 30 }

// Key is a visible key.
type Key struct {
	Pos    int
	Text   string // of its token, or empty
	Score  Number
	Exp    Number // exp(s − m)
	Weight Number // exp(s − m) / l
}

// Step is the row's state after one more key (derivation §2.5, 2c).
type Step struct {
	Key     int
	Text    string
	Score   Number
	M, L    Number
	O       []Number
	Grew    bool
	Keep    Number // exp(m − m'), which scales the history
	Add     Number // exp(s − m'), the key's own
	Skipped int    // keys since the step above
}

// Split is one split's state beside what the merge makes of it (derivation §2.4.2).
type Split struct {
	Name     string
	M, L     Number
	O        []Number
	Rescaled Number // exp(m_b − m)
	Moved    Number // exp(m_b − m)·l_b
	Weight   Number // Moved / l
}

// State is a state as the script reads it.
type State struct {
	M Number   `json:"m"`
	L Number   `json:"l"`
	O []Number `json:"o"`
}

// Piece is the state of a few consecutive keys, one where the page has room. The
// script's splits are runs of pieces.
type Piece struct {
	Begin   int `json:"begin"` // keys
	End     int `json:"end"`
	Visible int `json:"visible"` // of them
	State
}

// Data is what the script computes with. States hold the first Shown of the values'
// Elements elements.
type Data struct {
	First     int      `json:"first"` // number of the first key: the derivation counts from 1, files from 0
	Keys      int      `json:"keys"`  // that causality and the window leave
	Elements  int      `json:"elements"`
	Shown     int      `json:"shown"`
	Pieces    []Piece  `json:"pieces"`
	Sink      *Number  `json:"sink"`
	Splits    int      `json:"splits"`
	MaxSplits int      `json:"maxSplits"`
	States    []State  `json:"states"` // of the splits, each walked key by key
	Merged    State    `json:"merged"`
	MergedLSE Number   `json:"-"`
	DirectLSE Number   `json:"directLSE"`
	DirectOut []Number `json:"directOut"`
	Limit     Number   `json:"limit"`     // of |merged − direct|
	SameLimit Number   `json:"sameLimit"` // of the same state computed twice, relative to 1, l and Scale
	Scale     Number   `json:"scale"`     // largest |v|, at least 1
	Steps     []State  `json:"steps"`     // after every visible key, where each is a piece
}

// Softmax is the example of §2.3.2.
type Softmax struct {
	Steps           []Step
	How             []string // how each l came about
	Online, Direct  []Number
	Sum, Difference Number
}

// Vectors are the inputs of the example of §2.4.1.
type Vectors struct {
	Query []Number
	Rows  []VectorRow
}

// VectorRow is a key, its value and its score.
type VectorRow struct {
	Pos        int
	Key, Value []Number
	Score      Number
}

// Rescaling is the example of §2.4.2: a score summed in one tile's frame and moved
// to the common one.
type Rescaling struct{ M1, M2, Score, M, Local, Factor, Moved, Global, Difference Number }

var (
	//go:embed page.html
	pageHTML string
	//go:embed page.css
	pageCSS string
	//go:embed page.js
	pageJS string
)

var pageTemplate = template.Must(template.New("page").Funcs(template.FuncMap{
	"decimal": decimal, "percent": percent, "vector": vector, "tiny": tiny, "printable": Printable, "line": line, "count": count,
	"add": func(a, b int) int { return a + b },
}).Parse(pageHTML))

// Write writes the page. It fails only as w does.
func (p *Page) Write(w io.Writer) error {
	return pageTemplate.Execute(w, struct {
		*Page
		Style  template.CSS
		Script template.JS
		Policy string
	}{p, template.CSS(pageCSS), template.JS(pageJS), policy()})
}

// policy admits the page's own style and script, and nothing from anywhere.
func policy() string {
	return fmt.Sprintf("default-src 'none'; style-src '%s'; script-src '%s'; base-uri 'none'; form-action 'none'", hash(pageCSS), hash(pageJS))
}

func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
