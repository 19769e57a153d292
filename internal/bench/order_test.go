package bench_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/flashdec/flashdec/internal/bench"
)

// follows counts who came right after whom, and who was first, in rounds of n that ran.
func follows(t *testing.T, ran []string, n int) (after map[[2]string]int, first map[string]int) {
	t.Helper()
	after, first = make(map[[2]string]int), make(map[string]int)
	for round := range slices.Chunk(ran, n) {
		if sorted := slices.Sorted(slices.Values(round)); len(slices.Compact(sorted)) != n {
			t.Fatalf("round %q, want each of %d once", round, n)
		}
		first[round[0]]++
		for i := range n - 1 {
			after[[2]string{round[i], round[i+1]}]++
		}
	}
	return after, first
}

// orderRun takes rounds of n ways, and notes who ran.
type orderRun func(t *testing.T, n, rounds int, ran *[]string)

var letters = []string{"a", "b", "c", "d", "e", "f"}

// TestEveryWayFollowsEveryOther: of suites, models and prompts, and of the cases that are measured in turns. A cyclic
// shift begins with another way each round, too, but leaves each behind the same one.
func TestEveryWayFollowsEveryOther(t *testing.T) {
	steps := func(name string, ran *[]string) bench.ModelSteps {
		return bench.ModelSteps{Step: func(context.Context) (float64, error) { *ran = append(*ran, name); return 1, nil }}
	}
	timed := func(c *bench.Case, name string, ran *[]string) *bench.Impl {
		return bench.Timed(name, c, 1, 1, func(context.Context) (float64, error) { *ran = append(*ran, name); return 1, nil })
	}
	for kind, run := range map[string]orderRun{
		"suite": func(t *testing.T, n, rounds int, ran *[]string) {
			var reads []string
			c := &bench.Case{Lens: []int{10}}
			list := []*bench.Impl{timed(c, "read", &reads)}
			for _, name := range letters[:n] {
				list = append(list, timed(c, name, ran))
			}
			if err := bench.Measure(t.Context(), [][]*bench.Impl{list}, rounds); err != nil {
				t.Fatal(err)
			}
		},
		"cases": func(t *testing.T, n, rounds int, ran *[]string) {
			var reads []string
			var lists [][]*bench.Impl
			for _, name := range letters[:n] {
				c := &bench.Case{Name: name, Lens: []int{10}}
				lists = append(lists, []*bench.Impl{timed(c, "read", &reads), timed(c, name, ran)})
			}
			if err := bench.Measure(t.Context(), lists, rounds); err != nil {
				t.Fatal(err)
			}
		},
		"model": func(t *testing.T, n, rounds int, ran *[]string) {
			var ways []*bench.ModelSteps
			for _, name := range letters[:n] {
				s := steps(name, ran)
				ways = append(ways, &s)
			}
			if err := bench.MeasureModel(t.Context(), ways, rounds, func(context.Context, int) (float64, error) { return 1, nil }); err != nil {
				t.Fatal(err)
			}
		},
		"prompt": func(t *testing.T, n, rounds int, ran *[]string) {
			var ways []*bench.Prompt
			for _, name := range letters[:n] {
				ways = append(ways, &bench.Prompt{ModelSteps: steps(name, ran)})
			}
			if err := bench.MeasurePrompts(t.Context(), ways, rounds, nil); err != nil {
				t.Fatal(err)
			}
		},
	} {
		for n := 2; n <= len(letters); n++ {
			rounds, times := n, 1
			if n%2 == 1 {
				rounds, times = 2*n, 2
			}
			var ran []string
			run(t, n, rounds, &ran)
			after, first := follows(t, ran[n:], n) // the first round does not count
			for _, x := range letters[:n] {
				if first[x] != times {
					t.Errorf("%s, %d ways: %s is first in %d rounds of %d, want %d", kind, n, x, first[x], rounds, times)
				}
				for _, y := range letters[:n] {
					if got := after[[2]string{x, y}]; x != y && got != times {
						t.Errorf("%s, %d ways: %s comes after %s in %d rounds of %d, want %d", kind, n, y, x, got, rounds, times)
					}
				}
			}
		}
	}
}

// TestAfterSlowWays: slow ways leave after some rounds, and those that stay are balanced without them. Whoever comes
// after a slow one runs once unmeasured first, in the next round, too.
func TestAfterSlowWays(t *testing.T) {
	slow := func(name string) bool { return strings.HasPrefix(name, "c slow") }
	for _, names := range [][]string{
		{"flashdec", "unsplit", "slow direct", "slow plain", "peer"},
		{"flashdec", "unsplit", "slow direct", "slow plain"},
		{"slow", "flashdec", "unsplit", "peer"}, // whose third round ends with the slow one
	} {
		m := &machine{}
		c := &bench.Case{Name: "c", Lens: []int{10}}
		list := []*bench.Impl{m.way(c, "read", 1)}
		for _, name := range names {
			im := m.way(c, name, 1)
			im.Slow = slow("c " + name)
			list = append(list, im)
		}
		if err := bench.Measure(t.Context(), [][]*bench.Impl{list}, 9); err != nil {
			t.Fatal(err)
		}
		stay, rounds := 0, 9
		for _, im := range list[1:] {
			want := 3
			if !im.Slow {
				stay, want = stay+1, rounds
			}
			if im.Rounds() != want {
				t.Errorf("%s: %d rounds, want %d", im.Name, im.Rounds(), want)
			}
		}
		var ways []string // without reads
		for i, name := range m.ran {
			if name != "c read" {
				ways = append(ways, name)
			}
			if !slow(name) {
				continue
			}
			if next := m.ran[i+1:]; next[0] == "c read" && !slow(next[1]) || next[0] != "c read" && next[0] != next[2] {
				t.Errorf("after %s ran %q, want a slow way next, or another once more before its read", name, next[:3])
			}
		}
		after, _ := follows(t, ways[len(ways)-6*stay:], stay)
		for _, x := range names {
			for _, y := range names {
				times, least := after[[2]string{"c " + x, "c " + y}], 6/stay
				if x != y && !slow("c "+x) && !slow("c "+y) && times < least {
					t.Errorf("%s comes after %s in %d of the last 6 rounds, want %d or more", y, x, times, least)
				}
			}
		}
	}
}
