package plan

import "fmt"

func (p *Plan) reason(cuts []cut) string {
	return fmt.Sprintf("%d units for %d processors: %d items", len(p.Units), p.Config.Width, len(p.Items))
}
