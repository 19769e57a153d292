package bench

import "fmt"

// Duration is a time in the unit that keeps it short, to three digits at the least.
func Duration(seconds float64) string {
	switch { // each border is where the unit below would be rounded to a digit more
	case seconds >= 0.999995:
		return fmt.Sprintf("%.2f s", seconds)
	case seconds >= 0.99995e-3:
		return fmt.Sprintf("%.2f ms", seconds*1e3)
	case seconds >= 9.995e-6:
		return fmt.Sprintf("%.1f µs", seconds*1e6)
	}
	return fmt.Sprintf("%.2f µs", seconds*1e6)
}
