package timeline

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// palette has a colour a sequence, told apart by most eyes, on white and on
// black; the last is for all that have none of their own.
var palette = [...]string{"#4477bb", "#ee8833", "#44aa77", "#cc5577", "#9977cc", "#44aacc", "#bbaa33", "#8c959f"}

const rest = len(palette) - 1

// styleSheet is the looks of all classes, by day and by night. Items of sequence
// colour i are c0 to c7, those of an odd KV head odd, too.
func styleSheet() string {
	var b strings.Builder
	b.WriteString(`
text{font:12px system-ui,-apple-system,"Segoe UI",Helvetica,Arial,sans-serif;fill:#1f2328}
.title{font-size:16px;font-weight:600}
.name{font-size:14px;font-weight:600}
.faint{fill:#59636e}
.small{font-size:10px}
.paper{fill:#ffffff}
.idle{fill:#edeff2}
.merge{fill:#111418}
.grid{stroke:#d1d9e0;stroke-width:1}
.end{stroke:#59636e;stroke-width:1;stroke-dasharray:4 3}
.odd{fill-opacity:.72}
`)
	for i, colour := range palette {
		fmt.Fprintf(&b, ".c%d{fill:%s}\n", i, colour)
	}
	b.WriteString(`@media (prefers-color-scheme:dark){
text{fill:#e6edf3}
.faint{fill:#9da7b3}
.paper{fill:#0d1117}
.idle{fill:#21262d}
.merge{fill:#ffffff}
.grid{stroke:#30363d}
.end{stroke:#9da7b3}
}
`)
	return b.String()
}

// colours says which colour each sequence has, [sequences]: its own where there
// are few of them; where there are many, those with the most keys have.
func colours(r *Run) []int {
	seqs := r.Plan.Config.Seqs
	byKeys := make([]int, len(seqs))
	for i := range byKeys {
		byKeys[i] = i
	}
	named := len(palette)
	if len(seqs) > named {
		named = rest
		slices.SortStableFunc(byKeys, func(a, b int) int { return cmp.Compare(seqs[b].Len, seqs[a].Len) })
	}
	colour := make([]int, len(seqs))
	for place, seq := range byKeys {
		colour[seq] = min(place, len(palette)-1)
		if place >= named {
			colour[seq] = rest
		}
	}
	return colour
}

// key is an entry of the legend.
type key struct{ class, label string }

// legend explains the colours.
func legend(r *Run) []key {
	seqs := r.Plan.Config.Seqs
	colour := colours(r)
	var keys []key
	others := 0
	for i := range palette {
		for seq, c := range colour {
			if c != i {
				continue
			}
			if len(seqs) > len(palette) && c == rest {
				others++
				continue
			}
			keys = append(keys, key{fmt.Sprintf("c%d", c), fmt.Sprintf("sequence %d: %s", seq, count(seqs[seq].Len, "key"))})
		}
	}
	if others > 0 {
		keys = append(keys, key{fmt.Sprintf("c%d", rest), fmt.Sprintf("the other %s", count(others, "sequence"))})
	}
	if r.Plan.Config.NumKVHeads > 1 {
		keys = append(keys, key{"c0 odd", "paler: every other KV head"})
	}
	return append(keys, key{"merge", "merge"}, key{"idle", "waiting"})
}

// count is "1 item", "2 items".
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
