package model_test

import "testing"

// TestReach: scalings that stretch a context say to how many positions, where the file tells what they stretch; what does
// not, and what is shorter than the model's own, changes nothing.
func TestReach(t *testing.T) {
	const own = 512 // positions of the golden models
	rope := func(kind string, factor float64, original any) map[string]any {
		r := map[string]any{"rope_theta": 500000, "rope_type": kind, "factor": factor}
		if original != nil {
			r["original_max_position_embeddings"] = original
		}
		if kind == "llama3" {
			r["low_freq_factor"], r["high_freq_factor"] = 1, 4
		}
		return map[string]any{"rope_parameters": r}
	}
	for name, c := range map[string]struct {
		edits map[string]any
		reach int
	}{
		"none":                 {rope("default", 1, nil), own},
		"yarn":                 {rope("yarn", 4, 512), 2048},
		"yarn, shorter":        {rope("yarn", 4, 64), own},
		"yarn of what it says": {rope("yarn", 4, nil), own},
		"linear":               {rope("linear", 2.5, 1000), 2500},
		"linear, untold":       {rope("linear", 4, nil), own},
		"llama3":               {rope("llama3", 8, 8192), own},
		"beyond all":           {rope("yarn", 1e300, 512), 1 << 30},
	} {
		if got := openModel(t, folder(t, "testdata/golden/llama3_rope", c.edits)).Config(); got.Reach != c.reach || got.MaxContext != own {
			t.Errorf("%s: made for %d positions, reaching %d, want %d and %d", name, got.MaxContext, got.Reach, own, c.reach)
		}
	}
}
