package simd

import "math"

// An x of which a few elements dwarf the rest loses in fixed point more than others do: what stands beside an outlier
// shares its unit. Such an x is taken twice, as a rounded one and as what rounding has left: its elements are then off
// by a 64000th of a unit, not of the largest of eight, for twice the instructions (docs/NUMERICS.md).

// unevenFrom is how many times the mean magnitude the root mean square of an uneven x is: 1.25 times it is in a normal
// one. Elements are then off by some five times as much of Σ w·x as a normal x's. docs/calibration.md
const unevenFrom = 3

// uneven reports whether a few elements of x dwarf the rest.
func uneven(x []float32) bool {
	sum := magnitudes(x)
	return float64(len(x))*Squares(x) > unevenFrom*unevenFrom*sum*sum
}

// magnitudes is Σ abs(x_i) over whole blocks, in sums that do not wait for each other.
func magnitudes(x []float32) float64 {
	var a, b, c, d float32
	for ; len(x) >= 4; x = x[4:] {
		a += magnitude(x[0])
		b += magnitude(x[1])
		c += magnitude(x[2])
		d += magnitude(x[3])
	}
	return float64(a) + float64(b) + float64(c) + float64(d)
}

func magnitude(x float32) float32 { return math.Float32frombits(math.Float32bits(x) &^ (1 << 31)) }

// A lane is four elements of either half of a block, which share a unit.
const (
	lanesOfBlock = 4
	laneElements = BlockElements / lanesOfBlock
	mostOfUnit   = 32639 // units of a lane's largest element
)

// inLane is the place in a block of element i of a lane.
func inLane(lane, i int) int { return lane*4 + i%4 + i/4*(BlockElements/2) }

// largestOf is the largest magnitude of a lane of a block.
func largestOf(block []float32, lane int) (top float32) {
	for i := range laneElements {
		top = max(top, magnitude(block[inLane(lane, i)]))
	}
	return top
}

// unitOf is the unit of a lane of a block: a 32639th of its largest element, rounded up to 22 bits.
func unitOf(block []float32, lane int) float32 {
	unit := max(largestOf(block, lane)*float32(1.0/mostOfUnit), 0x1p-126)
	return math.Float32frombits((math.Float32bits(unit) + 3) &^ 3)
}

// leave writes what fixed point leaves of x, finite whole blocks, to rest: an element less the multiple of its lane's
// unit that kernels make of it.
func leave(rest, x []float32) {
	for ; len(x) > 0; rest, x = rest[BlockElements:], x[BlockElements:] {
		for lane := range lanesOfBlock {
			unit := unitOf(x, lane)
			per := 1 / unit
			for i := range laneElements {
				at := inLane(lane, i)
				units := math.RoundToEven(float64(x[at] * per))
				rest[at] = float32(float64(x[at]) - units*float64(unit))
			}
		}
	}
}
