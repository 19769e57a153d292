package cuda

import (
	"errors"
	"testing"

	"github.com/flashdec/flashdec/attn"
	"github.com/flashdec/flashdec/kv"
)

// TestCheckView: what the kernels would read wrongly is refused, not ignored.
func TestCheckView(t *testing.T) {
	half := kv.Plane{Type: kv.F16}
	scaled := kv.Plane{Type: kv.F16, Scales: kv.Scales{Kind: kv.HeadScale, Values: []float32{2}}}
	for name, tc := range map[string]struct {
		view kv.View
		want error
	}{
		"plain":         {kv.View{K: half, V: half}, nil},
		"scaled keys":   {kv.View{K: scaled, V: half}, attn.ErrOption},
		"scaled values": {kv.View{K: half, V: scaled}, attn.ErrOption},
		"codes":         {kv.View{K: half, V: kv.Plane{Type: kv.I8}}, attn.ErrOption},
	} {
		if err := checkView(&tc.view); !errors.Is(err, tc.want) {
			t.Errorf("%s: %v, want %v", name, err, tc.want)
		}
	}
}
