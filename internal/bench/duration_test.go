package bench

import "testing"

// TestDurationRoundsIntoItsUnit: no time reads as a thousand of its unit.
func TestDurationRoundsIntoItsUnit(t *testing.T) {
	for seconds, want := range map[float64]string{
		0: "0.00 µs", 1.234e-6: "1.23 µs", 9.994e-6: "9.99 µs", 9.996e-6: "10.0 µs", 121.94e-6: "121.9 µs",
		999.94e-6: "999.9 µs", 999.96e-6: "1.00 ms", 12.345e-3: "12.35 ms", 999.99e-3: "999.99 ms", 0.999996: "1.00 s", 61: "61.00 s",
	} {
		if got := Duration(seconds); got != want {
			t.Errorf("%v s is %q, want %q", seconds, got, want)
		}
	}
}
