//go:build race

package cpu_test

const raceDetector = true
