package main

import (
	"fmt"
	"math"
	"strings"

	"github.com/alecthomas/kong"
)

type explainCmd struct {
	File   string `arg:"" optional:"" help:"A file with q, k and v. Without it, the derivation's own worked examples."`
	Seq    int    `help:"Which sequence (default ${default})." default:"0" placeholder:"N"`
	Head   int    `help:"Which query head (default ${default})." default:"0" placeholder:"N"`
	Query  *int   `help:"Which of the sequence's new queries. Without it, the newest." placeholder:"N"`
	Splits int    `help:"How many splits to cut the keys into. Without it, or with 0, four." placeholder:"N"`
	JSON   bool   `name:"json" help:"Print one JSON object a worked example, or one for the file."`
	HTML   string `name:"html" help:"Write a page to look at in a browser, which needs no network. With - it goes to standard output." placeholder:"FILE"`
}

func (*explainCmd) Help() string {
	return `Section numbers are those of docs/DERIVATION.md.

Examples, the worked examples and then the attention of a real model:

    flashdec explain

    flashdec explain testdata/real/layer19.safetensors --head 4

    flashdec explain testdata/real/layer19.safetensors --head 5 --html page.html
`
}

// explainedSplits is how many splits are shown where nobody asks for a number.
const explainedSplits = 4

// AfterApply is called by kong once the command line is read. Flags that choose a
// row of a file mean nothing to the worked examples.
func (cmd *explainCmd) AfterApply(given *kong.Context) error {
	if cmd.File != "" {
		return nil
	}
	if flag := givenFlag(given, "seq", "head", "query", "splits"); flag != "" {
		return fmt.Errorf("--%s chooses from a FILE, but no FILE is given", flag)
	}
	return nil
}

func (cmd *explainCmd) Run(i *interrupt, t *terminal) error {
	if cmd.File != "" {
		return cmd.explainFile(i, t)
	}
	if cmd.HTML != "" {
		if err := cmd.checkPage(i); err != nil {
			return err
		}
		page, err := cmd.examplePage()
		if err != nil {
			return err
		}
		if err := cmd.writePage(i, t, page); err != nil || !cmd.JSON {
			return err
		}
	}
	for at, example := range []func() worked{onlineSoftmax, oneTile, rescaling, mergeOfTiles} {
		w := example()
		if cmd.JSON {
			if err := t.emit(w.report); err != nil {
				return err
			}
		} else {
			if at > 0 {
				t.printf("\n\n")
			}
			t.printf("%s\n", w.text)
		}
		if !w.ok {
			return errCheckFailed
		}
	}
	return nil
}

// worked is a worked example, told and as data.
type worked struct {
	text   string
	report any
	ok     bool // both ways of computing it agree
}

// exact is the difference up to which two ways of computing a worked example in
// float64 agree: a few units in the last place of numbers near 1.
const exact = 1e-15

func title(section, text string) string {
	line := fmt.Sprintf("%s  ·  derivation %s", text, section)
	return line + "\n" + strings.Repeat("─", len([]rune(line)))
}

// agree words a comparison, and says whether it holds.
func agree(difference, limit float64) (string, bool) {
	if difference <= limit {
		return fmt.Sprintf("difference %.1g ✓", difference), true
	}
	return fmt.Sprintf("difference %.1g, more than %.1g ✗", difference, limit), false
}

// vector prints numbers with so many decimals, at most six of them.
func vector[F ~float64](x []F, decimals int) string {
	const (
		most = 6
		wide = 1e3 // from here on, decimals take more room than they are worth
	)
	var b strings.Builder
	for i, v := range x {
		if i == most {
			fmt.Fprintf(&b, " … %d more", len(x)-most)
			break
		}
		if i > 0 {
			b.WriteByte(' ')
		}
		if math.Abs(float64(v)) < wide {
			fmt.Fprintf(&b, "%.*f", decimals, float64(v))
		} else {
			fmt.Fprintf(&b, "%.*g", max(decimals-1, 1), float64(v))
		}
	}
	return "[" + b.String() + "]"
}

func softmaxOf(scores []scored, m, l float64) []float64 {
	p := make([]float64, len(scores))
	for i, s := range scores {
		p[i] = math.Exp(s.score-m) / l
	}
	return p
}
